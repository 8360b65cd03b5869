from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from personamem_builder.annotation.sample import draw_sample

Row = Mapping[str, Any]

limits = st.none() | st.integers(1, 6)


@st.composite
def splits(draw: st.DrawFn) -> list[Row]:
    cells = draw(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=40))
    return [
        {
            "question_id": f"q{number}",
            "topic": f"topic {topic}",
            "question_type": f"type {kind}",
            "persona_id": persona,
            "user_question_or_message": f"message {draw(st.integers(0, 30))}",
        }
        for number, (topic, kind, persona) in enumerate(cells)
    ]


def ids(rows: Sequence[Row]) -> list[str]:
    return [row["question_id"] for row in rows]


def messages(rows: Sequence[Row]) -> list[tuple[int, str]]:
    return [(row["persona_id"], row["user_question_or_message"]) for row in rows]


@given(splits(), st.integers(1, 50), limits, limits, st.integers(0, 3))
def test_a_sample_keeps_its_limits_and_is_as_large_as_they_allow(
    rows: list[Row], size: int, per_topic: int | None, per_type: int | None, seed: int
) -> None:
    drawn = draw_sample(rows, size, per_topic=per_topic, per_type=per_type, seed=seed)

    topics = Counter(row["topic"] for row in drawn)
    types = Counter(row["question_type"] for row in drawn)
    assert len(drawn) <= size
    assert max(topics.values()) <= (per_topic or size)
    assert max(types.values()) <= (per_type or size)
    assert len(set(messages(drawn))) == len(drawn), "a persona's message was drawn twice"
    if len(drawn) < size:
        for row in rows:
            assert (
                (row["persona_id"], row["user_question_or_message"]) in messages(drawn)
                or topics[row["topic"]] == per_topic
                or types[row["question_type"]] == per_type
            ), f"{row['question_id']} could have been drawn"


@given(splits(), st.integers(1, 50), st.integers(0, 3), st.randoms(use_true_random=False))
def test_the_seed_and_the_questions_decide_not_their_order(rows: list[Row], size: int, seed: int, random: Any) -> None:
    shuffled = random.sample(rows, len(rows))

    assert ids(draw_sample(shuffled, size, seed=seed)) == ids(draw_sample(rows, size, seed=seed))


@given(splits(), st.integers(1, 20), st.integers(0, 20), limits)
def test_a_smaller_sample_begins_a_larger_one(rows: list[Row], size: int, more: int, per_topic: int | None) -> None:
    small = draw_sample(rows, size, per_topic=per_topic)

    assert ids(draw_sample(rows, size + more, per_topic=per_topic))[: len(small)] == ids(small)


@given(splits(), st.integers(1, 50))
def test_types_are_balanced_as_far_as_they_have_questions(rows: list[Row], size: int) -> None:
    drawn = Counter(row["question_type"] for row in draw_sample(rows, size))
    everything = Counter(row["question_type"] for row in draw_sample(rows, len(rows)))

    for kind, available in everything.items():
        if drawn[kind] < available:
            assert max(drawn.values()) - drawn[kind] <= 1


def test_topics_are_balanced_within_a_type() -> None:
    rows = [
        {
            "question_id": f"{topic}-{number}",
            "topic": topic,
            "question_type": "one",
            "persona_id": number,
            "user_question_or_message": topic,
        }
        for topic, count in {"often": 50, "seldom": 3, "sometimes": 10}.items()
        for number in range(count)
    ]

    drawn = Counter(row["topic"] for row in draw_sample(rows, 12))

    assert drawn["seldom"] == 3
    assert sorted((drawn["often"], drawn["sometimes"])) == [4, 5]


def test_many_topics_of_one_type_do_not_crowd_out_the_others() -> None:
    rows = [
        {
            "question_id": str(number),
            "topic": f"topic {number}" if number < 30 else "common",
            "question_type": "new" if number < 30 else f"type {number % 3}",
            "persona_id": number,
            "user_question_or_message": "?",
        }
        for number in range(60)
    ]

    assert set(Counter(row["question_type"] for row in draw_sample(rows, 24)).values()) == {6}


def test_another_seed_draws_other_questions() -> None:
    rows = [
        {
            "question_id": str(number),
            "topic": "one",
            "question_type": "one",
            "persona_id": number,
            "user_question_or_message": "?",
        }
        for number in range(100)
    ]

    assert ids(draw_sample(rows, 10, seed=1)) != ids(draw_sample(rows, 10, seed=2))
