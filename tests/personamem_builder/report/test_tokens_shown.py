"""Accuracy against tokens shown: where each run stands, which no other beats, and what is said of the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import personamem
from small_results import right, right_half_the_time, write_results

from personamem_builder.dataset.check import read_questions
from personamem_builder.drawing.svg import to_svg
from personamem_builder.report import draw
from personamem_builder.report.breakdown import Analysis
from personamem_builder.report.page import to_html
from personamem_builder.report.question_columns import find_questions
from personamem_builder.report.report import Report, make_report
from personamem_builder.results.runs import read_runs


def measured(tokens: float, **more: float) -> list[dict[str, Any]]:
    lines = [{"measure": "tokens per query", "unit": "tokens", "value": tokens, "n": 4}]
    units = {"seconds per query": "seconds", "seconds per session": "seconds", "cost per session": "dollars"}
    return lines + [{"measure": name, "unit": units[name], "value": value, "n": 4} for name, value in more.items()]


@pytest.fixture(scope="module")
def results(generated: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    costs = {"seconds per query": 0.02, "seconds per session": 1.5, "cost per session": 0.0004}
    runs: list[tuple[str, Any, dict[str, Any]]] = [
        ("full", right, {}),
        ("bm25", right, {"memory": "bm25", "k": 10, "memory_measures": measured(800, **costs)}),
        ("dense", right_half_the_time, {"memory": "dense", "k": 10, "memory_measures": measured(900)}),
        ("recent", right_half_the_time, {"memory": "recent", "settings": {"tokens": 500}, "budget_tokens": 500}),
        ("oracle", right, {"memory": "oracle"}),
    ]
    for name, choose, metadata in runs:
        write_results(folder / name, generated, "m", choose, **metadata)
    return folder


def report_of(folder: Path, data: Path) -> Report:
    runs = read_runs([folder]).runs
    return make_report(runs, find_questions(runs, str(data)))


def picture(report: Report) -> Analysis | None:
    analyses = [one for section in report.sections for one in section.results if isinstance(one, Analysis)]
    return next((one for one in analyses if one.name == "tokens-shown"), None)


def test_runs_stand_at_the_tokens_that_they_showed(results: Path, generated: Path) -> None:
    found = picture(report_of(results, generated))
    assert found is not None
    lengths = [row["context_length_in_tokens"] for row in read_questions(generated, "32k").to_pylist()]
    assert found.places == (500, 800, 900, sum(lengths) / len(lengths))
    assert [name.split(": ")[1] for name in found.bins] == [
        "m [recent, budget_tokens=500, tokens=500]", "m [bm25, k=10]", "m [dense, k=10]", "m"
    ]  # fmt: skip
    means = [next(e.value for series in found.series.values() if (e := series[i])) for i in range(4)]
    assert means == [pytest.approx(0.5, abs=0.02), 1.0, means[0], 1.0]
    front, costs, *more = found.remarks
    assert front == (
        "No other is better with as few tokens: m [recent, budget_tokens=500, tokens=500]; m [bm25, k=10]."
    )
    assert costs == (
        "m [bm25, k=10]: tokens per query 800, seconds per query 0.0200 s, seconds per session 1.5000 s, "
        "cost per session 0.0004 dollars."
    )
    assert more[-1] == "How many tokens were shown is not known: m [oracle]."


def test_the_picture_is_on_the_page_and_among_the_plots(results: Path, generated: Path, tmp_path: Path) -> None:
    report = report_of(results, generated)
    page = to_html(report)
    assert "Accuracy against tokens shown" in page
    assert "800 tokens: m [bm25, k=10]" in page
    found = picture(report)
    assert found is not None
    drawing = draw.draw(found)
    marks = [shape for shape in drawing.shapes if shape.kind == "area" and shape.look.startswith("m")]
    right_half = {shape.points[0][0] for shape in marks if shape.points[0][0] > 40}
    assert len(right_half) == 4, "each run has a place of its own"
    assert all(0 <= x <= draw.WIDTH for shape in drawing.shapes for x, _ in shape.points)
    for step in ("0", "100", "1,000", "10,000"):
        assert f">{step}<" in to_svg(drawing, found.title, "")
    outcome = personamem("report", results, "--data", generated, "--html", tmp_path / "report.html")
    assert outcome.exit_code == 0, outcome.err
    assert "Accuracy against tokens shown" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_without_a_memory_system_there_is_no_such_picture(generated: Path, tmp_path: Path) -> None:
    write_results(tmp_path / "full", generated, "m", right)
    assert picture(report_of(tmp_path, generated)) is None
