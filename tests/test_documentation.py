"""The documentation holds what it shows: Python runs, YAML is YAML, links lead somewhere, targets of make exist."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from test_readme_commands import DOCUMENTS, ROOT

NOT_RUN = "<!-- not run: "
"""Begins the line before a block of Python that is not run, and is followed by the reason."""


class Block(NamedTuple):
    """A block of code in a document."""

    document: str
    number: int
    language: str
    code: str
    runs: bool

    def __str__(self) -> str:
        return f"{self.document}, block {self.number}"


def blocks() -> Iterator[Block]:
    for path in DOCUMENTS:
        text = path.read_text(encoding="utf-8")
        found = re.finditer(r"^([^\n]*)\n```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        for number, block in enumerate(found, 1):
            before, language, code = block.groups()
            yield Block(str(path.relative_to(ROOT)), number, language, code, not before.startswith(NOT_RUN))


BLOCKS = list(blocks())
PYTHON = [block for block in BLOCKS if block.language == "python"]


@pytest.fixture
def workplace(dataset_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a dataset of the name that the documents use, and the files that they say are there."""
    (tmp_path / "personamem").symlink_to(dataset_folder)
    for name, answer in (("samples_pconv", "12"), ("samples_npconv", "-3")):
        samples = [
            {"doc": {"item_id": f"{author}{n}", "author": author, "truth": n}, "resps": [[f"About {answer}."]]}
            for author in ("A", "B")
            for n in range(3)
        ]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, samples)), encoding="utf-8")
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "impact.jsonl").write_text('{"prompt": "How many points?"}\n', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("block", [block for block in PYTHON if block.runs], ids=str)
def test_python_runs(block: Block, workplace: Path) -> None:
    exec(compile(block.code, str(block), "exec"), {"__name__": "documentation"})


def test_there_is_python() -> None:
    documents = {block.document for block in PYTHON}
    assert len(PYTHON) > 7
    assert documents >= {"README.md", "docs/load.md", "docs/memory.md", "docs/quickstart.md"}
    assert sum(not block.runs for block in PYTHON) <= 2


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "yaml"], ids=str)
def test_yaml_is_yaml(block: Block) -> None:
    assert yaml.safe_load(block.code)


def targets() -> set[str]:
    return set(re.findall(r"^([\w-]+):(?!=)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_document_names_is_there(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    links = re.findall(r"\]\((?!\w+:)([^()#\s]+)", text) + re.findall(r"(?:src|srcset)=\"([^\"]+)\"", text)
    pages = [link for link in links if not (path.parent / link).exists()]
    assert pages == []
    named = re.findall(r"(?:^|`)make ([a-z][\w-]*)", text, re.MULTILINE)
    assert set(named) <= targets()


def test_anchors_are_there() -> None:
    for path in DOCUMENTS:
        for link, anchor in re.findall(r"\]\((?!\w+:)([^()#\s]*)#([^()\s]+)\)", path.read_text(encoding="utf-8")):
            target = (path.parent / link) if link else path
            if target.suffix != ".md":
                continue
            assert anchor in anchors(target), f"{path.relative_to(ROOT)}: {link}#{anchor}"


def anchors(path: Path) -> set[str]:
    """Return what the headings of a document are called in links, by the rule of GitHub."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


def test_pictures_are_small() -> None:
    pictures = list((ROOT / "docs" / "pictures").glob("*.png"))
    assert {path.stem for path in pictures} == {"report-dark", "report-light", "viewer-dark", "viewer-light"}
    assert max(path.stat().st_size for path in pictures) <= 200_000


def test_the_version_is_the_same_everywhere() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    (latest, *_) = re.findall(r"^## (\d\S*)", changelog, re.MULTILINE)
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    pyproject = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    assert pyproject
    assert latest == citation["version"] == pyproject[1]
