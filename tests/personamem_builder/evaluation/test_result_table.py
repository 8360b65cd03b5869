"""The table that `personamem eval` ends with, on terminals of several widths."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import personamem

from personamem_builder.evaluation.result_table import fitted

TABLE = """\
|Tasks|Version|     Filter     |n-shot|  Metric   |   |Value |   |Stderr|
|-----|------:|----------------|-----:|-----------|---|-----:|---|-----:|
|gsm8k|      3|flexible-extract|     5|exact_match|↑  |0.1000|±  |0.0100|
|     |       |strict-match    |     5|exact_match|↑  |0.2000|±  |   N/A|
|other|      1|none            |     0|acc        |   |     3|   |      |
"""


def test_a_table_that_fits_is_left_as_it_is() -> None:
    assert fitted(TABLE, 120) == TABLE
    assert fitted("", 80) == ""


def test_a_narrow_table_keeps_every_metric_and_says_what_is_left_out() -> None:
    assert fitted(TABLE, 60).splitlines() == [
        "Tasks                                 Value     Stderr",
        "gsm8k",
        "  exact_match (flexible-extract)  ↑  0.1000  ±  0.0100",
        "  exact_match (strict-match)      ↑  0.2000  ±     N/A",
        "other",
        "  acc                                     3",
        "(version and n-shot are left out: they need 73 columns, and are in the results)",
    ]


@pytest.mark.parametrize("columns", [80, 200])
def test_an_evaluation_ends_with_a_table_that_fits(
    dataset_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.chdir(tmp_path)
    env = {"PERSONAMEM_DATA": str(dataset_folder), "COLUMNS": str(columns)}
    outcome = personamem("eval", "--tasks", "personamem_32k", "--model", "personamem-floor", **env)
    assert outcome.exit_code == 0
    table = outcome.out.splitlines()[1:]
    assert max(map(len, table)) <= columns
    assert any(line.replace("|", " ").split()[:2] == ["acc_macro", "↑"] for line in table) or columns > 80
    assert ("n-shot are left out" in outcome.out) == (columns == 80)
