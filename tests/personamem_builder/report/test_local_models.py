"""Local models in reports: called by the end of their paths, however their results lie."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Outcome, personamem
from small_results import right, right_half_the_time, write_results

ONE, OTHER = "/home/me/runs/one/checkpoint-500", "/home/me/runs/other/checkpoint-500"


@pytest.fixture
def results(generated: Path, tmp_path: Path) -> Path:
    """Two models of one last part, and one of another."""
    write_results(tmp_path / "a", generated, ONE, right)
    write_results(tmp_path / "b", generated, OTHER, right_half_the_time)
    write_results(tmp_path / "c", generated, "/srv/models/mine", right_half_the_time)
    return tmp_path


def report(*arguments: object) -> Outcome:
    outcome = personamem("report", *arguments)
    assert outcome.exit_code == 0
    return outcome


def test_models_of_one_last_part_stay_apart_and_no_table_shows_a_whole_path(results: Path) -> None:
    (table,) = json.loads(report(results, "--json").out)["tables"]
    models = {row["model"] for row in table["rows"] if not row["floor"] and row["model"] != "chance"}
    assert sorted(models) == ["mine", "one/checkpoint-500", "other/checkpoint-500"]
    assert "/home/me" not in report(results).out
    (table,) = json.loads(report(results / "a", "--json").out)["tables"]
    assert table["rows"][-1]["model"] == "checkpoint-500"


@pytest.mark.parametrize("first", ["one/checkpoint-500", "runs/one/checkpoint-500", ONE])
def test_a_model_to_compare_may_be_named_by_any_end_of_its_path(results: Path, first: str) -> None:
    compared = json.loads(report(results, "--json", "--compare", first, "mine").out)["comparisons"]
    assert {(one["first"], one["second"]) for one in compared} == {("one/checkpoint-500", "mine")}


def test_labels_of_errors_are_found_again_beside_other_models(results: Path, generated: Path) -> None:
    labels = results / "errors.csv"
    drawn = personamem(
        *("annotate", generated, "--errors", results / "b", "--model", OTHER, "--sample", "3", "--out", labels)
    )
    assert drawn.exit_code == 0
    assert ",checkpoint-500," in labels.read_text(encoding="utf-8")
    assert "Errors of checkpoint-500 on" in report(results, "--data", generated, "--errors", labels).out
