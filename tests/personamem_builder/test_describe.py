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
from personamem_builder.describe import Spread, describe_split, draw_figures, figures_text

EXCERPT = Path(__file__).parents[2] / "examples" / "official_excerpt"


@cache
def official() -> AuditedSplit:
    [split] = read_splits(EXCERPT)
    return split


@pytest.fixture
def excerpt() -> AuditedSplit:
    return official()


def of(split: AuditedSplit, **changes: list[Any]) -> AuditedSplit:
    """Return a split whose first questions have other values in some columns, and no more questions."""
    count = len(next(iter(changes.values())))
    rows: Any = [
        {**row, **{key: values[i] for key, values in changes.items()}} for i, row in enumerate(split.rows[:count])
    ]
    return AuditedSplit(name="x", rows=rows)


def test_the_figures_of_the_excerpt_are_those_of_its_files(excerpt: AuditedSplit) -> None:
    figures = describe_split(excerpt)
    assert (figures.split, figures.questions, figures.personas, figures.contexts) == ("32k", 17, 1, 2)
    assert sum(figures.types.values()) == sum(figures.topics.values()) == 17
    assert figures.topics == {"musicRecommendation": 17}
    assert figures.sessions_since == {2: 4, 3: 5, 4: 2, 5: 6}
    assert figures.context_tokens is not None
    assert figures.context_tokens.median == sorted(row["context_length_in_tokens"] for row in excerpt.rows)[8]
    assert (figures.updates, figures.tellings) == ({}, {})  # the official release does not say


def test_a_share_of_fillers_is_that_of_each_context(excerpt: AuditedSplit) -> None:
    split = of(excerpt, num_irrelevant_tokens=[0, 50, 100], context_length_in_tokens=[100, 100, 200])
    assert describe_split(split).filler_share == Spread(0.0, 0.25, 0.5, 0.5, 0.5)


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=17))
def test_a_spread_has_the_quartiles(values: list[int]) -> None:
    spread = describe_split(of(official(), distance_to_ref_in_tokens=values)).tokens_since
    quartiles = quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    assert spread == pytest.approx([min(values), *quartiles, max(values)])


def test_questions_without_contexts_have_no_figures_of_them(excerpt: AuditedSplit) -> None:
    rows: Any = [{key: row[key] for key in ("question_type", "persona_id", "topic")} for row in excerpt.rows]  # type: ignore[literal-required]
    figures = describe_split(AuditedSplit(name="128k", rows=rows))
    assert (figures.contexts, figures.context_tokens, figures.sessions_since) == (0, None, {})
    assert "tokens" not in figures_text([figures])
    both = figures_text([describe_split(excerpt), figures])
    assert any(line.split()[-1] == "-" for line in both.splitlines() if line.startswith("median"))


def test_json_has_all_figures(excerpt: AuditedSplit) -> None:
    data = json.loads(json.dumps(describe_split(excerpt).as_json()))
    assert data["tokens_since"]["least"] <= data["tokens_since"]["median"]
    assert data["types"]["recall_user_shared_facts"] == 3


def test_pictures_are_drawn_alike_each_time(excerpt: AuditedSplit, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    first, second = (draw_figures([excerpt], tmp_path / name) for name in ("a", "b"))
    assert [path.name for path in first] == ["32k.svg", "32k.png"]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_a_folder_that_cannot_be_made_is_one_clear_error(excerpt: AuditedSplit, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match="cannot be written"):
        draw_figures([excerpt], tmp_path / "file" / "figures")
