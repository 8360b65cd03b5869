from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_banks import TOPICS, small_banks

from generation.banks.load import load_shipped_banks
from generation.banks.topic import TopicBank
from generation.grammar import expand, expand_phrase
from generation.records import QUESTION_TYPES, Question, Session
from generation.store import RunStore
from personamem_builder.audit.evidence_reader import STATE_TYPES, EvidenceReader, holds

Asked = list[tuple[Question, list[tuple[str, str]]]]

banks = st.sampled_from([small_banks().topics[topic] for topic in TOPICS])
randoms = st.integers(0, 2**32).map(random.Random)


@pytest.fixture(scope="module")
def reader() -> EvidenceReader:
    return EvidenceReader(load_shipped_banks())


@pytest.fixture(scope="module")
def asked(tiny_run: Path) -> Asked:
    """The questions of a run, each with its evidence messages and the topics of their sessions."""
    store = RunStore(tiny_run)
    told = {e: (m.content, s.topic) for s in store.read("sessions", Session) for m in s.messages for e in m.event_ids}
    return [(q, [told[event_id] for event_id in q.evidence_event_ids]) for q in store.read("questions", Question)]


def answer(reader: EvidenceReader, question: Question, evidence: list[tuple[str, str]]) -> int | None:
    texts = [option.text for option in question.options]
    return reader.answer(question.question_type, question.topic, texts, evidence)


# --- answers


def test_every_question_of_a_run_is_answered_from_its_evidence_alone(reader: EvidenceReader, asked: Asked) -> None:
    assert {question.question_type for question, _ in asked} == set(QUESTION_TYPES)
    assert [q.question_id for q, evidence in asked if answer(reader, q, evidence) != q.answer_index] == []


def test_without_its_evidence_no_question_is_answered(reader: EvidenceReader, asked: Asked) -> None:
    assert {answer(reader, question, []) for question, _ in asked} == {None}


def test_without_the_last_update_an_outdated_option_is_the_answer(reader: EvidenceReader, asked: Asked) -> None:
    latest = [(q, e) for q, e in asked if q.question_type.startswith(("acknowledge", "provide")) and len(e) > 1]
    roles = [q.options[chosen].role for q, e in latest if (chosen := answer(reader, q, e[:-1])) is not None]
    assert roles == ["outdated"] * len(latest) != []


def test_the_order_of_the_evidence_decides_about_a_course(reader: EvidenceReader, asked: Asked) -> None:
    courses = [(q, e) for q, e in asked if q.question_type.startswith("track") and len(e) == 2]
    assert courses
    assert [q for q, e in courses if answer(reader, q, e[::-1]) == q.answer_index] == []


def test_two_options_that_fit_are_no_answer(reader: EvidenceReader, asked: Asked) -> None:
    for question, evidence in asked:
        texts = [question.options[question.answer_index].text] * 2
        assert reader.answer(question.question_type, question.topic, texts, evidence) is None


def test_reasons_are_found_where_the_topics_of_their_sessions_are_unknown(reader: EvidenceReader, asked: Asked) -> None:
    motives = [(q, e) for q, e in asked if q.question_type == "generalize_to_new_scenarios"]
    for question, evidence in motives:
        assert answer(reader, question, [(text, question.topic) for text, _ in evidence]) == question.answer_index


@pytest.mark.parametrize("question_type", QUESTION_TYPES)
def test_what_no_bank_covers_is_not_answered(reader: EvidenceReader, question_type: str) -> None:
    assert not reader.knows(question_type, "chess", [("I play.", "chess")])
    assert reader.answer(question_type, "chess", ["Chess.", "Go."], [("I play.", "chess")]) is None


def test_evidence_of_an_unknown_topic_makes_a_question_unknown(reader: EvidenceReader, asked: Asked) -> None:
    for question, evidence in asked:
        assert reader.knows(question.question_type, question.topic, evidence)
        assert not reader.knows(question.question_type, question.topic, [*evidence, ("I play.", "chess")])


# --- reading


@given(bank=banks, rng=randoms, data=st.data())
def test_values_are_read_from_whatever_tells_them(
    reader: EvidenceReader, bank: TopicBank, rng: random.Random, data: st.DataObject
) -> None:
    slot = data.draw(st.sampled_from(bank.slots))
    values = data.draw(st.lists(st.sampled_from([value.phrase for value in slot.values]), min_size=1, max_size=4))
    messages = [(expand(rng.choice([*slot.first, *slot.update]), rng, value=value), bank.id) for value in values]
    assert reader.course(messages) == tuple(values)


