"""`personamem banks check`: a line for each fault, with file and line."""

from __future__ import annotations

from pathlib import Path

import yaml
from command_line import personamem
from small_banks import tiny_bank, tiny_thread


def written(folder: Path, **changes: object) -> Path:
    path = folder / "chess.yaml"
    path.write_text(yaml.safe_dump(tiny_bank(**changes), sort_keys=False, width=1000), encoding="utf-8")
    return path


def test_a_good_bank_is_said_to_be_one_and_what_comes_next(tmp_path: Path) -> None:
    path = written(tmp_path)
    outcome = personamem("banks", "check", path)
    assert outcome.exit_code == 0
    assert outcome.out == f"{path}: no faults; 6 items, 1 slots, 1 kinds of facts, 5 threads\n"
    assert "personamem generate" in outcome.err


def test_every_fault_is_a_line_with_its_place(tmp_path: Path) -> None:
    thread = {**tiny_thread("free"), "exchanges": [{"user": "I do blitz games.", "assistant": "That is a own game."}]}
    path = written(tmp_path, threads=[*tiny_bank()["threads"], thread])
    outcome = personamem("banks", "check", path)
    assert outcome.exit_code == 1
    lines = path.read_text(encoding="utf-8").splitlines()
    number = next(i for i, line in enumerate(lines, start=1) if "I do blitz games." in line)
    assert outcome.out.startswith(f"{path}:{number}: 'I do blitz games.' names 'blitz games'\n")
    assert "error: 1 fault" in outcome.err


def test_english_is_looked_at_where_the_form_is_right(tmp_path: Path) -> None:
    path = written(tmp_path, idea_queries=["What is a own idea?"])
    outcome = personamem("banks", "check", path)
    assert outcome.exit_code == 1
    assert "a before a vowel: 'a own'" in outcome.out


def test_names_that_another_topic_uses_are_faults(tmp_path: Path) -> None:
    bank = tiny_bank(idea_queries=["Something like baking sourdough?"])
    (tmp_path / "chess.yaml").write_text(yaml.safe_dump(bank), encoding="utf-8")
    outcome = personamem("banks", "check", tmp_path / "chess.yaml")
    assert outcome.exit_code == 1
    line = next(
        i for i, text in enumerate((tmp_path / "chess.yaml").read_text().splitlines(), 1) if "sourdough" in text
    )
    assert f"{tmp_path / 'chess.yaml'}:{line}: 'baking sourdough' is a name of foodRecommendation" in outcome.out


def test_several_files_are_checked_each(tmp_path: Path) -> None:
    good, bad = written(tmp_path), tmp_path / "go.yaml"
    bad.write_text("id: go\n", encoding="utf-8")
    outcome = personamem("banks", "check", good, bad)
    assert outcome.exit_code == 1
    assert f"{good}: no faults" in outcome.out
    assert f"{bad}:1: label: Field required" in outcome.out


def test_what_is_no_file_is_one_error(tmp_path: Path) -> None:
    outcome = personamem("banks", "check", tmp_path / "none.yaml")
    assert outcome.exit_code == 1
    assert "none.yaml: No such file" in outcome.err
