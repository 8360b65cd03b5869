"""What rules that read nothing score, worked out by hand; and the published cells that they reach."""

from __future__ import annotations

from typing import Any

import pytest

from generation.errors import UserError
from personamem_builder.persona_bench.floors import floors, render
from personamem_builder.persona_bench.published import PUBLISHED, beaten_cells, render_published


def doc(number: int, truth: Any, parent_score: int | None = None, **texts: str) -> dict[str, Any]:
    return {"item_id": f"i{number}", "author": f"a{number}", "truth": truth, "parent_score": parent_score} | texts


def test_classes() -> None:
    docs = [doc(1, True, 5), doc(2, False, -2), doc(3, True, 0)]
    scores = floors("sentiment", docs, [False, False, True])
    assert {name: row["acc"].value for name, row in scores.items()} == pytest.approx(
        {"majority": 1 / 3, "always_positive": 2 / 3, "parent": 2 / 3}
    )
    assert scores["always_positive"]["f1_binary"].value == pytest.approx(0.8)
    assert scores["always_positive"]["mcc"].value == 0


def test_scores() -> None:
    docs = [doc(1, 10, 4), doc(2, -2, None)]
    scores = floors("impact", docs, [0, 1, 8])
    assert {name: row["mae"].value for name, row in scores.items()} == pytest.approx(
        {"zero": 6, "median": (9 + 3) / 2, "mean": (7 + 5) / 2, "parent": (6 + 2) / 2}
    )


def test_texts() -> None:
    docs = [
        doc(1, "blue sky", parent_text="blue sky", last_text="red earth"),
        doc(2, "red earth", parent_text="blue", last_text=""),
    ]
    scores = floors("next_text", docs, [])
    assert {name: row["rouge1"].value for name, row in scores.items()} == {"copy_parent": 0.5, "last_text": 0.0}
    assert scores["last_text"]["unparsed"].value == 0.5


def test_without_a_train_split_there_is_no_median() -> None:
    with pytest.raises(UserError, match="train split"):
        floors("impact", [doc(1, 1)], [])


def test_the_table_has_a_row_for_each_floor() -> None:
    table = render(floors("sentiment", [doc(1, True, 1), doc(2, False, 1)], [True]))
    head, *rows = table.splitlines()
    assert head.split() == ["acc", "unparsed", "f1_binary", "f1_weighted", "mcc"]
    assert [row.split()[0] for row in rows] == ["majority", "always_positive", "parent"]
    assert "0.500 [" in rows[0]


def test_always_positive_reaches_published_cells() -> None:
    """With 82 % positive it is above GPT-4o-mini in both conditions, and above GPT-4.1 without conversation."""
    cells = {(cell.metric, cell.model, cell.condition) for cell in beaten_cells()}
    for name, condition in (("GPT-4o-mini", "pconv"), ("GPT-4o-mini", "pnonconv"), ("GPT-4.1", "pnonconv")):
        assert {("acc", name, condition), ("f1_binary", name, condition)} <= cells
    assert not [cell for cell in cells if cell[0] == "mcc" or cell[1:] == ("GPT-4.1", "pconv")]


def test_f1_is_compared_with_that_of_its_kind_and_errors_the_other_way_round() -> None:
    given = {"rule": {"f1_binary": 1.0, "mae": 100.0}, "worse": {"mae": 500.0}}
    cells = beaten_cells(given)
    assert {cell.model for cell in cells if cell.metric.startswith("f1")} == {"GPT-4.1", "GPT-4o-mini", "Claude-3.5"}
    errors = {(cell.model, cell.condition) for cell in cells if cell.metric == "mae"}
    assert ("GPT-4.1", "pnonconv") in errors
    assert ("GPT-4.1", "pconv") not in errors
    assert {cell.floor for cell in cells} == {"rule"}


def test_the_published_table_is_marked_as_quoted() -> None:
    text = render_published()
    assert text.startswith("quoted from the README of PERSONA-Bench")
    assert "0.6875* / 0.6562*" in text
    assert len([line for line in text.splitlines() if line.split()[0] in PUBLISHED]) == len(PUBLISHED)
