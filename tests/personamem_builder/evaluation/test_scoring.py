"""From a model's answer to its credit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personamem_builder.evaluation.scoring import (
    SKIPPED,
    OptionScore,
    letter_credit,
    per_token,
    robust,
    v1_parity,
)
from personamem_builder.policies import best_credit
from personamem_builder.schema import best_letter

DOC = {"all_options": ["(a) one", "(b) two", "(c) three", "(d) four"]}


@pytest.mark.parametrize(
    ("values", "credit", "letter"),
    [([0, 0, 5, 1], 1.0, "c"), ([9, 0, 5, 1], 0.0, "a"), ([5, 0, 5, 1], 0.5, "a"), ([2, 2, 2, 2], 0.25, "a")],
)
def test_options_that_tie_for_the_best_value_share_the_credit(values: list[float], credit: float, letter: str) -> None:
    assert best_credit(values, 2) == credit
    assert best_letter(values) == letter


@given(st.lists(st.integers(-3, 3), min_size=2, max_size=10))
def test_the_credits_of_all_possible_answers_add_up_to_one(values: list[int]) -> None:
    assert sum(best_credit(values, i) for i in range(len(values))) == pytest.approx(1)


def test_the_mean_per_token_needs_the_tokens_of_every_option() -> None:
    scores = [OptionScore(-6.0, False, 2), OptionScore(-6.0, False, 3)]
    assert per_token(scores) == [-3.0, -2.0]
    assert per_token([*scores, OptionScore(-6.0, False, None)]) is None


@pytest.mark.parametrize(("letters", "credit"), [("c", 1.0), ("a", 0.0), ("", 0.0), ("ac", 1.0)])
def test_a_letter_gets_credit_if_it_is_the_answer(letters: str, credit: float) -> None:
    assert letter_credit(letters, 2) == credit


@pytest.mark.parametrize("rule", [robust, v1_parity])
def test_filters_tell_a_skipped_question_from_an_answer_without_a_letter(rule: object) -> None:
    responses = [["<final_answer>(b)"], ["I cannot say."], [None], [SKIPPED]]
    assert rule(responses, [DOC] * 4) == ["b", "", "", SKIPPED]  # type: ignore[operator]


def test_the_two_filters_differ_where_the_published_rule_is_stricter() -> None:
    responses = [["I considered (a), but it does not fit. Final answer: d."]]
    assert (robust(responses, [DOC]), v1_parity(responses, [DOC])) == (["d"], ["a"])
