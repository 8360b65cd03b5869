"""Contradictions are found, whatever their kind: against a reader that shares no code with the check."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_contexts import Reader, whole, wordless

from generation.records import GENERIC_TYPES, QUESTION_TYPES, Option, Question
from personamem_builder.assemble.check import Replay
from personamem_builder.assemble.layout import Layout
from personamem_builder.assemble.place import place_questions
from personamem_builder.assemble.run_records import PersonaRecords
from personamem_builder.assemble.sizes import Size

CHANGING = (
    "acknowledge_latest_user_preferences",
    "track_full_preference_evolution",
    "revisit_reasons_behind_preference_updates",
    "provide_preference_aligned_recommendations",
)
"""Types whose answer an update changes."""

Asked = tuple[PersonaRecords, Layout, Question, int]


@cache
def asked_of(user: int) -> list[Asked]:
    """Return the questions of a user, each at points of the context of all sessions."""
    records = wordless(user)
    layout = whole(records)
    rows = place_questions(records, layout, "x", Size("own", 16, None, 120, 16), random.Random(user))
    by_id = {question.question_id: question for question in records.questions}
    return [(records, layout, by_id[row.source_question_id], row.end_index_in_shared_context) for row in rows]


def asked(question_type: str) -> list[Asked]:
    some = [a for user in range(8) for a in asked_of(user) if a[2].question_type == question_type]
    assert len(some) >= 30
    return some


def faults(asked: Asked, **changes: Any) -> list[str]:
    records, layout, question, end = asked
    end = changes.pop("end", end)
    return Replay(records.history, layout).contradictions(question.model_copy(update=changes), end)


@pytest.mark.parametrize("question_type", QUESTION_TYPES)
def test_a_sound_question_has_none(question_type: str) -> None:
    assert [faults(a) for a in asked(question_type)] == [[]] * len(asked(question_type))


@pytest.mark.parametrize("question_type", QUESTION_TYPES)
def test_a_swapped_gold(question_type: str) -> None:
    for a in asked(question_type):
        gold = a[2].answer_index
        for wrong in {0, 1, 2, 3} - {gold}:
            found = faults(a, answer_index=wrong)
            assert len(found) == 2
            assert any(f.startswith(f"option {gold} ") and f.endswith("holds, but is no answer") for f in found)
            assert any(f.startswith(f"option {wrong} ") and f.endswith("but does not hold") for f in found)


@pytest.mark.parametrize("question_type", GENERIC_TYPES)
def test_a_generic_option_never_holds(question_type: str) -> None:
    for a in asked(question_type):
        generic = Option(text="That depends.", states=(), role="generic")
        gold = a[2].answer_index
        for place in range(4):
            options = [generic if i == place else option for i, option in enumerate(a[2].options)]
            says = [f"option {gold} () is the answer, but does not hold"] if place == gold else []
            assert faults(a, options=tuple(options)) == says


@pytest.mark.parametrize("question_type", QUESTION_TYPES)
def test_hidden_evidence(question_type: str) -> None:
    for a in asked(question_type):
        for event_id in a[2].evidence_event_ids:
            found = faults(a, end=a[1].event_places[event_id])
            assert f"evidence {event_id} is not visible" in found
            assert faults(a, end=a[1].event_places[event_id] + 1) != found, "one message on, it is"


@pytest.mark.parametrize("question_type", QUESTION_TYPES)
def test_evidence_that_the_context_does_not_hold_at_all(question_type: str) -> None:
    for a in asked(question_type):
        places = dict(a[1].event_places)
        lost = places.pop(a[2].evidence_event_ids[0]) and a[2].evidence_event_ids[0]
        assert f"evidence {lost} is not visible" in faults((a[0], a[1]._replace(event_places=places), a[2], a[3]))


@pytest.mark.parametrize("question_type", CHANGING)
def test_an_update_made_visible(question_type: str) -> None:
    """The next change of the preference comes before the question, and nothing else of its session does."""
    seen = 0
    for a in asked(question_type):
        records, layout, question, _ = a
        last = question.evidence_event_ids[-1]
        topic = next(t for t in records.history.topics if any(e.event_id == last for e in t.events))
        update = next((e for e in topic.events if e.previous_event_id == last), None)
        assert (update is None) == (question.before_session_id is None)
        if update is None:
            continue
        seen += 1
        found = faults(a, end=layout.event_places[update.event_id] + 1)
        gold = question.answer_index
        assert any(f.startswith(f"option {gold} ") and f.endswith("but does not hold") for f in found)
        assert faults(a, end=layout.event_places[update.event_id]) == [], "just before it the answer holds"
    assert seen >= 8


def test_an_idea_that_the_user_has_tried() -> None:
    for records, layout, question, end in asked("suggest_new_ideas"):
        wrong = (question.answer_index + 1) % 4
        options = list(question.options)
        options[question.answer_index] = options[wrong]
        found = Replay(records.history, layout).contradictions(question.model_copy(update={"options": options}), end)
        assert len(found) == 1
        assert found[0].endswith("is the answer, but does not hold")


def test_a_motive_that_does_not_lead() -> None:
    """All other changes of the topic are made to have one motive, and to be as many as those of the evidence."""
    seen = 0
    for records, layout, question, _ in asked("generalize_to_new_scenarios"):
        own = question.options[question.answer_index].states[0]
        another = next(option.states[0] for option in question.options if option.states[0] != own)
        evidence = set(question.evidence_event_ids)
        topic = next(t for t in records.history.topics if any(e.event_id in evidence for e in t.events))
        changes = [e.event_id for e in topic.events if e.motive is not None and e.event_id not in evidence]
        if len(changes) < len(evidence):
            continue
        seen += 1
        for count, holds in ((len(evidence) - 1, True), (len(evidence), False)):
            motives = dict.fromkeys(changes[:count], another) | dict.fromkeys(evidence, own)
            events = [e.model_copy(update={"motive": motives.get(e.event_id)}) for e in topic.events]
            changed = topic.model_copy(update={"events": tuple(events)})
            topics = tuple(changed if t is topic else t for t in records.history.topics)
            history = records.history.model_copy(update={"topics": topics})
            found = Replay(history, layout).contradictions(question, len(layout.messages))
            assert (found == []) == holds
            assert holds or found == [f"option {question.answer_index} ({own}) is the answer, but does not hold"]
    assert seen >= 3


@pytest.mark.parametrize("question_type", QUESTION_TYPES)
def test_a_wrong_option_that_says_the_same_as_the_right_one(question_type: str) -> None:
    for records, layout, question, end in asked(question_type):
        options = list(question.options)
        options[question.answer_index - 1] = options[question.answer_index]
        found = Replay(records.history, layout).contradictions(question.model_copy(update={"options": options}), end)
        assert len(found) == 1
        assert found[0].endswith("holds, but is no answer")


@settings(max_examples=50)
@given(st.integers(0, 7), st.data())
def test_the_check_and_another_reader_agree(user: int, data: st.DataObject) -> None:
    """At any point, also within sessions, and with any answer taken for right."""
    records, layout = wordless(user), whole(wordless(user))
    question = data.draw(st.sampled_from(records.questions))
    end = data.draw(st.integers(0, len(layout.messages)))
    answer = data.draw(st.integers(0, 3) | st.just(question.answer_index))
    told = {event_id for event_id, place in layout.event_places.items() if place < end}
    row = question.model_dump() | {"option_states": [list(option.states) for option in question.options]}
    holding = Reader(records.history.model_dump(mode="json"), told).holding(row)
    sound = told.issuperset(question.evidence_event_ids) and holding == [answer]
    found = Replay(records.history, layout).contradictions(question.model_copy(update={"answer_index": answer}), end)
    assert (found == []) == sound
