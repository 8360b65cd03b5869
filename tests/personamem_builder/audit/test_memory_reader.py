"""The rule-based reader as answer model: right with the evidence, at chance without it."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from generation.errors import UserError
from personamem_builder.audit.memory_reader import read_with_rules
from personamem_builder.dataset.check import read_questions
from personamem_builder.dataset.contexts import iter_contexts
from personamem_builder.memory.controls import SplitQuestions, WrongUser
from personamem_builder.memory.measures import Excerpt
from personamem_builder.table_files import contexts_path

Row = dict[str, Any]


@pytest.fixture(scope="module")
def data(generated: Path) -> tuple[list[Row], dict[str, Row]]:
    contexts = {context["shared_context_id"]: context for context in iter_contexts(generated / contexts_path("32k"))}
    # Some are enough here: `test_evidence_reader` asks whether all can be read.
    return read_questions(generated, "32k").to_pylist()[::2], contexts


def credits_of(data: tuple[list[Row], dict[str, Row]], excerpt_of: Callable[[Any], Excerpt]) -> dict[str, float]:
    return read(data[0], data[1].values(), excerpt_of)


def read(rows: Any, contexts: Any, excerpt_of: Callable[[Any], Excerpt]) -> dict[str, float]:
    return read_with_rules(rows, contexts, {row["question_id"]: excerpt_of(row) for row in rows})


@pytest.mark.slow
def test_the_evidence_suffices_in_any_order(data: tuple[list[Row], dict[str, Row]]) -> None:
    read = credits_of(data, lambda row: Excerpt(row["shared_context_id"], row["evidence_message_indices"][::-1]))
    assert set(read.values()) == {1.0}
    assert read.keys() == {row["question_id"] for row in data[0]}


def test_without_anything_it_guesses(data: tuple[list[Row], dict[str, Row]]) -> None:
    assert set(credits_of(data, lambda row: Excerpt(row["shared_context_id"])).values()) == {0.25}


@pytest.mark.slow
def test_the_history_of_another_user_is_worth_as_much_as_a_guess(data: tuple[list[Row], dict[str, Row]]) -> None:
    rows: Any = data[0]
    wrong = WrongUser(None, SplitQuestions(rows, rows, "data"))

    def excerpt_of(row: Row) -> Excerpt:
        other = wrong.context_id(row)
        return Excerpt(other, range(wrong.end(row, data[1][other]["session_starts"])))

    found = credits_of(data, excerpt_of)
    # A guess, as far as so few questions can tell: wrong once in a thousand times.
    assert mean(found.values()) == pytest.approx(0.25, abs=3.3 * sqrt(3 / 16 / len(found)))


@pytest.mark.slow
def test_the_whole_history_is_worth_as_much_as_the_evidence(data: tuple[list[Row], dict[str, Row]]) -> None:
    """Whatever else the user, and others, go for, give as a reason or have lived through."""
    read = credits_of(data, lambda row: Excerpt(row["shared_context_id"], range(row["end_index_in_shared_context"])))
    assert [question_id for question_id, value in read.items() if value != 1] == []


@pytest.mark.slow
def test_an_outdated_value_alone_misleads(data: tuple[list[Row], dict[str, Row]]) -> None:
    rows, contexts = data
    stale = [row for row in rows if "outdated" in row["option_roles"] and len(row["evidence_message_indices"]) > 1]
    assert stale
    misled = read(
        stale, contexts.values(), lambda row: Excerpt(row["shared_context_id"], row["evidence_message_indices"][:-1])
    )
    assert mean(misled.values()) < 0.25


@pytest.mark.slow
def test_text_of_a_systems_own_is_read_too(data: tuple[list[Row], dict[str, Row]]) -> None:
    rows, contexts = data
    own = [row for row in rows if row["question_type"] == "recall_user_shared_facts"]

    def excerpt_of(row: Row) -> Excerpt:
        messages = contexts[row["shared_context_id"]]["messages"]
        return Excerpt(row["shared_context_id"], (), [messages[i]["content"] for i in row["evidence_message_indices"]])

    assert set(read(own, contexts.values(), excerpt_of).values()) == {1.0}


def test_official_questions_are_not_read(dataset_folder: Path) -> None:
    rows = read_questions(dataset_folder, "32k").to_pylist()
    contexts = list(iter_contexts(dataset_folder / contexts_path("32k")))
    with pytest.raises(UserError, match="no question is in the words of the banks"):
        read(rows, contexts, lambda row: Excerpt(row["shared_context_id"]))
