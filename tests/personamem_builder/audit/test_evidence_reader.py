from __future__ import annotations

import random
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_banks import TOPICS, small_banks

from generation.banks.load import load_shipped_banks
from generation.banks.topic import Reasons, TopicBank
from generation.grammar import expand
from generation.llm.offline.told_words import ToldWords
from generation.records import (
    GENERIC_TYPES,
    MOTIVES,
    QUESTION_TYPES,
    STANCES,
    TELLINGS,
    Motive,
    Option,
    Question,
    Session,
)
from generation.store import RunStore
from personamem_builder.audit.evidence_reader import STATE_TYPES, EvidenceReader, holds

Asked = list[tuple[Question, list[tuple[str, str]]]]


@cache
def shipped_reader() -> EvidenceReader:
    return EvidenceReader(load_shipped_banks())


@pytest.fixture(scope="module")
def reader() -> EvidenceReader:
    return shipped_reader()


@pytest.fixture(scope="module")
def asked(tiny_run: Path) -> Asked:
    """The questions of a run, each with its evidence messages and the topics of their sessions."""
    store = RunStore(tiny_run)
    told = {e: (m.content, s.topic) for s in store.read("sessions", Session) for m in s.messages for e in m.event_ids}
    return [(q, [told[event_id] for event_id in q.evidence_event_ids]) for q in store.read("questions", Question)]


def answer(reader: EvidenceReader, question: Question, evidence: list[tuple[str, str]]) -> int | None:
    texts = [option.text for option in question.options]
    return reader.answer(question.question_type, question.topic, question.message, texts, evidence)


# --- answers


@pytest.mark.slow
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
        found = reader.answer(question.question_type, question.topic, question.message, texts, evidence)
        assert found is None


def test_evidence_of_what_no_option_asserts_any_more_leaves_the_answer(reader: EvidenceReader, asked: Asked) -> None:
    """A generic option may have taken the place of any wrong one, of what the user held before too."""
    outdated = 0
    for question, evidence in asked:
        if question.question_type in GENERIC_TYPES:
            for wrong in {0, 1, 2, 3} - {question.answer_index}:
                options = list(question.options)
                outdated += options[wrong].role == "outdated"
                options[wrong] = Option(text="That depends on the day.", states=(), role="generic")
                with_generic = question.model_copy(update={"options": tuple(options)})
                assert answer(reader, with_generic, evidence) == question.answer_index
    assert outdated


@pytest.mark.slow
def test_reasons_are_found_where_the_topics_of_their_sessions_are_unknown(reader: EvidenceReader, asked: Asked) -> None:
    motives = [(q, e) for q, e in asked if q.question_type == "generalize_to_new_scenarios"]
    for question, evidence in motives:
        assert answer(reader, question, [(text, question.topic) for text, _ in evidence]) == question.answer_index


@pytest.mark.parametrize("question_type", QUESTION_TYPES)
def test_what_no_bank_covers_is_not_answered(reader: EvidenceReader, question_type: str) -> None:
    assert not reader.knows(question_type, "chess", [("I play.", "chess")])
    assert reader.answer(question_type, "chess", "Which?", ["Chess.", "Go."], [("I play.", "chess")]) is None


def test_evidence_of_an_unknown_topic_makes_a_question_unknown(reader: EvidenceReader, asked: Asked) -> None:
    for question, evidence in asked:
        assert reader.knows(question.question_type, question.topic, evidence)
        assert not reader.knows(question.question_type, question.topic, [*evidence, ("I play.", "chess")])


# --- reading


def words(bank: TopicBank, rng: random.Random) -> ToldWords:
    """Return the writer of what is told."""
    return ToldWords(bank, small_banks(), ["my cousin Ana", "my neighbour Sandy", "my friend Cy"], rng)


def facts_of(kind: str, subject: str, state: str, telling: str, reason: str = "", whose: str = "user") -> Any:
    """Return what is to be told, in the form of a request."""
    of = {"told_id": "x", "whose": whose, "person": "" if whose == "user" else "my uncle Bo", "when": "back in May"}
    return {
        **of,
        "kind": kind,
        "subject": subject,
        "state": state,
        "telling": telling,
        "reason": reason,
        "changed": reason != "",
    }


