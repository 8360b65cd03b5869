"""`personamem init`: the configurations that come with the package, for people to edit."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import fails, personamem, typed

from generation.config import load_config

EXAMPLES = Path(__file__).parents[3] / "examples"


def test_it_writes_every_configuration_and_says_what_to_type_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = personamem("init", "mine")
    assert outcome.exit_code == 0
    expected = {path.relative_to(EXAMPLES) for path in (*EXAMPLES.glob("*.yaml"), *EXAMPLES.glob("eval/*.yaml"))}
    assert {path.relative_to("mine") for path in Path("mine").rglob("*") if path.is_file()} == expected
    assert load_config(Path("mine/full.yaml")).personas == 20
    assert typed(outcome.err.splitlines()[-1]).exit_code == 0


def test_what_is_there_is_left_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tiny.yaml").write_text("mine", encoding="utf-8")
    lines = personamem("init").out.splitlines()
    assert "kept tiny.yaml: it already exists" in lines
    assert "wrote full.yaml" in lines
    assert Path("tiny.yaml").read_text(encoding="utf-8") == "mine"
    assert all(line.startswith("kept ") for line in personamem("init").out.splitlines())


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    fails(personamem("init", tmp_path / "file" / "mine"), f"{tmp_path / 'file' / 'mine'}", "name another folder")
