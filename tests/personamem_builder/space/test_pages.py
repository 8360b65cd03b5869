"""The pages of a Space in a browser, as files and served, with and without scripts; screenshots are left to look at."""

from __future__ import annotations

import http.server
import json
import re
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from command_line import personamem
from small_datasets import make_dataset
from small_results import right_as_often, write_results

from personamem_builder.audit.audit import audit
from personamem_builder.audit.gates import read_gates
from personamem_builder.audit.render import to_json

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

DESKTOP, PHONE = (1280, 900), (390, 844)
STYLE = Path(__file__).parents[3] / "personamem_builder" / "space" / "space.css"
MODELS = ("gold/llama-70B-instruct", "silver/qwen-32B", "bronze/mistral-large-2411", "tin/gemma-9b-it", "lead/tiny-1B")

Visit = Callable[..., "Page"]


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("number", [0, 1], ids=["light", "dark"])
def test_words_and_marks_stand_out_from_what_they_are_on(number: int) -> None:
    block = re.findall(r":root \{(.*?)\}", STYLE.read_text(encoding="utf-8"), re.DOTALL)[number]
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block))

    def contrast(one: str, other: str) -> float:
        lighter, darker = sorted((luminance(colours[one]), luminance(colours[other])), reverse=True)
        return (lighter + 0.05) / (darker + 0.05)

    for ground in ("back", "pane", "floor-back", "up", "down"):
        assert contrast("text", ground) >= 7
        assert contrast("dim", ground) >= 4.5
        assert contrast("link", ground) >= 4.5
        assert min(contrast("bar", ground), contrast("warn", ground)) >= 3


@pytest.fixture(scope="module")
def space(made_once: Callable[..., Path]) -> Path:
    """A Space of five models, a memory system and its controls, and runs that stand apart, with audit and viewer."""

    def make(folder: Path) -> None:
        data = make_dataset(folder, personas=6)
        found = audit(data, [], read_gates())._replace(source="personamem")
        (data / "audit.json").write_text(json.dumps(to_json(found)), encoding="utf-8")
        results = folder / "results"
        for i, model in enumerate(MODELS):
            write_results(results / f"a{i}", data, model, right_as_often(0.75 - 0.15 * i, i))
            write_results(results / f"b{i}", data, model, right_as_often(0.05, i), kind="_nocontext")
            write_results(results / f"g{i}", data, model, right_as_often(0.8 - 0.15 * i, 100 + i), kind="_generate")
        write_results(results / "p", data, "quick/look", right_as_often(1, 0), limit=5)
        for memory, skill in (("bm25", 0.55), ("dense", 0.45), ("oracle", 0.95), ("wrong-user", 0.0)):
            write_results(results / memory, data, MODELS[0], right_as_often(skill, 9), memory=memory)
        write_results(results / "t", data, MODELS[0], right_as_often(1, 0), memory="leaky", memory_tainted=7)
        done = personamem(
            "space", "--out", folder / "space", "--results", results, "--data", data, "--code", "https://x.org/"
        )
        assert done.exit_code == 0, done.err

    return made_once("space of six", make) / "space"