class Case(NamedTuple):
    """A bank, what writes in its words, and what draws from it."""

    bank: TopicBank
    words: ToldWords
    rng: random.Random

    def message(self, *told: Any) -> tuple[str, str]:
        """Return a message that tells some things, with the topic of its session."""
        return " ".join(["By the way.", *(self.words.told([one]) for one in told), "What now?"]), self.bank.id

    def reason(self, reasons: Reasons) -> str:
        """Draw a reason."""
        return self.rng.choice(reasons[self.rng.choice(MOTIVES)]).told

    def reason_of(self, stance: str) -> str:
        """Draw a reason to come to like something, or no longer to like it."""
        both = self.bank.item_reasons
        return self.reason(both.toward if stance == "like" else both.away)


def a_case(topic: str, seed: int) -> Case:
    rng = random.Random(seed)
    bank = small_banks().topics[topic]
    return Case(bank, words(bank, rng), rng)


cases = st.builds(a_case, st.sampled_from(TOPICS), st.integers(0, 2**32))
tellings = st.sampled_from(TELLINGS)
not_the_users = st.sampled_from(["other", "dropped", "past"])


@pytest.mark.slow
@given(case=cases, telling=tellings, theirs=not_the_users)
def test_of_values_those_of_the_user_are_read_with_their_reasons(case: Case, telling: str, theirs: str) -> None:
    reader = shipped_reader()
    slot = case.rng.choice(case.bank.slots)
    values = [value.phrase for value in case.rng.sample(slot.values, 4)]
    first, *later = case.rng.choices(values, k=case.rng.randint(1, 4))
    reasons = [case.reason(slot.reasons) for _ in later]
    told = [facts_of("slot", slot.id, first, telling)]
    changes = zip(later, reasons, strict=True)
    told += [facts_of("slot", slot.id, value, telling, reason) for value, reason in changes]
    others = [
        facts_of("slot", slot.id, case.rng.choice(values), telling, case.reason(slot.reasons), theirs) for _ in told
    ]
    messages = [case.message(*case.rng.sample([own, other], 2)) for own, other in zip(told, others, strict=True)]
    assert reader.course(messages, set(values)) == (first, *later)
    assert reader.told("revisit_reasons_behind_preference_updates", messages, set(values)) == tuple(reasons[-1:])
    assert reader.told("revisit_reasons_behind_preference_updates", messages, {"another thing"}) == ()


@given(case=cases, telling=tellings)
def test_of_stances_those_of_the_user_are_read(case: Case, telling: str) -> None:
    item, another = (item.phrase for item in case.rng.sample(case.bank.items, 2))
    first, *later = case.rng.choices(STANCES, k=case.rng.randint(1, 4))
    told = [facts_of("item", item, first, telling)]
    told += [facts_of("item", item, stance, telling, case.reason_of(stance)) for stance in later]
    against = {"like": "dislike", "dislike": "like"}
    others = [
        facts_of(
            "item",
            case.rng.choice([item, another]),
            against[own["state"]],
            telling,
            own["reason"] and case.reason_of(against[own["state"]]),
            "other",
        )
        for own in told
    ]
    messages = [case.message(*case.rng.sample([own, other], 2)) for own, other in zip(told, others, strict=True)]
    expected = tuple(f"{stance}: {item}" for stance in (first, *later))
    assert shipped_reader().course(messages, {item, another}) == expected


