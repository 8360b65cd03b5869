"""The pictures in README and docs: report and viewer of the demo, in both colour schemes. Run it with `make pictures`.

It needs Playwright and a Chromium on the PATH. The colours of a picture are reduced to 64, so that it stays small.
"""

from __future__ import annotations

import io
import shutil
import sys
from pathlib import Path
from typing import Final, Literal

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

ROOT: Final = Path(__file__).resolve().parent.parent
DEMO: Final = ROOT / ".demo"
PICTURES: Final = ROOT / "docs" / "pictures"

QUESTION: Final = "f38d82a807a11695"
"""The one that the README shows."""

MOST_BYTES: Final = 200_000


def show_report(page: Page) -> None:
    """Open the report at its table."""
    page.set_viewport_size({"width": 1180, "height": 700})
    page.goto((DEMO / "report.html").as_uri())


def show_viewer(page: Page) -> None:
    """Open the question, and the latest of its evidence."""
    page.set_viewport_size({"width": 1180, "height": 760})
    page.goto(f"{(DEMO / 'page' / 'index.html').as_uri()}#32k/{QUESTION}")
    page.get_by_text("evidence 2").first.click()
    page.wait_for_timeout(1000)  # the history scrolls there


def take(browser: Browser, name: str, scheme: Literal["dark", "light"]) -> None:
    """Write one picture."""
    page = browser.new_page(color_scheme=scheme)
    {"report": show_report, "viewer": show_viewer}[name](page)
    picture = Image.open(io.BytesIO(page.screenshot()))
    page.close()
    path = PICTURES / f"{name}-{scheme}.png"
    picture.convert("RGB").quantize(64, dither=Image.Dither.NONE).save(path, optimize=True)
    if path.stat().st_size > MOST_BYTES:
        raise SystemExit(f"{path} has {path.stat().st_size:,} bytes, more than {MOST_BYTES:,}")
    sys.stderr.write(f"{path.relative_to(ROOT)}\n")


def main() -> None:
    """Take all of them."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        raise SystemExit("needs a Chromium on the PATH: apt-get install chromium")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name in ("report", "viewer"):
            take(browser, name, "dark")
            take(browser, name, "light")
        browser.close()


if __name__ == "__main__":
    main()
