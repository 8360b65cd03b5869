"""What many tests share: the excerpt of the official release, a dataset folder made of it, and a fresh Python."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from filelock import FileLock
from hypothesis import settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).parents[1]

# Read here, as tests do not see the settings of the user.
_ARTEFACTS = os.environ.get("PERSONAMEM_ARTEFACTS")

# The first example of a test may load what the others share.
settings.register_profile("personamem", deadline=None, max_examples=30)
settings.register_profile("thorough", deadline=None)  # for `make test-slow`
settings.load_profile("personamem")

Python = Callable[..., "subprocess.CompletedProcess[str]"]
MadeOnce = Callable[[str, Callable[[Path], object]], Path]


def pytest_configure(config: pytest.Config) -> None:
    # `datasets` reads these once, when it is imported: no test sees or fills the user's caches, or asks the Hub.
    os.environ["HF_HOME"] = tempfile.mkdtemp(prefix="personamem-tests-")
    os.environ["HF_HUB_OFFLINE"] = "1"
    # A job in the background of a shell is started to ignore Ctrl-C, and would hand that on to the commands under test.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(os.environ["HF_HOME"], ignore_errors=True)


@pytest.fixture(autouse=True)
def _no_settings_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("PERSONAMEM_"):
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def excerpt() -> Path:
    """Two contexts of one persona and their 17 questions, as the official release has them."""
    return ROOT / "examples" / "official_excerpt"


@pytest.fixture(scope="session")
def release_dir() -> Path:
    """The official files of the split 32k, where they lie beside the checkout."""
    folder = ROOT.parent / "shared" / "data" / "personamem_v1"
    if not (folder / "questions_32k.csv").is_file():
        pytest.skip("the official 32k files are not beside this checkout (shared/data/personamem_v1)")
    return folder


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> MadeOnce:
    """Make a folder once for all processes that share the tests; tests leave it as it is.

    It is given its name, which is that of what is made, and a function that makes it at the path it is given.
    """
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "made_once"
    folder.mkdir(exist_ok=True)

    def made(name: str, make: Callable[[Path], object]) -> Path:
        with FileLock(folder / f"{name}.lock"):
            if not (folder / name).exists():
                unfinished = folder / f"{name}.unfinished"
                shutil.rmtree(unfinished, ignore_errors=True)
                unfinished.mkdir()
                make(unfinished)
                unfinished.rename(folder / name)
        return folder / name

    return made


@pytest.fixture(scope="session")
def dataset_folder(made_once: MadeOnce, excerpt: Path) -> Path:
    """A dataset folder made of the excerpt; tests leave it as it is."""
    from personamem_builder.build.from_official import import_release

    return made_once("excerpt", lambda folder: import_release(excerpt, folder / "personamem")) / "personamem"


@pytest.fixture(scope="session")
def official(made_once: MadeOnce, release_dir: Path) -> Path:
    """A dataset folder made of the official split 32k; tests leave it as it is."""
    from personamem_builder.build.from_official import import_release

    return made_once("official", lambda folder: import_release(release_dir, folder / "personamem")) / "personamem"


@pytest.fixture(scope="session")
def tiny_run(made_once: MadeOnce) -> Path:
    """The run of `examples/tiny.yaml`, all stages and no split assembled; tests leave it as it is."""
    from small_runs import make_run, tiny_work

    return made_once("tiny", lambda folder: make_run(tiny_work(), folder / "run")) / "run"


@pytest.fixture(scope="session")
def fair_run(made_once: MadeOnce) -> Path:
    """A run without a leak, see `small_leaks`; tests leave it as it is."""
    from small_leaks import make_fair_run

    return made_once("fair", lambda folder: make_fair_run(folder / "run")) / "run"


@pytest.fixture(scope="session")
def generated(made_once: MadeOnce, tiny_run: Path) -> Path:
    """The dataset of that run, the split 32k; beside it `run`, where it is assembled. Tests leave both as they are."""
    from small_datasets import build_dataset

    def make(folder: Path) -> None:
        shutil.copytree(tiny_run, folder / "run")
        build_dataset(folder)

    return made_once("generated", make) / "personamem"


@pytest.fixture
def python(tmp_path: Path) -> Python:
    """Run code in a new interpreter that has no settings of the user and cannot reach the Hub."""

    def run(
        code: str, *arguments: str, cwd: Path = tmp_path, exits: int = 0, **more: str
    ) -> subprocess.CompletedProcess[str]:
        env = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "PERSONAMEM_"))}
        env |= {"PYTHONPATH": str(ROOT), "HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "1"}
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            cwd=cwd,
            env=env | more,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == exits, done.stderr
        return done

    return run


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """A headless Chromium of the system (Debian's package `chromium`), driven by Playwright."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: make test-browser")
    executable = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if executable is None:
        pytest.skip("needs a Chromium on the PATH: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def artefacts() -> Path:
    """Where screenshots go, for a person to look at: `PERSONAMEM_ARTEFACTS`, or `build/screenshots`."""
    folder = Path(_ARTEFACTS or ROOT / "build" / "screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
