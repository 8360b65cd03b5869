"""`personamem stats`, as a person runs it."""

from __future__ import annotations

import json
from pathlib import Path

from command_line import personamem

EXCERPT = Path(__file__).parents[3] / "examples" / "official_excerpt"


def test_tables_and_json_say_the_same() -> None:
    text = personamem("stats", EXCERPT)
    assert text.exit_code == 0
    [figures] = json.loads(personamem("stats", EXCERPT, "--json").out)
    assert f"questions  {figures['questions']:>3}" in text.out
    assert "new ideas          5 (29%)" in text.out


def test_pictures_are_named(tmp_path: Path) -> None:
    outcome = personamem("stats", EXCERPT, "--plots", tmp_path / "figures")
    assert outcome.exit_code == 0
    assert outcome.err.splitlines() == [f"wrote {tmp_path / 'figures' / name}" for name in ("32k.svg", "32k.png")]


def test_what_is_not_there_is_one_clear_error(tmp_path: Path) -> None:
    assert "does not exist" in personamem("stats", tmp_path / "nothing").err
    outcome = personamem("stats", EXCERPT, "--split", "2k")
    assert outcome.exit_code == 1
    assert "has no split '2k'" in outcome.err
