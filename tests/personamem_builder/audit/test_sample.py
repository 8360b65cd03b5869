"""The questions that probes look at, of a split with more than they need."""

from __future__ import annotations

from collections import Counter

import pytest

from personamem_builder.audit.records import AuditedSplit
from personamem_builder.audit.sample import sample
from personamem_builder.schema import QuestionRow

TYPES = ("suggest_new_ideas", "recall_user_shared_facts", "generalize_to_new_scenarios")


def split(counts: dict[int, dict[str, int]], name: str = "32k") -> AuditedSplit:
    rows: list[QuestionRow] = [
        {"persona_id": persona, "question_type": kind, "question_id": f"{persona}-{kind}-{i}"}  # type: ignore[typeddict-item]
        for persona, own in counts.items()
        for kind, count in own.items()
        for i in range(count)
    ]
    return AuditedSplit(name, rows)


EVEN = split({persona: dict.fromkeys(TYPES, 4) for persona in range(100)})


@pytest.mark.parametrize("size", [1200, 5000])
def test_a_small_split_is_its_own_sample(size: int) -> None:
    assert sample(EVEN, size) is EVEN


def test_a_sample_holds_whole_personas_in_the_order_of_the_split() -> None:
    found = sample(EVEN, 250)
    assert set(Counter(found.personas).values()) == {12}
    assert len(found.rows) == 20 * 12
    places = {row["question_id"]: i for i, row in enumerate(EVEN.rows)}
    order = [places[row["question_id"]] for row in found.rows]
    assert order == sorted(order)
    assert min(found.personas) < 50 <= max(found.personas), "it is drawn, not the beginning"


def test_it_is_the_same_each_time_wherever_the_rows_stand_and_another_one_for_another_split() -> None:
    found = sample(EVEN, 250)
    assert sample(EVEN, 250).rows == found.rows
    moved = AuditedSplit("32k", [*reversed(EVEN.rows)])
    assert set(sample(moved, 250).personas) == set(found.personas)
    assert set(sample(AuditedSplit("128k", EVEN.rows), 250).personas) != set(found.personas)


def test_types_have_the_shares_that_they_have_in_the_split() -> None:
    """Each persona is asked for one type only; a third of them for each."""
    uneven = split({persona: {TYPES[persona % 3]: 10} for persona in range(300)})
    counts = Counter(sample(uneven, 600).types)
    assert counts.total() == 600
    assert max(counts.values()) - min(counts.values()) <= 10


def test_few_personas_with_many_questions_are_all_there() -> None:
    found = sample(split({persona: {TYPES[0]: 400} for persona in range(15)}), 1000)
    assert Counter(found.personas) == dict.fromkeys(range(15), 66)