@pytest.fixture
def visit(chromium: Browser) -> Iterator[Visit]:
    """Open a page; at the end nothing may have gone wrong, or been asked of another place."""
    wrong: list[str] = []
    contexts = []

    def open_(url: str, size: tuple[int, int] = DESKTOP, scheme: str = "light", *, scripts: bool = True) -> Page:
        context = chromium.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme=scheme,  # type: ignore[arg-type]
            java_script_enabled=scripts,
        )
        contexts.append(context)
        page = context.new_page()
        base = url.partition("#")[0].rpartition("/")[0]
        page.on("console", lambda message: wrong.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
        page.on("request", lambda request: wrong.extend([request.url] * (not request.url.startswith(base))))
        page.goto(url)
        return page

    yield open_
    for context in contexts:
        context.close()
    assert wrong == []


@pytest.fixture
def first(space: Path) -> str:
    """The address of the first page as a file."""
    return (space / "index.html").as_uri()


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_it_looks_right(visit: Visit, space: Path, artefacts: Path, size: tuple[int, int], scheme: str) -> None:
    end = f"{'desktop' if size == DESKTOP else 'phone'}-{scheme}"
    for name in ("index", "differences", "audit"):
        page = visit((space / f"{name}.html").as_uri(), size, scheme)
        page.screenshot(path=artefacts / f"space-{name}-{end}.png", full_page=name != "audit")
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
        too_small = page.evaluate(
            """() => [...document.querySelectorAll("td, th, p, li, label, a")]
              .filter((node) => node.textContent.trim() && parseFloat(getComputedStyle(node).fontSize) < 11)
              .map((node) => node.outerHTML)"""
        )
        assert too_small == []
    page = visit((space / "viewer" / "index.html").as_uri(), size, scheme)
    page.wait_for_selector("#chat .message")
    page.screenshot(path=artefacts / f"space-viewer-{end}.png")
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    assert "a sample: 3 of 12 histories" in page.inner_text("#sample")


@pytest.mark.browser
def test_filters_leave_what_was_asked_for_and_stand_in_the_address(visit: Visit, first: str, artefacts: Path) -> None:
    page = visit(first)
    assert page.inner_text("#shown") == "7 models, 3 tables"
    page.select_option("#setting", "generate")
    assert page.locator(".board:visible").count() == 1
    page.select_option("#setting", "")
    page.select_option("#kind", "memory")
    assert page.locator(".board:visible h2").all_inner_texts() == ["32k, full options, with a memory"]
    page.select_option("#kind", "history")
    page.fill("#model", "QWEN")
    assert page.inner_text("#shown") == "1 model, 2 tables"
    assert page.locator("tr.model:visible th").all_inner_texts() == ["silver/qwen-32B"] * 2
    assert page.locator("tr.floor:visible").count() == 2, "floors stay beside"
    assert page.url.endswith("#kind=history&model=QWEN")

    again = visit(page.url)
    assert again.input_value("#model") == "QWEN"
    assert again.inner_text("#shown") == "1 model, 2 tables"
    again.fill("#model", "nobody")
    assert again.is_visible("#nothing")
    again.fill("#model", "quick")
    assert again.locator("tr[data-model]:visible th").all_inner_texts() == [], "a run apart has no table of its own"


@pytest.mark.browser
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_by_a_question_type_its_scores_alone_are_shown_best_first(
    visit: Visit, first: str, artefacts: Path, size: tuple[int, int]
) -> None:
    page = visit(first, size)
    before = page.locator(".board >> nth=0 >> .by-type tbody th").all_text_contents()
    page.select_option("#type", "suggest_new_ideas")
    board = page.locator(".board >> nth=0")
    assert board.locator("thead th:visible").all_inner_texts() == ["model", "new ideas"]
    values = [float(text) for text in board.locator(".by-type td:visible .value").all_inner_texts()]
    assert len(values) == len(MODELS) + 2, "models, the best floor, chance"
    assert values == sorted(values, reverse=True)
    assert not board.locator(".main").is_visible()
    page.screenshot(path=artefacts / f"space-type-{'desktop' if size == DESKTOP else 'phone'}.png", full_page=True)
    page.select_option("#type", "")
    assert board.locator(".main").is_visible()
    assert not board.locator(".by-type").is_visible()
    assert board.locator(".by-type tbody th").all_text_contents() == before


@pytest.mark.browser
def test_without_scripts_all_tables_are_there_and_unfold(visit: Visit, first: str, artefacts: Path) -> None:
    page = visit(first, scripts=False)
    assert not page.locator("#filters").is_visible()
    assert page.locator(".main:visible").count() == 3
    assert page.locator("tr.model:visible th").first.inner_text() == MODELS[0]
    page.locator(".types summary").first.click()
    assert page.locator(".by-type:visible").count() == 1
    page.screenshot(path=artefacts / "space-no-scripts.png")


@pytest.mark.browser
def test_the_keyboard_reaches_filters_tables_and_pages(visit: Visit, first: str) -> None:
    page = visit(first, PHONE)
    reached = []
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate(
                """() => {
                  const at = document.activeElement;
                  const box = at.getBoundingClientRect();
                  const seen = box.bottom > 0 && box.top < innerHeight;
                  const ring = getComputedStyle(at).outlineStyle !== "none";
                  return [at.tagName, at.id || at.textContent.trim().slice(0, 30), seen && ring];
                }"""
            )
        )
    names = [name for _, name, _ in reached]
    for wanted in ("Paired differences", "Audit", "setting", "type", "model", "How to read this", "By question type"):
        assert wanted in names
    assert any(tag == "DIV" for tag, _, _ in reached), "a table that is wider than the page can be scrolled by keys"
    assert [entry for entry in reached if entry[0] != "BODY" and not entry[2]] == []


@pytest.mark.browser
def test_pages_lead_to_one_another_served_as_the_hub_does(visit: Visit, space: Path) -> None:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            """Keep test output quiet."""

    class Server(http.server.ThreadingHTTPServer):
        request_queue_size = 64  # a browser opens several connections at once
        daemon_threads = True

    with Server(("127.0.0.1", 0), partial(Quiet, directory=str(space))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page = visit(f"http://127.0.0.1:{server.server_port}/index.html")
        page.click("text=Paired differences")
        assert page.locator("h1").inner_text() == "Paired differences"
        page.click("text=Histories and answers")
        page.wait_for_selector("#chat .message")
        page.click("#home")
        page.click("text=Audit")
        assert page.locator("h1").inner_text() == "Audit of personamem"
        page.click("text=leaderboard")
        page.click("text=All paired differences >> nth=1")
        assert page.url.endswith("differences.html#board-2")
        page.wait_for_load_state("networkidle")
        page.close()  # what it still asked for would find nobody
        server.shutdown()
