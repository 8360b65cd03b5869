"""Shortcut policies."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from personamem_builder.official.faults import Faults
from personamem_builder.official.questions_csv import read_questions
from personamem_builder.policies import (
    POLICIES,
    best_credit,
    least_overlap,
    longest_tokens,
    odd_one_out,
    shortest_tokens,
    word_list,
)

ROW: dict[str, Any] = {
    "question_id": "q",
    "persona_id": 1,
    "question_type": "suggest_new_ideas",
    "user_question_or_message": "Any plan for the garden?",
    "all_options": [
        "(a) A plan for the garden",
        "(b) A plan for the kitchen at home",
        "(c) Rest",
        "(d) A plan for the car",
    ],
    "answer_index": 0,
}


def chosen(policy: str, row: dict[str, Any] = ROW, rows: list[dict[str, Any]] | None = None, seed: int = 0) -> str:
    values = POLICIES[policy](rows or [row], seed)(row)
    return "abcd"[values.index(max(values))]


@pytest.mark.parametrize(
    ("policy", "letter"),
    [
        ("longest", "b"),
        ("shortest", "c"),
        ("first", "a"),
        ("second", "b"),
        ("third", "c"),
        ("fourth", "d"),
        ("overlap", "a"),
        ("central", "a"),
    ],
)
def test_what_each_policy_chooses(policy: str, letter: str) -> None:
    assert chosen(policy) == letter


def test_policies_of_the_audit_that_are_no_floors() -> None:
    for policy in (least_overlap, odd_one_out):
        values = policy(ROW)
        assert [i for i, value in enumerate(values) if value == max(values)] == [2]
    assert longest_tokens(ROW) == [5, 7, 1, 5]
    assert shortest_tokens(ROW) == [-5, -7, -1, -5]


def test_words_are_what_stands_between_white_space_and_punctuation() -> None:
    assert word_list("It's a  CAFÉ—no, 3 cafés!") == ["it", "s", "a", "café", "no", "3", "cafés"]


def test_length_is_counted_without_the_label_and_in_characters() -> None:
    assert POLICIES["longest"]([ROW], 0)(ROW) == [21, 30, 4, 18]


def test_random_depends_on_seed_and_question_and_nothing_else() -> None:
    draws = {(seed, q): chosen("random", ROW | {"question_id": q}, seed=seed) for seed in range(5) for q in "pqrs"}
    assert len(set(draws.values())) > 1
    code = (
        "from personamem_builder.policies import POLICIES as P;"
        "print(P['random']([], 3)({'question_id': 'r', 'all_options': [0] * 4}))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    other = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert other.stdout.strip() == str(POLICIES["random"]([], 3)(ROW | {"question_id": "r"}))


def test_type_length_learns_from_other_personas_only() -> None:
    """The answers of a persona's own questions do not reach its score, however many there are."""
    short_is_right = [ROW | {"persona_id": 1, "question_id": f"own{i}", "answer_index": 2} for i in range(9)]
    long_is_right = [ROW | {"persona_id": 2, "question_id": "other", "answer_index": 1}]
    assert chosen("type-length", short_is_right[0], short_is_right + long_is_right) == "b"
    assert chosen("type-length", long_is_right[0], short_is_right + long_is_right) == "c"


def test_type_length_learns_each_type_apart() -> None:
    rows = [
        ROW | {"persona_id": 2, "question_id": "x", "answer_index": 1},
        ROW | {"persona_id": 2, "question_id": "y", "answer_index": 2, "question_type": "recall_user_shared_facts"},
    ]
    assert chosen("type-length", ROW, rows) == "b"
    assert chosen("type-length", ROW | {"question_type": "recall_user_shared_facts"}, rows) == "c"


@pytest.mark.parametrize(
    ("policy", "accuracy"),
    [("longest", 0.505), ("type-length", 0.661), ("central", 0.508), ("overlap", 0.401), ("first", 143 / 589)],
)
def test_scores_on_the_official_32k_questions(release_dir: Path, policy: str, accuracy: float) -> None:
    rows = read_questions(release_dir / "questions_32k.csv", Faults())
    values = POLICIES[policy](rows, 0)
    credits = [best_credit(values(row), row["answer_index"]) for row in rows]
    assert sum(credits) / len(credits) == pytest.approx(accuracy, abs=5e-4)


def test_longest_agrees_with_a_count_that_shares_no_code(release_dir: Path) -> None:
    credit = 0.0
    with (release_dir / "questions_32k.csv").open(newline="", encoding="utf-8") as file:
        for record in csv.DictReader(file):
            options = read_options(record["all_options"])
            lengths = [len(option) - len("(a) ") for option in options]
            winners = ["(abcd)"[i + 1] for i, length in enumerate(lengths) if length == max(lengths)]
            credit += (record["correct_answer"][1] in winners) / len(winners)
    assert credit / 589 == pytest.approx(0.505, abs=5e-4)


def read_options(cell: str) -> list[str]:
    import ast
    import json

    try:
        return json.loads(cell)  # type: ignore[no-any-return]
    except ValueError:
        return ast.literal_eval(cell)  # type: ignore[no-any-return]
