"""Balance of answers, and options or questions that repeat one another."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest
from official_splits import official_questions
from scipy.stats import chisquare

from personamem_builder.audit.balance import balance_findings
from personamem_builder.audit.records import AuditedSplit, Finding

TEXTS = ("You swim.", "You dive.", "You row.", "You sail.")


def question(texts: Sequence[str] = TEXTS, answer: int = 0, **changes: Any) -> dict[str, Any]:
    return {
        "question_id": "q",
        "persona_id": 1,
        "question_type": "recall_user_shared_facts",
        "source_question_type": "recall_user_shared_facts",
        "user_question_or_message": "What do I do on Sundays?",
        "all_options": [f"({letter}) {text}" for letter, text in zip("abcdefgh", texts, strict=False)],
        "answer_index": answer,
        **changes,
    }


def find(check: str, *rows: dict[str, Any]) -> Finding:
    [finding] = [f for f in balance_findings(AuditedSplit("small", rows)) if f.check == f"balance.{check}"]
    return finding


def golds(*counts: int, texts: Sequence[str] = TEXTS) -> list[dict[str, Any]]:
    return [question(texts, answer) for answer, count in enumerate(counts) for _ in range(count)]


# --- letters


@pytest.mark.parametrize("counts", [(10, 10, 10, 10), (30, 5, 4, 1), (0, 0, 0, 9)])
def test_letters_are_tested_as_scipy_does(counts: tuple[int, ...]) -> None:
    finding = find("letters", *golds(*counts))
    assert finding.value == pytest.approx(chisquare(counts).pvalue)
    assert f"a {counts[0]}, b {counts[1]}, c {counts[2]}, d {counts[3]}" in finding.note
    assert f"chi2 = {chisquare(counts).statistic:.1f} on 3 df" in finding.note


def test_questions_of_fewer_options_do_not_look_skewed() -> None:
    """The last letter is right less often where fewer questions have it."""
    rows = golds(50, 50, texts=TEXTS[:2]) + golds(25, 25, 25, 25)
    assert find("letters", *rows).value == 1
    assert (find("letters", *golds(50, 50, 50, 50)[:150]).value or 0) < 1e-6
    assert "on 4 df" in find("letters", *rows).note


@pytest.mark.slow
def test_fair_letters_are_refused_as_often_as_the_level_says() -> None:
    rng = random.Random(4)
    values = [find("letters", *golds(*map(rng.choices("abcd", k=80).count, "abcd"))).value for _ in range(300)]
    refused = sum(value is not None and value < 0.1 for value in values)
    assert 15 <= refused <= 45


# --- options


def test_questions_with_another_number_of_options_than_most() -> None:
    rows = [question(question_id=i) for i in "pqr"] + [question(TEXTS[:3], question_id="odd")]
    finding = find("option_count", *rows)
    assert (finding.value, finding.n, finding.examples) == (1, 4, ("odd",))


@pytest.mark.parametrize(
    ("other", "identical", "near"),
    [
        ("You like the sea.", 1, 0),
        ("  you LIKE\n the  sea. ", 1, 0),
        ("You like the sea!", 0, 1),
        ("You like a sea.", 0, 1),
        ("You — like — sea", 0, 1),
        ("You liked the sea.", 0, 0),
        ("You do not like the sea.", 0, 0),
        ("The sea, you like.", 0, 0),
        ("You like the lake.", 0, 0),
    ],
)
def test_two_options_are_identical_nearly_so_or_neither(other: str, identical: int, near: int) -> None:
    row = question(("Nothing.", "You like the sea.", "All.", other))
    assert find("identical_options", row).value == identical
    assert find("near_identical_options", row).value == near


def test_curly_and_straight_apostrophes_are_nearly_identical() -> None:
    row = question(("It's fine.", "It’s fine.", "No.", "Yes."))
    assert find("near_identical_options", row).value == 1


def test_a_question_with_two_pairs_counts_once() -> None:
    row = question(("One.", "One.", "Two.", "Two."), question_id="pairs")
    finding = find("identical_options", row)
    assert (finding.value, finding.examples) == (1, ("pairs",))


def test_it_is_said_whether_the_right_option_stands_twice() -> None:
    texts = ("One.", "One.", "Two.", "Three.")
    assert "in 1 of them" in find("identical_options", question(texts, 0), question(texts, 2)).note


def test_options_without_words_are_no_pair() -> None:
    assert find("near_identical_options", question(("?", "!", "The", "a"))).value == 0


# --- the question


@pytest.mark.parametrize(
    ("asked", "answer", "counted"),
    [
        ("I know that YOU dive: what else?", 1, 1),
        ("I know that you dive: what else?", 0, 0),
        ("Thank you, divers!", 1, 0),
        ("You swim. You dive. You row. You sail. Which?", 1, 0),
    ],
)
def test_a_right_option_in_the_question(asked: str, answer: int, counted: int) -> None:
    row = question(answer=answer, user_question_or_message=asked)
    assert find("answer_in_question", row).value == counted


def test_a_long_question_in_its_right_option_only() -> None:
    asked = "Which of the two lakes did I tell you about?"
    texts = [f"{asked} You mean the {which} one." for which in ("upper", "lower")]
    row = question(("No idea.", texts[0]), 1, user_question_or_message=asked)
    assert find("answer_in_question", row).value == 1
    assert find("answer_in_question", row | {"answer_index": 0}).value == 0
    assert find("answer_in_question", question(texts, user_question_or_message=asked)).value == 0, "no option differs"
    short = question(("No idea.", "Lakes? The upper one."), 1, user_question_or_message="Lakes?")
    assert find("answer_in_question", short).value == 0


def test_labels_that_were_merged() -> None:
    old = question(source_question_type="recalling_facts_mentioned_by_the_user")
    finding = find("merged_labels", question(), old, question())
    assert finding.value == 1
    assert "recall_user_shared_facts (2), recalling_facts_mentioned_by_the_user (1)" in finding.note
    assert find("merged_labels", old, old).value == 0
    assert find("merged_labels", question(source_question_type=None)).value == 0


# --- the official release

OF_1M = pytest.mark.slow  # reading it takes longest, and it shows no more


@cache
def official(split: str) -> list[Finding]:
    return balance_findings(official_questions(split))


@pytest.mark.parametrize(
    ("split", "identical", "near"), [("32k", 17, 0), ("128k", 115, 5), pytest.param("1M", 120, 2, marks=OF_1M)]
)
def test_identical_options_of_the_official_release(split: str, identical: int, near: int) -> None:
    found = {f.check: f for f in official(split)}
    assert found["balance.identical_options"].value == identical
    assert found["balance.near_identical_options"].value == near
    assert found["balance.option_count"].value == found["balance.answer_in_question"].value == 0


def test_letters_of_the_official_release() -> None:
    found = official("128k")[0]
    assert "a 786, b 721, c 574, d 646; chi2 = 37.1 on 3 df" in found.note
    assert (found.value or 1) < 1e-6
    assert (official("32k")[0].value or 0) > 0.1


@OF_1M
def test_letters_of_the_official_1m_split() -> None:
    assert (official("1M")[0].value or 0) > 0.1


@pytest.mark.parametrize(("split", "merged"), [("32k", 1), ("128k", 0), pytest.param("1M", 0, marks=OF_1M)])
def test_merged_labels_of_the_official_release(split: str, merged: int) -> None:
    [finding] = [f for f in official(split) if f.check == "balance.merged_labels"]
    assert finding.value == merged
    assert ("recalling_facts_mentioned_by_the_user (17)" in finding.note) == bool(merged)
