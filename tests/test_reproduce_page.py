"""`docs/reproduce.md` can be followed: its commands run, on the excerpt, with an endpoint on this machine."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import personamem
from loopback_chat import LoopbackChat, Message

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "reproduce.md").read_text(encoding="utf-8")
EXCERPT = ROOT / "examples" / "official_excerpt"


def commands(section: str) -> list[list[str]]:
    """Return the commands of a section, by the letter before its title."""
    own = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    (text,) = [part for part in own if part.startswith(f"{section}. ")]
    blocks = re.findall(r"^```\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("personamem ")]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    def answer(messages: list[Message]) -> str:
        return f"It fits. <final_answer>({'abcd'[len(messages[-1]['content']) % 4]})"

    with LoopbackChat(answer) as server:
        yield f"{server.url}/v1/chat/completions"


@pytest.fixture
def workplace(tmp_path: Path, dataset_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    shutil.copytree(dataset_folder, tmp_path / "personamem")
    (tmp_path / "paper.txt").write_text("Pick one and write its letter after <final_answer>.", encoding="utf-8")
    return tmp_path


def run(command: list[str], url: str) -> str:
    words = [word.replace("MODEL", "demo").replace("URL", url) for word in command]
    outcome = personamem(*words, COLUMNS="200")
    assert outcome.exit_code == 0, (words, outcome.err)
    return outcome.out


@pytest.mark.slow
def test_the_page_can_be_followed_with_an_endpoint(workplace: Path, url: str) -> None:
    for command in commands("A"):
        run(command, url)
    report = run(["report", "results", "--html", "report.html", "--plots", "figures"], url)
    for said in ("demo (instruction=", "roles=verbatim)", "demo (no context)", "floor: longest", "seconds", "Memind"):
        assert said in report
    drawn = {path.stem.partition("_generate-")[2] for path in Path("figures").glob("*.svg")}
    assert {"types", "sessions", "tokens", "position", "scores"} <= drawn
    for command in commands("D"):
        assert "questions by type" in run(command, url)
    annotate, _ = commands("E")
    run(annotate, url)
    assert Path("study/sheet.html").exists()
    errors, _, labelled = commands("F")
    run(errors, url)
    run(labelled, url)
