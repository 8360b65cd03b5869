"""What happens in a topic and what its sessions tell of it, under any configuration."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from itertools import pairwise

import pytest
from small_banks import TOPICS, even, small_banks
from small_histories import Case, any_cases, any_persona, chains, drawn, told_in

from generation.config import Config
from generation.history_records import Event, History, tried_items
from generation.records import STANCES, Persona
from generation.topic_history import topic_motives

User = tuple[Persona, History]


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return any_cases()


# --- when and where


def test_what_is_told_lies_between_the_session_before_and_its_own(cases: list[Case]) -> None:
    for _, _, history in cases:
        days = [session.date for session in history.sessions]
        for told in (*history.events, *history.mentions):
            last = days[told.period]
            first = days[told.period - 1] + dt.timedelta(days=1) if told.period else last - dt.timedelta(days=40)
            assert first <= told.date < last
        for all_told in (history.events, history.mentions):
            assert [one.date for one in all_told] == sorted(one.date for one in all_told)


def test_everything_is_told_in_exactly_one_session_that_of_its_period(cases: list[Case]) -> None:
    for _, _, history in cases:
        ids = [event.event_id for event in history.events] + [mention.mention_id for mention in history.mentions]
        assert Counter(id_ for session in history.sessions for id_ in session.told) == Counter(ids)
        for period, session in enumerate(history.sessions):
            told = told_in(history, session)
            assert session.period == period
            assert {one.period for one in told} <= {period}
            assert [one.date for one in told] == sorted(one.date for one in told)
            assert session.event_ids == tuple(one.event_id for one in told if isinstance(one, Event))


def test_a_mention_stands_in_the_session_of_its_event(cases: list[Case]) -> None:
    for _, _, history in cases:
        periods = {event.event_id: event.period for event in history.events}
        beside = [mention for mention in history.mentions if mention.beside_event_id is not None]
        assert all(periods[mention.beside_event_id] == mention.period for mention in beside)


def test_a_stretch_of_chat_tells_an_event_and_what_stands_beside_it_or_of_others_alone(cases: list[Case]) -> None:
    for _, _, history in cases:
        for session in history.sessions:
            told = {
                one.event_id if isinstance(one, Event) else one.mention_id: one for one in told_in(history, session)
            }
            for thread in session.threads:
                events = [id_ for id_ in thread if isinstance(told[id_], Event)]
                assert len(thread) == 4
                assert len(events) <= 1
                beside = {told[id_].beside_event_id for id_ in thread if id_ not in events}
                assert beside == ({*events} or {None})


def test_even_the_shortest_sessions_that_a_configuration_may_ask_for_have_room() -> None:
    for config, _, history in any_cases(seed=2, spare=0):
        assert max(len(session.threads) for session in history.sessions) <= config.turns_per_session.max


def test_about_as_many_stretches_tell_no_event_as_tell_one(crowd: list[User]) -> None:
    with_event, without = 0, 0
    for _, history in crowd:
        for topic in history.topics:
            for session in topic.sessions:
                with_event += len(session.event_ids)
                without += len(session.threads) - len(session.event_ids)
    assert 0.6 < with_event / without < 1.7


def test_of_what_questions_ask_most_about_the_same_share_is_the_users(crowd: list[User]) -> None:
    """So what a message is about does not tell whether a question asks for it."""
    own, all_ = Counter[tuple[str, bool]](), Counter[tuple[str, bool]]()
    for _, history in crowd:
        for topic in history.topics:
            kinds = {p.preference_id: p.kind for p in topic.preferences}
            own.update((kinds[event.preference_id], event.reason is not None) for event in topic.events)
            alone = (mention for mention in topic.mentions if mention.beside_event_id is None)
            all_.update((mention.kind, mention.reason is not None) for mention in alone)
    shares = {kind: own[kind] / (own[kind] + all_[kind] / 4) for kind in own}
    asked = [shares[kind] for kind in (("slot", False), ("slot", True), ("fact", False), ("trial", False))]
    assert max(asked) < 2 * min(asked)


def test_of_others_a_session_tells_all_that_options_name_or_nothing_of_it(crowd: list[User]) -> None:
    for _, history in crowd[:40]:
        for topic in history.topics:
            slots = {p.subject: set(p.candidates) for p in topic.preferences if p.kind == "slot"}
            for session in topic.sessions:
                told = [m for m in topic.mentions if m.period == session.period and m.beside_event_id is None]
                for subject, candidates in slots.items():
                    assert {m.state for m in told if m.subject == subject} in (set(), candidates)


def test_sessions_are_about_equally_full(crowd: list[User]) -> None:
    for _, history in crowd:
        for topic in history.topics:
            told = [len(session.event_ids) for session in topic.sessions]
            assert max(told) - min(told) <= 3


def test_the_order_in_a_session_does_not_tell_an_event_from_what_stands_beside_it(crowd: list[User]) -> None:
    places = Counter()
    for _, history in crowd:
        for topic in history.topics:
            for event in topic.events:
                group = {event.event_id, *(mention.mention_id for mention in topic.beside(event))}
                order = [id_ for id_ in topic.session_of(event).told if id_ in group]
                assert len(order) == 4
                places[order.index(event.event_id)] += 1
    assert even(places[place] for place in range(4))


# --- what


def test_a_topic_has_as_many_preferences_and_updates_as_configured(cases: list[Case]) -> None:
    for config, _, history in cases:
        counts = {
            "item": config.items_per_topic - 3 * config.trial_groups,
            "slot": config.slots_per_topic,
            "fact": config.facts_per_topic,
            "trial": config.trial_groups,
        }
        assert Counter(preference.kind for preference in history.preferences) == Counter(counts)
        assert sum(event.previous_event_id is not None for event in history.events) == config.updates_per_topic
        assert len({preference.preference_id for preference in history.preferences}) == len(history.preferences)


def test_a_preference_changes_at_most_thrice_and_once_a_period(cases: list[Case]) -> None:
    for _, _, history in cases:
        for preference, events in chains(history):
            assert 1 <= len(events) <= (1 if preference.kind in ("fact", "trial") else 4)
            assert len({event.period for event in events}) == len(events)


def test_each_update_replaces_the_state_before_it_by_another(cases: list[Case]) -> None:
    for _, _, history in cases:
        for preference, events in chains(history):
            assert events[0].previous_event_id is None
            for before, after in pairwise(events):
                assert after.previous_event_id == before.event_id
                assert after.state != before.state
            states = [state for event in events for state in tried_items(event.state)]
            assert set(states) <= set(STANCES if preference.kind == "item" else preference.candidates)


def test_all_of_a_course_is_told_in_one_way(cases: list[Case]) -> None:
    for _, _, history in cases:
        for _, events in chains(history):
            beside = [mention for event in events for mention in history.beside(event)]
            assert len({one.telling for one in (*events, *beside)}) == 1


def test_no_reason_of_the_user_repeats(cases: list[Case]) -> None:
    for config, _, history in cases:
        reasons = [event.reason for event in history.events if event.reason is not None]
        assert len(reasons) == config.updates_per_topic
        assert len(set(reasons)) >= len(reasons) - 1  # beyond as many as a bank has for liking or disliking things


def test_a_change_and_what_stands_beside_it_have_the_four_motives_of_the_user(cases: list[Case]) -> None:
    bank = small_banks().topics[TOPICS[0]]
    motive_of = {reason.told: motive for motive, reason in bank.all_reasons()}
    for _, persona, history in cases:
        for event in history.events:
            group = [event, *history.beside(event)]
            if event.previous_event_id is None:
                assert {(one.reason, one.motive) for one in group} == {(None, None)}
            else:
                assert sorted(one.motive for one in group) == sorted(persona.motives)
                assert all(motive_of[one.reason] == one.motive for one in group)


def test_the_main_motive_is_behind_more_changes_than_any_other(crowd: list[User]) -> None:
    for persona, history in crowd:
        for topic in history.topics:
            counts = Counter(event.motive for event in topic.events if event.motive is not None)
            assert topic.motive in persona.motives
            assert all(counts[topic.motive] > counts[m] for m in persona.motives if m != topic.motive)


def test_each_motive_of_a_user_leads_in_about_equally_many_topics() -> None:
    rng = random.Random(3)
    first = Counter()
    for _ in range(400):
        persona = any_persona(rng)
        config = Config(topics=TOPICS, seed=rng.randrange(1000))
        motives = topic_motives(config, persona, [f"topic{i}" for i in range(10)])
        counts = Counter(motives.values())
        assert set(counts) == set(persona.motives)
        assert max(counts.values()) - min(counts.values()) <= 1
        first[persona.motives.index(motives["topic0"])] += 1
    assert even(first[rank] for rank in range(4))


# --- offers


def test_the_assistant_names_all_candidates_of_what_the_session_speaks_of(cases: list[Case]) -> None:
    kinds = Counter()
    for _, _, history in cases:
        for session in history.sessions:
            told = told_in(history, session)
            spoken = {(one.kind, one.subject) for one in told if not isinstance(one, Event)}
            named = [preference.candidates for preference in history.preferences if preference.kind != "fact"]
            assert len(session.offers) <= 2
            for offer in session.offers:
                kinds[offer.kind] += 1
                assert tuple(sorted(offer.names)) in named
                if offer.kind == "slot":
                    assert ("slot", offer.subject) in spoken
                else:
                    assert offer.subject == ""
    assert set(kinds) == {"slot", "item", "trial"}


def test_the_order_of_an_offer_says_nothing(crowd: list[User]) -> None:
    places = Counter()
    for _, history in crowd:
        for topic in history.topics:
            for session in topic.sessions:
                for offer in session.offers:
                    if offer.kind == "slot":
                        (held,) = [
                            events[-1].state
                            for p, events in chains(topic)
                            if p.subject == offer.subject and p.kind == "slot"
                        ]
                        places[offer.names.index(held)] += 1
    assert even(places[place] for place in range(4))


# --- from what it follows


def test_the_same_decisions_give_the_same_history(cases: list[Case]) -> None:
    for config, persona, history in cases[:20]:
        assert drawn(config, persona) == history


def test_another_seed_another_user_or_another_topic_is_another_history() -> None:
    persona = any_persona(random.Random(4))
    histories = [
        drawn(Config(seed=seed, topics=TOPICS), persona.model_copy(update={"persona_id": persona_id}), topic)
        for seed in (1, 2)
        for persona_id in (1, 2)
        for topic in TOPICS[:2]
    ]
    assert len({history.sessions for history in histories}) == 8
    ids = [event.event_id for history in histories for event in history.events]
    ids += [mention.mention_id for history in histories for mention in history.mentions]
    assert len(set(ids)) == len(ids)
