from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from generation.errors import UserError
from personamem_builder.annotation.items import (
    AnnotationItem,
    history_lines,
    key_of,
    make_items,
    read_split,
    sample_digest,
)

MakeItem = Callable[..., AnnotationItem]

CONTEXT = {
    "messages": [{"role": "user" if i % 2 else "assistant", "content": f"text {i}"} for i in range(10)],
    "session_starts": [0, 4, 8],
    "session_topics": ["travelPlanning", "", "travelPlanning"],
    "session_dates": ["2020-01-01", "", "2021-01-01"],
}


def test_an_excerpt_says_where_its_messages_stand_and_what_is_left_out() -> None:
    lines = history_lines(CONTEXT, [2, 3, 4, 8], {3}, 10)

    assert [line.get("session") or line.get("gap") or f"text {line['index']}" for line in lines] == [
        *(2, "Session 1 · travelPlanning · 2020-01-01", "text 2", "text 3"),
        *("Other talk", "text 4"),
        *(3, "Session 2 · travelPlanning · 2021-01-01", "text 8"),
        1,
    ]
    assert [line["index"] for line in lines if line.get("evidence")] == [3]
    assert sum(line.get("gap", 0) for line in lines) + 4 == 10


def test_a_question_with_evidence_shows_all_of_it_and_nothing_from_after_the_question(generated: Path) -> None:
    rows = read_split(generated, "32k")

    items = make_items(generated, "32k", rows)

    assert [item.row["question_id"] for item in items] == [row["question_id"] for row in rows]
    for item in items:
        marked = {line["index"] for line in item.lines if line.get("evidence")}
        end = item.row["end_index_in_shared_context"]
        assert not item.whole
        assert marked == set(item.row["evidence_message_indices"])
        assert max(line.get("index", 0) for line in item.lines) < end
        shown = sum("text" in line for line in item.lines)
        assert shown + sum(line.get("gap", 0) for line in item.lines) == end


def test_a_question_without_evidence_shows_its_whole_history(dataset_folder: Path) -> None:
    rows = read_split(dataset_folder, "32k")

    for item in make_items(dataset_folder, "32k", rows):
        indices = [line["index"] for line in item.lines if "index" in line]
        assert item.whole
        assert indices == list(range(item.row["end_index_in_shared_context"]))


def test_the_sample_is_named_by_what_raters_see(make_item: MakeItem) -> None:
    items = [make_item(number) for number in range(3)]

    assert sample_digest(items) == sample_digest([make_item(number) for number in range(3)])
    assert sample_digest(items) != sample_digest(items[:2])
    assert sample_digest(items) != sample_digest([*items[:2], make_item(2, user_question_or_message="Other?")])


def test_the_key_holds_the_right_letters(make_item: MakeItem) -> None:
    items = [make_item(number) for number in range(3)]

    key = key_of(items, split="32k", data_digest="d", seed=0)

    assert [item["answer"] for item in key["items"]] == ["a", "b", "c"]
    assert key["sample"] == sample_digest(items)


def test_a_context_that_is_missing_is_named(dataset_folder: Path) -> None:
    row = {**read_split(dataset_folder, "32k")[0], "shared_context_id": "none"}

    with pytest.raises(UserError, match="no context none"):
        make_items(dataset_folder, "32k", [row])
