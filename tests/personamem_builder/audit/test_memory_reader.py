"""The rule-based reader as answer model: right with the evidence, at chance without it."""

from __future__ import annotations

from pathlib import Path
from statistics import mean
from typing import Any

import pytest
from small_datasets import make_dataset

from generation.errors import UserError
from personamem_builder.audit.memory_reader import Given, read_with_rules
from personamem_builder.contexts import iter_contexts
from personamem_builder.dataset.folder import contexts_path
from personamem_builder.dataset.load import read_questions
from personamem_builder.memory.controls import WrongUser

Row = dict[str, Any]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Row], dict[str, Row]]:
    folder: Path = make_dataset(tmp_path_factory.mktemp("generated"))
    contexts = {context["shared_context_id"]: context for context in iter_contexts(folder / contexts_path("32k"))}
    return read_questions(folder, "32k").to_pylist(), contexts


def credits_of(data: tuple[list[Row], dict[str, Row]], given: Any) -> dict[str, float]:
    return read_with_rules(data[0], data[1].values(), given)


def test_the_evidence_suffices_in_any_order(data: tuple[list[Row], dict[str, Row]]) -> None:
    read = credits_of(data, lambda row: Given(row["shared_context_id"], row["evidence_message_indices"][::-1]))
    assert set(read.values()) == {1.0}
    assert read.keys() == {row["question_id"] for row in data[0]}


def test_without_anything_it_guesses(data: tuple[list[Row], dict[str, Row]]) -> None:
    assert set(credits_of(data, lambda row: Given(row["shared_context_id"])).values()) == {0.25}


def test_the_history_of_another_user_is_worth_as_much_as_a_guess(data: tuple[list[Row], dict[str, Row]]) -> None:
    wrong = WrongUser(data[0], "data")

    def given(row: Row) -> Given:
        other = wrong.context_id(row)
        return Given(other, range(wrong.end(row, data[1][other]["session_starts"])))

    assert mean(credits_of(data, given).values()) == pytest.approx(0.25, abs=0.06)


def test_the_whole_history_is_worth_nearly_as_much_as_the_evidence(data: tuple[list[Row], dict[str, Row]]) -> None:
    read = credits_of(data, lambda row: Given(row["shared_context_id"], range(row["end_index_in_shared_context"])))
    types = {row["question_id"]: row["question_type"] for row in data[0]}
    # Of several reasons it cannot tell which belongs to the change in question.
    hard = "revisit_reasons_behind_preference_updates"
    assert mean(value for key, value in read.items() if types[key] != hard) > 0.95
    assert mean(value for key, value in read.items() if types[key] == hard) > 0.25


def test_an_outdated_value_alone_misleads(data: tuple[list[Row], dict[str, Row]]) -> None:
    rows, contexts = data
    stale = [row for row in rows if "outdated" in row["option_roles"] and len(row["evidence_message_indices"]) > 1]
    assert stale
    read = read_with_rules(
        stale, contexts.values(), lambda row: Given(row["shared_context_id"], row["evidence_message_indices"][:-1])
    )
    assert mean(read.values()) < 0.25


def test_text_of_a_systems_own_is_read_too(data: tuple[list[Row], dict[str, Row]]) -> None:
    rows, contexts = data
    own = [row for row in rows if row["question_type"] == "recall_user_shared_facts"]

    def given(row: Row) -> Given:
        messages = contexts[row["shared_context_id"]]["messages"]
        return Given(row["shared_context_id"], (), [messages[i]["content"] for i in row["evidence_message_indices"]])

    assert set(read_with_rules(own, contexts.values(), given).values()) == {1.0}


def test_official_questions_are_not_read(dataset_folder: Path) -> None:
    rows = read_questions(dataset_folder, "32k").to_pylist()
    contexts = list(iter_contexts(dataset_folder / contexts_path("32k")))
    with pytest.raises(UserError, match="no question is in the words of the banks"):
        read_with_rules(rows, contexts, lambda row: Given(row["shared_context_id"]))
