"""Analyses on data small enough to check by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generation.records import QUESTION_TYPES
from personamem_builder.report.analysis import analyse, primary_score
from personamem_builder.report.breakdown import (
    Analysis,
    LeftOut,
    ModelEntry,
    position,
    sessions_since,
    tellings,
    tokens_since,
    topics,
    types,
    updates,
)
from personamem_builder.report.calibration import calibration, calibration_error, softmax
from personamem_builder.report.choices import asserted, errors, letters, marginal_homogeneity, states, stereotypes
from personamem_builder.results.answers import ScoredAnswer
from personamem_builder.statistics import mcnemar

LATEST = "acknowledge_latest_user_preferences"
EVOLUTION = "track_full_preference_evolution"
ALIGNED = "provide_preference_aligned_recommendations"


def question(**changes: Any) -> dict[str, Any]:
    row = {
        "persona_id": 0,
        "question_type": LATEST,
        "topic": "travel",
        "distance_to_ref_in_blocks": 0,
        "distance_to_ref_in_tokens": 0,
        "distance_to_ref_proportion_in_context": 0.0,
        "all_options": ["(a) A", "(b) B", "(c) C", "(d) D"],
        "answer_index": 0,
        "option_states": [["A"], ["B"], ["C"], ["D"]],
        "option_roles": ["current", "outdated", "never", "never"],
        "option_stereotypical": [False] * 4,
        "updates_spanned": 0,
        "telling": "named",
    }
    return row | changes


def answer(row: dict[str, Any], letter: str | None, **changes: Any) -> ScoredAnswer:
    right = "abcd"[row["answer_index"]]
    fields: dict[str, Any] = {
        "persona_id": row["persona_id"],
        "question_type": row["question_type"],
        "n_options": len(row["all_options"]),
        "credits": {"acc": float(letter == right)},
        "invalid": frozenset() if letter else frozenset({"acc"}),
        "skipped": False,
        "truncated": False,
        "predictions": {"acc": letter},
        "answer": right,
    }
    return ScoredAnswer(**(fields | changes))


def entry(rows: dict[str, dict[str, Any]], chosen: str, label: str = "m", **changes: Any) -> ModelEntry:
    """`chosen` has a letter for each question, `-` for an answer without one."""
    pairs = zip(rows.items(), chosen, strict=True)
    return ModelEntry(label, {id_: answer(row, None if c == "-" else c, **changes) for (id_, row), c in pairs}, "acc")


def asked(*rows: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {f"q{i}": row for i, row in enumerate(rows)}


def values(result: Any, label: str = "m") -> dict[str, float | None]:
    assert isinstance(result, Analysis)
    return {name: None if e is None else e.value for name, e in zip(result.bins, result.series[label], strict=True)}


def test_types_have_means_counts_and_chance():
    rows = asked(question(), question(persona_id=1), question(question_type=EVOLUTION, all_options=["(a) A", "(b) B"]))
    result = types([entry(rows, "aba")])
    assert values(result) == {"latest": 0.5, "evolution": 1.0}
    assert result.expected == (0.25, 0.5)
    latest, evolution = result.series["m"]
    assert (latest.n, latest.clusters) == (2, 2)
    assert (evolution.low, evolution.high) == (None, None)  # one persona


@pytest.mark.parametrize(
    ("split", "counts", "bins"),
    [
        ("128k", [0, 2, 3, 18, 19, 45], ["0–2", "3–6", "15–18", "19+"]),
        ("1M", [7, 8, 56, 60], ["0–7", "8–13", "56+"]),
        ("32k", [0, 1, 2, 6, 9], ["0–1", "2", "6+"]),
        ("7blocks", [3], ["3–6"]),
    ],
)
def test_sessions_have_the_papers_bins(split, counts, bins):
    rows = asked(*(question(distance_to_ref_in_blocks=count) for count in counts))
    result = sessions_since([entry(rows, "a" * len(counts))], rows, split)
    assert list(result.bins) == bins
    assert sum(e.n for e in result.series["m"]) == len(counts)


def test_tokens_are_binned_by_an_eighth_of_the_split():
    rows = asked(*(question(distance_to_ref_in_tokens=count) for count in (0, 15_999, 16_000, 111_999, 112_000, 10**6)))
    result = tokens_since([entry(rows, "abacaa")], rows, "128k")
    assert values(result) == {"0–16k": 0.5, "16–32k": 1.0, "96–112k": 0.0, "112k+": 1.0}


def test_the_place_in_the_context_is_counted_from_its_beginning():
    rows = asked(*(question(distance_to_ref_proportion_in_context=far) for far in (1.0, 0.9, 0.1, 0.0)))
    assert values(position([entry(rows, "aaba")], rows)) == {"0–20 %": 1.0, "80–100 %": 0.5}


def test_updates_of_three_and_more_are_one_bin():
    rows = asked(*(question(updates_spanned=count) for count in (0, 1, 3, 5)))
    assert values(updates([entry(rows, "abab")], rows)) == {"0": 1.0, "1": 0.0, "3+": 0.5}


def test_topics_with_fewest_questions_are_taken_together():
    rows = asked(*(question(topic=f"t{i:02}") for i in range(24) for _ in range(1 + (i < 19))))
    result = topics([entry(rows, "a" * len(rows))], rows)
    assert result.bins == (*(f"t{i:02}" for i in range(19)), "5 other topics")
    assert [e.n for e in result.series["m"]] == [2] * 19 + [5]


def test_tellings_stand_in_a_fixed_order_and_those_without_questions_are_left_out():
    told = ["mixed", "implied", "named", "implied", "mixed"]
    rows = asked(*(question(telling=telling) for telling in told))
    result = tellings([entry(rows, "aabbb")], rows)
    assert result.bins == ("named", "implied", "mixed")
    assert [(e.value, e.n) for e in result.series["m"]] == [(0.0, 1), (0.5, 2), (0.5, 2)]
    every = asked(*(question(telling=telling) for telling in ("mixed", "implied", "paraphrased", "named")))
    assert tellings([entry(every, "aaaa")], every).bins == ("named", "paraphrased", "implied", "mixed")


def test_questions_of_unknown_distance_are_counted_in_a_note():
    rows = asked(question(), question(distance_to_ref_in_blocks=None))
    result = sessions_since([entry(rows, "aa")], rows)
    assert result.series["m"][0].n == 1
    assert "Of 1 questions it is not known" in result.note


def test_an_option_is_called_by_how_it_stands_to_the_truth():
    row = question(option_roles=["current", "outdated", "never", "other"])
    assert [asserted(row, i) for i in range(4)] == ["right", "outdated", "never held", "other occasion"]
    marked = row | {"option_stereotypical": [True, True, False, False]}
    assert [asserted(marked, i) for i in range(2)] == ["right", "stereotype"]
    generic = question(option_roles=["current", "generic", "never", "never"])
    assert [asserted(generic, i) for i in range(2)] == ["right", "generic"]
    ideas = question(option_roles=["tried", "new", "tried", "tried"], answer_index=1)
    assert [asserted(ideas, i) for i in range(2)] == ["tried before", "right"]
    orders = [["A", "B"], ["B", "A"], ["A", "C"], ["C", "D"]]
    order = question(question_type=EVOLUTION, option_states=orders, option_roles=["current", *["never"] * 3])
    assert [asserted(order, i) for i in range(4)] == ["right", "other order", "other course", "other course"]
    named = {"recall_user_shared_facts": "another person's", "generalize_to_new_scenarios": "other reason"}
    for kind, called in named.items():
        assert asserted(question(question_type=kind, option_roles=["current", *["never"] * 3]), 2) == called


def test_shares_of_states_are_those_of_the_type():
    rows = asked(
        *(question() for _ in range(4)), question(question_type=EVOLUTION, option_roles=["current"] + ["never"] * 3)
    )
    result = states([entry(rows, "abb-d")], rows)
    assert values(result) == {
        "latest: right": 0.25,
        "latest: outdated": 0.5,
        "latest: never held": 0.0,
        "latest: no option": 0.25,
        "evolution: right": 0.0,
        "evolution: other course": 1.0,
    }
    assert result.expected == (0.25, 0.25, 0.5, None, 0.25, 0.75)


def test_errors_are_shares_of_the_wrong_answers_to_all_types():
    rows = asked(
        *(question() for _ in range(4)), question(question_type=EVOLUTION, option_roles=["current"] + ["never"] * 3)
    )
    models = [
        entry(rows, "abb-d"),
        entry(rows, "aaaaa", "perfect"),
        entry(rows, "bbbbb", "longest")._replace(is_floor=True),
    ]
    result = errors(models, rows)
    assert values(result) == {"outdated": 0.5, "never held": 0.0, "other course": 0.25, "no option": 0.25}
    assert list(values(result, "perfect").values()) == [None] * 4
    assert set(result.series) == {"m", "perfect"}
    assert result.expected == pytest.approx((4 / 5 / 3, 4 / 5 * 2 / 3, 1 / 5, None))
    assert [value and value.n for value in result.series["m"]] == [4] * 4


def test_states_stand_in_a_fixed_order_from_right_to_no_option():
    ideas = {"question_type": "suggest_new_ideas", "option_roles": ["new", *["tried"] * 3]}
    rows = asked(*(question(**ideas) for _ in range(4)))
    result = states([entry(rows, "-bba")], rows)
    assert result.bins == ("new ideas: right", "new ideas: tried before", "new ideas: no option")
    assert list(values(result).values()) == [0.25, 0.5, 0.25]


@given(st.lists(st.tuples(st.sampled_from("abcd-"), st.sampled_from(QUESTION_TYPES)), min_size=1, max_size=40))
def test_shares_of_a_type_sum_to_one(drawn):
    rows = asked(*(question(question_type=kind, persona_id=i % 3) for i, (_, kind) in enumerate(drawn)))
    result = states([entry(rows, "".join(letter for letter, _ in drawn))], rows)
    sums: dict[str, float] = {}
    for name, value in values(result).items():
        kind = name.partition(":")[0]
        sums[kind] = sums.get(kind, 0.0) + (value or 0.0)
    assert all(math.isclose(total, 1.0) for total in sums.values())


def test_stereotypes_are_counted_among_wrong_answers_to_marked_questions():
    marked = {"question_type": ALIGNED, "option_stereotypical": [False, True, False, False]}
    right_is_marked = {"question_type": ALIGNED, "option_stereotypical": [True, False, False, False]}
    rows = asked(*(question(persona_id=i // 2, **marked) for i in range(12)), question(**right_is_marked), question())
    result = stereotypes([entry(rows, "bbbbbbbbbcaa" + "bb")], rows)
    assert values(result) == {"wrong answers": 0.9}
    assert result.expected == (1 / 3,)
    assert "Of the 12 questions" in result.note
    (remark,) = result.remarks
    assert remark.startswith("m: +56.7 points [")
    assert remark.endswith("against chance; the stereotype draws answers.")
    (of_few,) = stereotypes([entry(rows, "bbba" * 2 + "aaaa" + "bb")], rows).remarks
    assert of_few.endswith("against chance; too few to tell.")


def test_official_files_that_mark_questions_give_accuracy():
    unmarked = {"option_stereotypical": None, "option_roles": None}
    rows = asked(*(question(stereotypical=mark, **unmarked) for mark in ("Yes", "No", "No")))
    assert values(stereotypes([entry(rows, "bab")], rows)) == {"No": 0.5, "Yes": 0.0}


def test_softmax():
    assert softmax([0.0, math.log(3)]) == pytest.approx([0.25, 0.75])
    assert softmax([-1e6, -1e6]) == [0.5, 0.5]


def test_calibration_takes_the_softmax_of_both_scores():
    rows = asked(*(question(persona_id=i) for i in range(4)))
    logprobs = tuple(math.log(p) for p in (0.65, 0.15, 0.1, 0.1))
    scores = {"option_logprobs": logprobs, "option_tokens": (1, 1, 1, 1)}
    given_answers = {
        id_: answer(row, "a", credits={"acc": float(i < 3), "acc_per_token": 0.0}, **scores)
        for i, (id_, row) in enumerate(rows.items())
    }
    result = calibration([ModelEntry("m", given_answers, "acc")])
    assert values(result, "m · acc")["60–70 %"] == 0.75
    assert values(result, "m · acc")["90–100 %"] is None
    assert values(result, "m · acc_per_token")["60–70 %"] == 0.0
    assert "m · acc: expected calibration error 10.0 [" in result.remarks[0]
    assert "mean confidence 65.0 %, accuracy 75.0 %" in result.remarks[0]


def test_the_calibration_error_weighs_the_gaps_of_bins():
    # Two answers at 0.9, one right: gap 0.4; two at 0.5, both right: gap 0.5.
    error = calibration_error([0.9, 0.9, 0.5, 0.5], [1, 0, 1, 1], [0, 1, 0, 1])
    assert error.value == pytest.approx(0.45)
    assert error.low == 0.0
    assert (error.n, error.clusters) == (4, 2)


@given(st.lists(st.tuples(st.floats(0, 1), st.sampled_from([0.0, 1.0])), min_size=1, max_size=50))
def test_the_calibration_error_is_at_least_the_gap_of_the_means(drawn):
    confidences, credits = zip(*drawn, strict=True)
    error = calibration_error(confidences, credits, list(range(len(drawn))))
    gap = abs(sum(credits) - sum(confidences)) / len(drawn)
    assert gap - 1e-9 <= error.value <= 1


def test_answers_without_finite_log_probabilities_are_passed_over():
    rows = asked(question())
    for scores in (None, (float("-inf"), -1.0, -1.0, -1.0), (float("nan"), -1.0, -1.0, -1.0)):
        result = calibration([entry(rows, "a", option_logprobs=scores)])
        assert isinstance(result, LeftOut)


def test_letters_are_compared_with_the_right_ones():
    rows = asked(*(question(answer_index=i % 4, persona_id=i) for i in range(8)))
    result = letters([entry(rows, "aaaaabcd")])
    assert values(result) == {"(a)": 0.625, "(b)": 0.125, "(c)": 0.125, "(d)": 0.125}
    assert result.expected == (0.25, 0.25, 0.25, 0.25)
    assert result.remarks == (
        "m: no preference for a letter is shown (Stuart-Maxwell chi-square 3.0, 3 df, p = 0.39, "
        "questions taken as independent).",
    )


def test_a_preferred_letter_is_seen():
    rows = asked(*(question(answer_index=i % 4, persona_id=i) for i in range(40)))
    assert "some letters are preferred" in letters([entry(rows, "a" * 40)]).remarks[0]


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), max_size=40))
def test_with_two_letters_the_test_is_that_of_mcnemar(pairs):
    b, c = (sum(pair == side for pair in pairs) for side in ((0, 1), (1, 0)))
    test = marginal_homogeneity([right for right, _ in pairs], [chosen for _, chosen in pairs], 2)
    assert test.statistic == pytest.approx((b - c) ** 2 / (b + c) if b + c else 0.0)
    assert test.p <= 1
    # The exact test counts the same pairs.
    exact = mcnemar([float(chosen) for _, chosen in pairs], [float(right) for right, _ in pairs]) if pairs else None
    assert exact is None or (exact.better, exact.worse) == (b, c)


def test_what_the_data_lack_is_left_out_with_a_reason():
    official = {
        "updates_spanned": None,
        "telling": None,
        "option_roles": None,
        "option_states": None,
        "option_stereotypical": None,
    }
    rows = asked(question(**official), question(persona_id=1, **official))
    results = analyse([entry(rows, "ab")], rows, split="32k", shows_options=False)
    left = {result.name: result.reason for result in results if isinstance(result, LeftOut)}
    assert left == {
        "updates": "the data have no column `updates_spanned`",
        "tellings": "the data have no column `telling`",
        "stereotypes": "the data mark no option or question as stereotypical",
        "errors": "the data do not say what each option asserts; `personamem annotate --errors` has a sample labelled",
        "states": "the data do not say what each option asserts",
        "calibration": "no model gave log-probabilities of the options",
        "letters": "the options were not shown, so that no letter could draw answers",
    }
    assert [result.name for result in results if isinstance(result, Analysis)] == [
        "types", "sessions", "tokens", "position", "topics",
    ]  # fmt: skip


def test_without_a_dataset_the_types_remain():
    rows = asked(question())
    results = analyse([entry(rows, "a")], None, lacking="it is on the moon")
    made = [result.name for result in results if isinstance(result, Analysis)]
    assert made == ["types", "letters"]
    assert {r.reason for r in results if isinstance(r, LeftOut) and r.name != "calibration"} == {"it is on the moon"}


def test_floors_stand_in_accuracy_and_nowhere_else():
    rows = asked(question(), question(persona_id=1))
    floor = entry(rows, "ab", "floor")._replace(is_floor=True)
    results = {r.name: r for r in analyse([entry(rows, "ab"), floor], rows) if isinstance(r, Analysis)}
    assert [name for name, result in results.items() if "floor" in result.series] == [
        "types", "sessions", "tokens", "position", "updates", "tellings", "topics",
    ]  # fmt: skip


def test_the_primary_score():
    assert primary_score(["acc", "acc_per_token"], "personamem_32k") == "acc_per_token"
    assert primary_score(["acc"], "personamem_32k_nocontext") == "acc"
    assert primary_score(["acc", "acc_per_token"], "personamem_32k_letters") == "acc"
    assert primary_score(["robust", "v1_parity"], "personamem_10blocks_generate") == "robust"
    assert primary_score(["x"], "personamem_32k") == "x"