@given(bank=banks, rng=randoms, data=st.data())
def test_stances_are_read_from_whatever_tells_them(
    reader: EvidenceReader, bank: TopicBank, rng: random.Random, data: st.DataObject
) -> None:
    phrases = small_banks().phrases
    item = data.draw(st.sampled_from(bank.items))
    stances = data.draw(st.lists(st.sampled_from(["like", "dislike"]), min_size=1, max_size=4))
    first, *later = stances
    scene = expand(rng.choice(bank.frames), rng, item=item, when="last week")
    messages = [f"{scene} {expand(rng.choice(bank.likes if first == 'like' else bank.dislikes), rng)}"]
    for stance in later:
        changes = phrases.stance_like_now if stance == "like" else phrases.stance_dislike_now
        messages.append(expand(rng.choice(changes), rng, item=item))
    assert reader.course([(text, bank.id) for text in messages]) == tuple(f"{stance}: {item}" for stance in stances)


@given(bank=banks, rng=randoms, data=st.data())
def test_reasons_and_facts_are_read_from_whatever_tells_them(
    reader: EvidenceReader, bank: TopicBank, rng: random.Random, data: st.DataObject
) -> None:
    fact = data.draw(st.sampled_from([fact for kind in bank.facts for fact in kind.facts]))
    motive = data.draw(st.sampled_from(sorted(bank.reasons)))
    reason = rng.choice(bank.reasons[motive])
    because = (f"It was because {expand_phrase(reason.told, rng)}.", bank.id)
    assert reader.told("recall_user_shared_facts", [(expand(fact.told, rng), bank.id)]) == (fact.recalled,)
    assert reader.told("revisit_reasons_behind_preference_updates", [because]) == (reason.recalled,)
    assert reader.told("generalize_to_new_scenarios", [because]) == (motive,)


def test_a_course_with_a_message_that_tells_nothing_or_two_things_is_no_course(reader: EvidenceReader) -> None:
    bank = small_banks().topics["writing"]
    one, two = (value.phrase for value in bank.slots[0].values[:2])
    told = (f"I write {one}.", bank.id)
    assert reader.course([told]) == (one,)
    assert reader.course([told, ("Good morning.", bank.id)]) == ()
    assert reader.course([told, (f"I write {one} and {two}.", bank.id)]) == ()
    assert reader.course([told, (f"{bank.items[0]} it was.", bank.id)]) == ()  # liked or not, nobody says


@given(bank=banks, rng=randoms)
def test_the_messages_of_the_banks_are_recognised(reader: EvidenceReader, bank: TopicBank, rng: random.Random) -> None:
    slot = rng.choice(bank.slots)
    queries = [*bank.idea_queries, *bank.item_queries, *slot.queries, *slot.again, *slot.recommend_queries]
    assert reader.recognises(bank.id, expand(rng.choice(queries), rng))


def test_the_messages_of_a_run_are_recognised_and_those_of_others_are_not(reader: EvidenceReader, asked: Asked) -> None:
    assert [q.message for q, _ in asked if not reader.recognises(q.topic, q.message)] == []
    assert not any(reader.recognises(q.topic, f"Well. {q.message}") for q, _ in asked)
    assert not any(reader.recognises("chess", q.message) for q, _ in asked)


# --- what holds


@pytest.mark.parametrize("question_type", QUESTION_TYPES)
def test_an_option_that_asserts_nothing_does_not_hold(question_type: str) -> None:
    assert not holds(question_type, [], [])
    assert not holds(question_type, [], ["a"])


@pytest.mark.parametrize("question_type", STATE_TYPES)
def test_a_course_holds_as_a_whole_and_in_order(question_type: str) -> None:
    assert holds(question_type, ["a", "b"], ["a", "b"])
    assert not holds(question_type, ["b", "a"], ["a", "b"])
    assert not holds(question_type, ["a"], ["a", "b"])


def test_an_idea_holds_when_nothing_was_told_of_it() -> None:
    assert holds("suggest_new_ideas", ["a"], ["b", "c"])
    assert not holds("suggest_new_ideas", ["b"], ["b", "c"])
