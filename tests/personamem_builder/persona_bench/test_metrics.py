"""Metrics and the parser, against values worked out by hand."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from generation.errors import UserError
from personamem_builder.persona_bench.metrics import (
    ScoredItem,
    compare_conditions,
    parse,
    pooled,
    score_answer,
    summarise,
)
from personamem_builder.persona_bench.text_metrics import missing_metrics, text_metrics, text_scores
from personamem_builder.statistics import overall, paired_difference


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Positive.", True),
        ("It is not positive, it is NEGATIVE", False),
        ("<think>negative? negative!</think>\npositive", True),
        ("negative</think> positive", True),
        ("<think>so it is positive", None),
        ("positively", None),
        ("", None),
    ],
)
def test_a_class_is_the_last_word_of_the_two(text: str, answer: bool | None) -> None:
    assert parse("sentiment", text) is answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("12", 12),
        ("Between 10 and 20.", 20),
        ("−5", -5),
        ("about -1,234.5 points", -1234.5),
        ("10-20", 20),
        ("<think>3</think> 4", 4),
        ("v2 of r2d2 on 5k", None),
        ("none", None),
        ("9" * 400, None),
    ],
)
def test_a_score_is_the_last_number(text: str, answer: float | None) -> None:
    assert parse("impact", text) == answer


def test_a_text_is_what_is_left_after_thinking() -> None:
    assert parse("next_text", "<think>hm</think>\n Hello \n") == "Hello"
    assert parse("next_text", " \n") is None


def answers(task: str, pairs: list[tuple[Any, Any]], authors: str | None = None) -> list[ScoredItem]:
    """Score (truth, answer) pairs, each of an author of its own by default."""
    return [
        score_answer(task, f"i{index}", authors[index] if authors else f"a{index}", truth, [answer])
        for index, (truth, answer) in enumerate(pairs)
    ]


def values(task: str, pairs: list[tuple[Any, Any]]) -> dict[str, float]:
    return {name: estimate.value for name, estimate in summarise(task, answers(task, pairs)).items()}


def test_classes_by_hand_with_an_unparsed_answer_as_a_wrong_one() -> None:
    scores = values("sentiment", [(True, True), (True, True), (True, None), (False, True)])
    assert scores == pytest.approx(
        # Of the class positive: 2 found, 1 missed, 1 false alarm. None of the negative one is found.
        {"acc": 2 / 4, "unparsed": 1 / 4, "f1_binary": 2 / 3, "f1_weighted": 3 / 4 * 2 / 3, "mcc": -1 / 3}
    )


@pytest.mark.parametrize("share", [0.0, 0.3, 0.8, 1.0])
def test_classes_are_scored_as_scikit_learn_scores_them(share: float) -> None:
    from sklearn.metrics import f1_score, matthews_corrcoef

    rng = random.Random(f"{share}")
    truths, predictions = ([rng.random() < likely for _ in range(60)] for likely in (share, 0.6))
    known = {
        "f1_binary": f1_score(truths, predictions, zero_division=0),
        "f1_weighted": f1_score(truths, predictions, average="weighted", zero_division=0),
        "mcc": matthews_corrcoef(truths, predictions),
    }
    assert pooled("sentiment", truths, predictions) == pytest.approx(known)


def test_scores_by_hand_with_an_unparsed_answer_as_zero() -> None:
    scores = values("impact", [(1, None), (3, 7), (-3, -3)])
    assert scores == pytest.approx(
        {
            "mae": 5 / 3,
            "rmse": math.sqrt(17 / 3),
            "log_mae": (math.log(2) + math.log(2)) / 3,
            "log_rmse": math.log(2) * math.sqrt(2 / 3),
            "spearman": 1,
            "kendall": 1,
            "unparsed": 1 / 3,
        }
    )
    swapped = values("impact", [(1, 2), (2, 1), (3, 3)])
    assert (swapped["spearman"], swapped["kendall"]) == pytest.approx((1 / 2, 1 / 3))


def test_a_constant_answer_has_no_rank_correlation() -> None:
    scores = values("impact", [(1, 4), (2, 4)])
    assert (scores["spearman"], scores["kendall"]) == (0, 0)


def test_texts_by_hand() -> None:
    scores = text_scores("the cats sat down", "a cat sat")
    # Stems in common: cat, sat; 2 of 3 and 2 of 4.
    assert (scores["rouge1"], scores["rougeL"]) == pytest.approx((4 / 7, 4 / 7))
    bleu = next(name for name in text_metrics() if name.startswith("bleu"))
    # Smoothing method 1: a missing 4-gram counts as a tenth.
    assert text_scores("a b c d", "a b c e")[bleu] == pytest.approx((3 / 4 * 2 / 3 * 1 / 2 * 0.1) ** 0.25)
    meteor = next(name for name in text_metrics() if name.startswith("meteor"))
    # All three words align, one by its stem, in one chunk: F = 1, penalty 0.5 · (1/3)³.
    assert text_scores("the cats sat", "The cat sat")[meteor] == pytest.approx(1 - 0.5 / 27)
    assert text_scores("one two three four", "one two three four")["sacrebleu"] == pytest.approx(1)


def test_metrics_that_cannot_be_computed_are_told_with_the_reason() -> None:
    there, missing = text_metrics(), missing_metrics()
    for name in ("bleu", "meteor", "sbert"):
        assert (name in there) != (name in missing)
    assert all(": " in reason for reason in missing.values())


def test_an_empty_text_scores_nothing_and_stays_in_the_mean() -> None:
    scores = values("next_text", [("hello there", "hello there"), ("hello there", None)])
    assert (scores["rouge1"], scores["unparsed"]) == pytest.approx((1 / 2, 1 / 2))


def test_samples_are_averaged_and_their_best_has_a_name_of_its_own() -> None:
    one = score_answer("next_text", "i", "a", "good dog", ["good dog", "bad cat", None])
    assert one.values["rouge1"] == pytest.approx(1 / 3)
    assert one.values["best_of_3_rouge1"] == pytest.approx(1)
    assert one.values["unparsed"] == pytest.approx(1 / 3)
    assert not [name for name in score_answer("next_text", "i", "a", "x", ["y"]).values if "best" in name]


def test_intervals_are_clustered_by_author() -> None:
    truth = [True] * 12
    given = [True, True, True, False] * 3
    scored = answers("sentiment", list(zip(truth, given, strict=True)), "aaaabbbbcccc")
    estimate = summarise("sentiment", scored)["acc"]
    assert estimate == overall([float(x) for x in given], [0] * 4 + [1] * 4 + [2] * 4)
    assert (estimate.n, estimate.clusters) == (12, 3)


def test_the_interval_of_a_mean_error_is_that_of_student() -> None:
    errors = [1, 2, 6, 7]
    estimate = summarise("impact", answers("impact", [(0, error) for error in errors]))["mae"]
    deviation = math.sqrt(sum((error - 4) ** 2 for error in errors) / 3)
    half = 3.182446 * deviation / math.sqrt(4)  # t with 3 degrees of freedom
    assert (estimate.low, estimate.high) == pytest.approx((max(4 - half, 0), 4 + half), abs=1e-4)


@pytest.mark.slow
def test_intervals_hold_what_they_claim_and_stay_in_range() -> None:
    """MCC of an answer that is right four times of five is 0.6 where the classes are even."""
    rng = random.Random(5)
    held, runs = 0, 30
    for _ in range(runs):
        pairs = [(truth := rng.random() < 0.5, truth if rng.random() < 0.8 else not truth) for _ in range(80)]
        authors = "".join(chr(65 + index // 4) for index in range(80))
        estimate = summarise("sentiment", answers("sentiment", pairs, authors))["mcc"]
        assert estimate.low is not None
        assert estimate.high is not None
        assert -1 <= estimate.low <= estimate.value <= estimate.high <= 1
        held += estimate.low <= 0.6 <= estimate.high
    assert held >= 25


def test_where_leaving_out_an_author_changes_nothing_there_is_no_interval() -> None:
    assert summarise("sentiment", answers("sentiment", [(True, True)] * 3))["mcc"].low is None
    assert summarise("impact", answers("impact", [(1, 3)]))["mae"].low is None


def test_conditions_are_compared_item_by_item() -> None:
    one = answers("sentiment", [(True, True), (False, False), (True, True), (False, True)], "aabb")
    other = answers("sentiment", [(True, True), (False, True), (True, None), (False, True)], "aabb")
    differences = compare_conditions("sentiment", one, other[::-1])
    assert differences["acc"] == paired_difference([1, 1, 1, 0], [1, 0, 0, 0], [0, 0, 1, 1])
    assert differences["unparsed"].value == -1 / 4
    mcc = (summarise("sentiment", side)["mcc"].value for side in (one, other))
    assert differences["mcc"].value == pytest.approx(next(mcc) - next(mcc))
    same = compare_conditions("impact", *([answers("impact", [(1, 2), (4, 4)])] * 2))
    assert all(estimate.value == 0 for estimate in same.values())


def test_only_the_same_items_can_be_compared() -> None:
    one = answers("sentiment", [(True, True), (False, False)])
    with pytest.raises(UserError, match="1 items in common, of 2 and 1"):
        compare_conditions("sentiment", one, one[:1])
    with pytest.raises(UserError, match="two answers"):
        compare_conditions("sentiment", one, [*one, one[0]])
