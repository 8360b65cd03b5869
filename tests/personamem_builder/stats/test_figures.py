"""The figures of a benchmark are those of its questions."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from statistics import quantiles
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generation.errors import UserError
from personamem_builder.audit.inputs import read_splits
from personamem_builder.audit.records import AuditedSplit
from personamem_builder.stats.figures import SplitFigures, Spread, describe_split, from_json
from personamem_builder.stats.tables import figures_text, tables_of

EXCERPT = Path(__file__).parents[3] / "examples" / "official_excerpt"


@cache
def official() -> AuditedSplit:
    [split] = read_splits(EXCERPT)
    return split


def of_rows(**changes: list[Any]) -> SplitFigures:
    """Return the figures of the excerpt's first questions with other values in some columns, and of no more."""
    count = len(next(iter(changes.values())))
    rows: Any = [
        {**row, **{key: values[i] for key, values in changes.items()}} for i, row in enumerate(official().rows[:count])
    ]
    return describe_split("x", rows)


@pytest.fixture
def excerpt() -> SplitFigures:
    return describe_split("32k", official().rows)


def test_the_figures_of_the_excerpt_are_those_of_its_files(excerpt: SplitFigures) -> None:
    assert (excerpt.split, excerpt.questions, excerpt.personas, excerpt.contexts) == ("32k", 17, 1, 2)
    assert sum(excerpt.types.values()) == sum(excerpt.topics.values()) == 17
    assert excerpt.topics == {"musicRecommendation": 17}
    assert excerpt.sessions_since == {"0–1": 0, "2": 4, "3": 5, "4": 2, "5": 6, "6+": 0}
    assert sum(excerpt.tokens_since.values()) == 17
    assert excerpt.context_tokens is not None
    assert excerpt.context_tokens.median == sorted(row["context_length_in_tokens"] for row in official().rows)[8]
    assert (excerpt.updates, excerpt.tellings) == ({}, {})  # the official release does not say
    assert list(excerpt.counts) == ["type", "topic", "sessions since the reference", "tokens since the reference"]


def test_a_share_of_fillers_is_that_of_each_context() -> None:
    figures = of_rows(num_irrelevant_tokens=[0, 50, 100], context_length_in_tokens=[100, 100, 200])
    assert figures.filler_share == Spread(0.0, 0.25, 0.5, 0.5, 0.5)


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=17))
def test_a_spread_has_the_quartiles_and_bins_have_all(values: list[int]) -> None:
    figures = of_rows(distance_to_ref_in_tokens=values)
    quartiles = quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    assert figures.tokens_since_spread == pytest.approx([min(values), *quartiles, max(values)])
    assert sum(figures.tokens_since.values()) == len(values)


def test_questions_without_contexts_have_no_figures_of_them(excerpt: SplitFigures) -> None:
    rows: Any = [{key: row[key] for key in ("question_type", "persona_id", "topic")} for row in official().rows]  # type: ignore[literal-required]
    figures = describe_split("128k", rows)
    assert (figures.contexts, figures.context_tokens, figures.sessions_since) == (0, None, {})
    assert "tokens" not in figures_text([figures])
    both = figures_text([excerpt, figures])
    assert any(line.split()[-1] == "-" for line in both.splitlines() if line.startswith("median"))


def test_json_has_all_figures(excerpt: SplitFigures) -> None:
    data = json.loads(json.dumps(excerpt.as_json()))
    assert data["tokens_since_spread"]["least"] <= data["tokens_since_spread"]["median"]
    assert data["types"]["recall_user_shared_facts"] == 3
    assert from_json(data) == excerpt
    assert from_json(describe_split("x", []).as_json()) == describe_split("x", [])


def test_many_topics_are_taken_together() -> None:
    many = of_rows(topic=["one"])._replace(topics={f"topic {i:02}": 1 for i in range(25)})
    [table] = [table for table in tables_of([many]) if table.title == "questions by topic"]
    assert list(table.rows)[-1] == "5 more"
    assert table.rows["5 more"] == ["5"]


@pytest.mark.parametrize("change", [{"types": 3}, {"questions": "many"}, {"filler_share": [1]}, {"more": 1}])
def test_damaged_figures_are_one_clear_error(excerpt: SplitFigures, change: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=r"manifest\.json: figures: "):
        from_json({**excerpt.as_json(), **change})
