"""The measures, on cases small enough to count by hand."""

from __future__ import annotations

from typing import Any

import pytest

from personamem_builder.memory.comparison import differences
from personamem_builder.memory.measures import (
    Excerpt,
    Measure,
    Retrieval,
    distance_class,
    estimate,
    history_tokens,
    retrieval_measures,
    retrievals_of_excerpts,
    returns_everything,
)

RECOMMENDS = "provide_preference_aligned_recommendations"


def row(number: int, evidence: list[int], roles: tuple[str, ...] = ("current", "never"), **more: Any) -> Any:
    return {
        "question_id": f"q{number}",
        "persona_id": number % 3,
        "question_type": RECOMMENDS,
        "shared_context_id": "c",
        "end_index_in_shared_context": 7,
        "evidence_message_indices": evidence,
        "option_roles": list(roles),
        **more,
    }


def found(number: int, evidence: list[int], given: set[int], *roles: str, **more: Any) -> Retrieval:
    whole = more.pop("whole", True)
    tokens = more.pop("tokens", 10)
    made = row(number, evidence, roles or ("current", "never"), **more)
    return Retrieval(made, frozenset(given), tokens, 100, whole)


def values(*questions: Retrieval) -> dict[str, dict[str, float]]:
    return {measure.name: dict(measure.values) for measure in retrieval_measures(questions)}


def test_recall_and_precision_of_evidence() -> None:
    got = values(found(0, [1, 3], {3, 4, 5, 6}), found(1, [2], {2}), found(2, [2], set()))
    assert got["evidence recall"] == {"q0": 0.5, "q1": 1.0, "q2": 0.0}
    assert got["all evidence"] == {"q0": 0.0, "q1": 1.0, "q2": 0.0}
    assert got["evidence precision"] == {"q0": 0.25, "q1": 1.0}  # of nothing there is no precision
    assert got["share of history"] == dict.fromkeys(("q0", "q1", "q2"), 0.1)


def test_text_of_the_systems_own_and_data_without_evidence_have_no_recall() -> None:
    got = values(found(0, [1, 3], {3}, whole=False), found(1, [], {2}))
    assert set(got) == {"share of history", "tokens per query"}


@pytest.mark.parametrize(
    ("given", "roles", "question_type", "stale"),
    [
        ({1}, ("current", "outdated"), RECOMMENDS, {"q0": 1.0}),
        ({1, 3}, ("current", "outdated"), RECOMMENDS, {"q0": 0.0}),
        ({3}, ("current", "outdated"), RECOMMENDS, {"q0": 0.0}),
        (set(), ("current", "outdated"), RECOMMENDS, {"q0": 0.0}),
        ({1}, ("current", "never"), RECOMMENDS, None),
        ({1}, ("current", "never"), "track_full_preference_evolution", {"q0": 1.0}),
    ],
)
def test_stale_is_an_outdated_value_without_the_current_one(
    given: set[int], roles: tuple[str, ...], question_type: str, stale: dict[str, float] | None
) -> None:
    assert values(found(0, [1, 3], given, *roles, question_type=question_type)).get("outdated only") == stale


def test_a_value_that_was_never_changed_cannot_be_stale() -> None:
    assert "outdated only" not in values(found(0, [3], {3}, "current", "outdated"))


def test_the_history_is_counted_up_to_the_question_without_the_profile(context: dict[str, Any]) -> None:
    rows = [row(0, [1]), row(1, [1], end_index_in_shared_context=3)]
    counted = history_tokens(rows, [context])
    assert counted == {"q0": 6 * counted["q1"] // 2, "q1": counted["q1"]}  # six and two messages of one length
    shown = {"q0": Excerpt("c", range(7)), "q1": Excerpt("c", (1,))}
    whole, part = retrievals_of_excerpts(rows, [context], shown)
    assert whole.indices == frozenset(range(1, 7))
    assert whole.tokens == whole.history_tokens == counted["q0"]
    assert part.tokens == counted["q1"] / 2


def test_a_system_that_returns_everything_is_told_so() -> None:
    assert returns_everything(retrieval_measures([found(0, [1], {1}, tokens=95), found(1, [1], {1}, tokens=90)]))
    assert not returns_everything(retrieval_measures([found(0, [1], {1}, tokens=95), found(1, [1], {1}, tokens=80)]))


def test_systems_are_compared_on_the_questions_that_both_have() -> None:
    rows = {f"q{i}": row(i, [1]) for i in range(6)}
    one = Measure("evidence recall", "share", {f"q{i}": 0.0 for i in range(6)})
    other = Measure("evidence recall", "share", {f"q{i}": float(i < 3) for i in range(5)} | {"q9": 1.0})
    (line,) = differences([one, Measure("own answers", "share", {"q1": 1.0})], [other], rows)
    assert (line.n, line.first, line.second, line.difference) == (5, 0.0, 0.6, 0.6)
    assert line.low is not None
    assert line.high is not None
    assert -1 <= line.low < 0.6 < line.high <= 1


def test_a_difference_of_large_numbers_has_an_interval_as_wide_as_it_is() -> None:
    rows = {f"q{i}": row(i, [1]) for i in range(3)}  # three personas with one question each
    one = Measure("tokens per query", "tokens", {"q0": 1000.0, "q1": 1000.0, "q2": 1000.0})
    other = Measure("tokens per query", "tokens", {"q0": 900.0, "q1": 1100.0, "q2": 1300.0})
    (line,) = differences([one], [other], rows)
    half = 4.302653 * (80000 / 3 / 2) ** 0.5  # t of two degrees times the standard error
    assert (line.difference, line.low, line.high) == pytest.approx((100.0, 100 - half, 100 + half))


def test_an_estimate_is_of_a_slice() -> None:
    measure = Measure("evidence recall", "share", {"q0": 1.0, "q1": 0.0, "q2": 0.5})
    rows = {f"q{i}": row(i, [1]) for i in range(3)}
    assert estimate(measure, rows, {"q0", "q2"}).value == 0.75  # type: ignore[union-attr]
    assert estimate(measure, rows, {"q7"}) is None


@pytest.mark.parametrize(
    ("blocks", "name"), [(0, "0-1"), (1, "0-1"), (2, "2-4"), (9, "5-9"), (19, "10-19"), (20, "20+"), (70, "20+")]
)
def test_distances_fall_into_classes(blocks: int, name: str) -> None:
    assert distance_class(blocks) == f"{name} sessions back"
