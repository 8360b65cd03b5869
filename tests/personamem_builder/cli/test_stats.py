"""`personamem stats`, as a person runs it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from command_line import personamem

EXCERPT = Path(__file__).parents[3] / "examples" / "official_excerpt"


def test_tables_and_json_say_the_same() -> None:
    text = personamem("stats", EXCERPT)
    assert text.exit_code == 0
    [figures] = json.loads(personamem("stats", EXCERPT, "--json").out)
    assert f"questions  {figures['questions']:>3}" in text.out
    assert "5 (29.4%)" in text.out


def test_pictures_are_named(tmp_path: Path) -> None:
    outcome = personamem("stats", EXCERPT, "--plots", tmp_path / "figures")
    assert outcome.exit_code == 0
    assert outcome.err.splitlines() == [f"wrote {tmp_path / 'figures' / name}" for name in ("32k.svg", "32k.png")]


def test_a_page_and_a_run(tiny_run: Path, tmp_path: Path) -> None:
    assert personamem("stats", tiny_run, "--html", tmp_path / "run.html").exit_code == 0
    assert "questions by how the evidence is told" in (tmp_path / "run.html").read_text(encoding="utf-8")


def test_a_folder_without_contexts_is_one_clear_error_and_its_questions_alone_are_none(tmp_path: Path) -> None:
    shutil.copy(EXCERPT / "questions_32k.csv", tmp_path)
    outcome = personamem("stats", tmp_path)
    assert outcome.exit_code == 1
    assert f"{tmp_path} has no shared contexts of 32k" in outcome.err
    assert personamem("stats", tmp_path / "questions_32k.csv").exit_code == 0


def test_what_is_not_there_is_one_clear_error(tmp_path: Path) -> None:
    assert "does not exist" in personamem("stats", tmp_path / "nothing").err
    outcome = personamem("stats", EXCERPT, "--split", "2k")
    assert outcome.exit_code == 1
    assert "has no split '2k'" in outcome.err