@given(case=cases, telling=tellings)
def test_of_what_happened_and_what_was_tried_that_of_the_user_is_read(case: Case, telling: str) -> None:
    kind = case.rng.choice(case.bank.facts)
    own, others = (fact.recalled for fact in case.rng.sample(kind.facts, 2))
    *tried, new = (item.phrase for item in case.rng.sample(case.bank.items, 4))
    told = [
        facts_of("fact", kind.id, own, telling),
        facts_of("fact", kind.id, others, telling, whose="other"),
        facts_of("trial", "", "; ".join(tried), telling),
        facts_of("trial", "", "; ".join([*tried[1:], new]), telling, whose="other"),
    ]
    messages = [case.message(*case.rng.sample(told, 4))]
    assert shipped_reader().told("recall_user_shared_facts", messages, set()) == (own,)
    assert sorted(shipped_reader().told("suggest_new_ideas", messages, set())) == sorted(tried)


@given(case=cases, telling=tellings, theirs=not_the_users)
def test_the_motive_that_leads_is_read(case: Case, telling: str, theirs: str) -> None:
    slot = case.rng.choice(case.bank.slots)
    main, second = case.rng.sample(MOTIVES, 2)

    def told(motive: Motive, whose: str = "user") -> Any:
        reason = case.rng.choice(slot.reasons[motive]).told
        return facts_of("slot", slot.id, case.rng.choice(slot.values).phrase, telling, reason, whose)

    lead = [case.message(told(main), told(second, theirs)), case.message(told(second, theirs), told(main))]
    tie = [*lead, case.message(told(second), told(second))]
    ask = "generalize_to_new_scenarios"
    assert shipped_reader().told(ask, [*lead, case.message(told(second))], set()) == (main,)
    assert sorted(shipped_reader().told(ask, tie, set())) == sorted([main, second]), "neither leads"
    assert shipped_reader().told(ask, [*lead, lead[0]], set()) == (main,), "a message that stands there twice"


def test_a_course_with_a_message_that_tells_nothing_or_two_things_is_no_course(reader: EvidenceReader) -> None:
    case = a_case("writing", 0)
    bank = case.bank
    slot, item = bank.slots[0], bank.items[0].phrase
    one, two = (value.phrase for value in slot.values[:2])
    first, second = (facts_of("slot", slot.id, value, "named") for value in (one, two))
    told = case.message(first)
    assert reader.course([told], {one, two}) == (one,)
    assert reader.course([told], {two}) == ()
    assert reader.course([told, ("Good morning.", bank.id)], {one, two}) == ()
    assert reader.course([told, case.message(first, second)], {one, two}) == ()
    assert reader.course([told, case.message(facts_of("item", item, "like", "named"))], {one, two}) == ()
    assert reader.course([(f"I set out with {one}.", bank.id)], {one, two}) == (), "nobody says whose it is"


def test_what_a_question_is_about_is_what_its_options_speak_of(reader: EvidenceReader) -> None:
    states = [["like: night trains"], ["dislike: house swaps"]]
    assert reader.about("track_full_preference_evolution", "travelPlanning", "How?", states) == {
        "night trains",
        "house swaps",
    }


@given(case=cases)
def test_a_question_for_a_reason_is_about_the_slot_that_it_speaks_of(case: Case) -> None:
    slot = case.rng.choice(case.bank.slots)
    ask, states = "revisit_reasons_behind_preference_updates", [["you had no money"], ["you had no time"]]
    again = f"Well. {expand(case.rng.choice(slot.again), case.rng)}"
    about = shipped_reader().about(ask, case.bank.id, again, states)
    assert about == {value.phrase for value in slot.values}


def test_the_topics_that_a_question_names_are_found(reader: EvidenceReader, asked: Asked) -> None:
    motives = [(q, e) for q, e in asked if q.question_type == "generalize_to_new_scenarios"]
    for question, evidence in motives:
        assert {topic for _, topic in evidence} <= set(reader.topics_named(question.message))
    assert reader.topics_named("Which way to the station?") == []


@given(case=cases)
def test_the_messages_of_the_banks_are_recognised(case: Case) -> None:
    bank, slot = case.bank, case.rng.choice(case.bank.slots)
    queries = [*bank.idea_queries, *bank.item_queries, *slot.queries, *slot.again, *slot.recommend_queries]
    assert shipped_reader().recognises(bank.id, expand(case.rng.choice(queries), case.rng))


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
