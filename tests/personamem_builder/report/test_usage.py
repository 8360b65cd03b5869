"""Seconds and tokens of answers, in every form of a report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import Outcome, personamem
from small_results import DATE, right, right_half_the_time, write_lines, write_results

HEADS = ("seconds", "p95", "prompt tokens", "reply tokens", "cached tokens")


def invoke(*args: object, columns: int = 300) -> Outcome:
    return personamem("report", *args, COLUMNS=str(columns))


def measure(folder: Path, **told: Any) -> int:
    """Have the answers of a run take from 0.1 seconds on, each a tenth more; return how many there are."""
    path = folder / f"predictions_{DATE}.jsonl"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    tokens = {"prompt_tokens": 31_000, "reply_tokens": 12, "cached_tokens": 30_000, **told}
    write_lines(path, [line | {"seconds": (number + 1) / 10} | tokens for number, line in enumerate(lines)])
    return len(lines)


@pytest.fixture
def results(generated: Path, tmp_path: Path) -> tuple[Path, int]:
    """Results of an endpoint, and of a model of which nothing is known; and how many questions there are."""
    write_results(tmp_path / "local", generated, "local", right_half_the_time, kind="_generate")
    write_results(tmp_path / "far", generated, "far", right, kind="_generate")
    return tmp_path, measure(tmp_path / "far")


def rows_of(outcome: Outcome) -> dict[str, dict[str, Any]]:
    assert outcome.exit_code == 0, outcome.err
    (table,) = json.loads(outcome.out)["tables"]
    return {row["model"]: row for row in table["rows"]}


def test_json_has_what_answers_took_where_it_is_known(results: tuple[Path, int]) -> None:
    folder, n = results
    rows = rows_of(invoke(folder, "--json"))
    assert {name for name, row in rows.items() if row["usage"]} == {"far"}
    assert rows["far"]["usage"] == {
        "seconds": {"median": pytest.approx((n + 1) / 20), "p95": pytest.approx((1 + 0.95 * (n - 1)) / 10), "n": n},
        "prompt_tokens": {"mean": 31_000, "n": n},
        "reply_tokens": {"mean": 12, "n": n},
        "cached_tokens": {"mean": 30_000, "n": n},
    }


def cells(line: str, mark: str) -> list[str]:
    return [cell.strip() for cell in line.strip(mark + " ").split(mark)]


def test_markdown_has_columns_and_says_what_they_are(results: tuple[Path, int]) -> None:
    folder, n = results
    printed = invoke(folder, "--markdown").out
    lines = [cells(line, "|") for line in printed.splitlines() if line.startswith("|")]
    rows = {line[0]: dict(zip(lines[0], line, strict=True)) for line in lines[2:] if len(line) == len(lines[0])}
    p95 = f"{(1 + 0.95 * (n - 1)) / 10:.2f}"
    expected = [f"{(n + 1) / 20:.2f}", p95, "31,000", "12", "30,000"]
    assert [rows["far"][head] for head in HEADS] == expected
    assert {rows[name][head] for name in ("local", "chance") for head in HEADS} == {"-"}
    assert printed.count("Seconds = wall time of the request that brought the answer") == 1


@pytest.mark.parametrize("columns", [300, 150, 80])
def test_terminals_of_every_width_show_it(results: tuple[Path, int], columns: int) -> None:
    printed = " ".join(invoke(results[0], columns=columns).out.split())
    assert "31,000" in printed
    assert "30,000" in printed
    assert "prompt tokens" in printed
    assert "Seconds = wall time" in printed


def test_latex_and_the_page_have_the_columns(results: tuple[Path, int], tmp_path: Path) -> None:
    latex = invoke(results[0], "--latex").out
    assert " & seconds & p95 & prompt tokens & reply tokens & cached tokens" in latex
    assert "& 31,000 & 12 & 30,000" in latex
    assert r"\par{\footnotesize Seconds = wall time" in latex
    page = tmp_path / "page.html"
    assert invoke(results[0], "--html", page).exit_code == 0
    text = page.read_text(encoding="utf-8")
    assert '<th scope="col" class="number">cached tokens</th>' in text
    assert "Seconds = wall time" in text


def test_what_no_row_has_is_no_column(results: tuple[Path, int]) -> None:
    folder, _ = results
    measure(folder / "far", cached_tokens=None)
    printed = invoke(folder, "--markdown").out
    assert "reply tokens" in printed
    assert "cached tokens" not in printed
    (folder / "far" / f"predictions_{DATE}.jsonl").unlink()
    (folder / "far" / f"results_{DATE}.json").unlink()
    for form in ("--markdown", "--latex", None):
        printed = invoke(folder, *([form] if form else [])).out
        assert "tokens" not in printed
        assert "econds" not in printed


@pytest.mark.parametrize(
    "told",
    [{"seconds": -1}, {"seconds": "1"}, {"prompt_tokens": -1}, {"reply_tokens": 1.5}, {"cached_tokens": 2**40}],
    ids=str,
)
def test_what_is_no_measure_is_one_error(results: tuple[Path, int], told: dict[str, Any]) -> None:
    path = results[0] / "far" / f"predictions_{DATE}.jsonl"
    first, *rest = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    write_lines(path, [first | told, *rest])
    outcome = invoke(results[0] / "far")
    assert outcome.exit_code == 1
    assert f"{path.name}, line 1: {next(iter(told))}" in outcome.err
