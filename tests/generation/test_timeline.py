from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from scipy.stats import binomtest, chi2_contingency
from small_banks import TOPICS, even, small_banks

from generation.banks.life import LifeEvent
from generation.banks.topic import Slot
from generation.config import Config
from generation.records import MOTIVES, STANCES, Event, History, Persona, Preference, TopicHistory
from generation.timeline import GeneralPlan, draw_general, draw_topic, session_dates, start_date, stereotyped

User = tuple[Persona, History]

CASES = 100


def any_persona(rng: random.Random) -> Persona:
    motives = rng.sample(MOTIVES, 4)
    return Persona(
        persona_id=rng.randint(0, 10_000),
        name="Ada Berg",
        age=rng.randint(18, 75),
        gender=rng.choice(["woman", "man", "non-binary"]),
        race="White",
        occupation="baker",
        motive=motives[0],
        secondary_motives=tuple(motives[1:]),
        demographics="",
        profile="",
        shown="",
        shown_tokens=0,
    )


def any_config(rng: random.Random, spare: int = 6) -> Config:
    """Any counts that the shipped banks can give; `spare` is how many more turns a session has than it needs."""
    periods = rng.randint(1, 4)
    counts = {
        "items_per_topic": rng.choice([3, 20, rng.randint(3, 20)]),
        "slots_per_topic": rng.choice([1, 5, rng.randint(1, 5)]),
        "facts_per_topic": rng.randint(1, 3),
    }
    most = min(12, min(3, periods - 1) * (counts["items_per_topic"] + counts["slots_per_topic"]))
    updates = rng.choice([0, most, rng.randint(0, most)])
    needed = -(-(sum(counts.values()) + updates) // periods)
    return Config(
        seed=rng.choice([0, rng.randrange(2**40)]),
        topics=TOPICS,
        periods=periods,
        updates_per_topic=updates,
        turns_per_session={"min": needed + spare, "max": needed + spare},
        questions_per_topic={"generalize_to_new_scenarios": 0, "revisit_reasons_behind_preference_updates": 0},
        **counts,
    )


class Case(NamedTuple):
    """A configuration and a user, with the history of the first topic and the general one."""

    config: Config
    persona: Persona
    history: TopicHistory
    general: list[GeneralPlan]


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    rng = random.Random(1)
    draws = [(any_config(rng), any_persona(rng)) for _ in range(CASES)]
    return [Case(*draw, drawn(*draw), draw_general(*draw, life_events())) for draw in draws]


def drawn(config: Config, persona: Persona, topic: str = TOPICS[0]) -> TopicHistory:
    dates = session_dates(config, persona.persona_id, TOPICS)
    return draw_topic(config, persona, small_banks().topics[topic], dates[topic])


def chains(history: TopicHistory) -> list[tuple[Preference, list[Event]]]:
    """Return each preference with the events about it, in order of date."""
    by_date = sorted(history.events, key=lambda e: (e.date, e.period))
    return [(p, [e for e in by_date if e.preference_id == p.preference_id]) for p in history.preferences]


# --- the days of sessions


def test_no_two_sessions_of_a_user_share_a_day(cases: list[Case]) -> None:
    for config, persona, _, _ in cases:
        topics = [f"topic{i}" for i in range(18)]
        days = [day for days in session_dates(config, persona.persona_id, topics).values() for day in days]
        assert len(days) == len(set(days)) == 18 * config.periods


def test_the_days_of_a_topic_fit_the_names_of_its_periods(cases: list[Case]) -> None:
    for config, persona, _, _ in cases:
        for days in session_dates(config, persona.persona_id, [f"topic{i}" for i in range(18)]).values():
            assert days == sorted(days)
            distances = [(day - days[0]).days for day in days]
            for distance, (low, high) in zip(distances, [(0, 0), (6, 8), (27, 33), (357, 373)], strict=False):
                assert low <= distance <= high


def test_topics_are_listed_in_the_order_in_which_they_begin(cases: list[Case]) -> None:
    for config, persona, _, _ in cases:
        dates = session_dates(config, persona.persona_id, TOPICS)
        assert set(dates) == set(TOPICS)
        starts = [days[0] for days in dates.values()]
        assert starts == sorted(starts)
        assert starts[0] >= start_date(config, persona.persona_id)


def test_users_begin_with_any_topic(crowd: list[User]) -> None:
    assert even(Counter(history.topics[0].topic for _, history in crowd).values())


# --- a topic


def test_an_event_lies_between_the_session_before_and_its_own(cases: list[Case]) -> None:
    for _, _, history, _ in cases:
        days = [session.date for session in history.sessions]
        for event in history.events:
            earliest = (
                days[event.period - 1] + dt.timedelta(days=1) if event.period else days[0] - dt.timedelta(days=40)
            )
            assert earliest <= event.date <= days[event.period]
        assert [e.date for e in history.events] == sorted(e.date for e in history.events)


def test_every_event_is_told_in_exactly_one_session_that_of_its_period(cases: list[Case]) -> None:
    for _, _, history, _ in cases:
        assert Counter(e for session in history.sessions for e in session.event_ids) == Counter(
            event.event_id for event in history.events
        )
        events = {event.event_id: event for event in history.events}
        for period, session in enumerate(history.sessions):
            assert session.period == period
            told = [events[event_id] for event_id in session.event_ids]
            assert all(event.period == period for event in told)
            assert [event.date for event in told] == sorted(event.date for event in told)


def test_a_topic_has_as_many_preferences_and_updates_as_configured(cases: list[Case]) -> None:
    for config, _, history, _ in cases:
        assert Counter(preference.kind for preference in history.preferences) == {
            "item": config.items_per_topic,
            "slot": config.slots_per_topic,
            "fact": config.facts_per_topic,
        }
        assert sum(event.previous_event_id is not None for event in history.events) == config.updates_per_topic
        assert len({preference.preference_id for preference in history.preferences}) == len(history.preferences)


def test_a_preference_changes_at_most_thrice_and_once_a_period(cases: list[Case]) -> None:
    for _, _, history, _ in cases:
        for preference, events in chains(history):
            assert 1 <= len(events) <= (1 if preference.kind == "fact" else 4)
            assert len({event.period for event in events}) == len(events)


def test_each_update_replaces_the_state_before_it_by_another(cases: list[Case]) -> None:
    for _, _, history, _ in cases:
        for preference, events in chains(history):
            assert events[0].previous_event_id is None
            for before, after in pairwise(events):
                assert after.previous_event_id == before.event_id
                assert after.state != before.state
            possible = STANCES if preference.kind == "item" else preference.candidates
            assert {event.state for event in events} <= set(possible)


def test_candidates_are_four_in_an_order_that_says_nothing(cases: list[Case]) -> None:
    for _, _, history, _ in cases:
        bank = small_banks().topics[history.topic]
        slots = {slot.id: [value.phrase for value in slot.values] for slot in bank.slots}
        facts = {kind.id: [fact.recalled for fact in kind.facts] for kind in bank.facts}
        for preference in history.preferences:
            assert list(preference.candidates) == sorted(set(preference.candidates))
            if preference.kind == "item":
                (partner,) = set(preference.candidates) - {preference.subject}
                assert partner in history.never
            else:
                assert len(preference.candidates) == 4
                assert set(preference.candidates) <= set({**slots, **facts}[preference.subject])


def test_reasons_never_repeat_and_show_the_motives_of_the_user(cases: list[Case]) -> None:
    for config, persona, history, _ in cases:
        bank = small_banks().topics[history.topic]
        motive_of = {reason.recalled: motive for motive, reasons in bank.reasons.items() for reason in reasons}
        reasons = [event.reason for event in history.events if event.reason is not None]
        assert len(reasons) == len(set(reasons)) == config.updates_per_topic
        for event in history.events:
            if event.reason is not None:
                assert event.motive == motive_of[event.reason]
                assert event.motive in (persona.motive, *persona.secondary_motives)


def test_items_that_are_never_mentioned_occur_in_no_event(cases: list[Case]) -> None:
    for _, _, history, _ in cases:
        held = {preference.subject for preference in history.preferences if preference.kind == "item"}
        assert held.isdisjoint(history.never)
        assert held | set(history.never) == set(small_banks().topics[history.topic].items)
        told = {history.preference(event.preference_id).subject for event in history.events}
        assert told.isdisjoint(history.never)
        assert {event.state for event in history.events}.isdisjoint(history.never)


def test_a_session_has_a_turn_for_each_of_its_events(cases: list[Case]) -> None:
    for config, _, history, _ in cases:
        sessions = history.sessions
        assert max(len(session.event_ids) for session in sessions) <= config.turns_per_session.min


def test_even_the_shortest_sessions_that_a_configuration_may_ask_for_have_room() -> None:
    rng = random.Random(2)
    for _ in range(CASES):
        config = any_config(rng, spare=0)
        sessions = drawn(config, any_persona(rng)).sessions
        assert max(len(session.event_ids) for session in sessions) <= config.turns_per_session.min


def test_sessions_are_about_equally_full(crowd: list[User]) -> None:
    for _, history in crowd:
        for topic in history.topics:
            told = [len(session.event_ids) for session in topic.sessions]
            assert max(told) - min(told) <= 3


def test_the_same_decisions_give_the_same_history(cases: list[Case]) -> None:
    for config, persona, history, _ in cases:
        assert drawn(config, persona) == history


def test_another_seed_another_user_or_another_topic_is_another_history() -> None:
    persona = Persona(
        persona_id=0,
        name="Ada Berg",
        age=40,
        gender="woman",
        race="White",
        occupation="",
        motive="calm",
        secondary_motives=("thrift", "health", "mastery"),
        demographics="",
        profile="",
        shown="",
        shown_tokens=0,
    )
    histories = [
        drawn(Config(seed=seed, topics=TOPICS), persona.model_copy(update={"persona_id": persona_id}), topic)
        for seed in (1, 2)
        for persona_id in (1, 2)
        for topic in TOPICS[:2]
    ]
    assert len({history.sessions for history in histories}) == 8
    assert len({event.event_id for history in histories for event in history.events}) == 8 * 27


# --- what a reader must not guess


def slots_of(crowd: list[User]) -> list[tuple[Persona, Slot, tuple[str, ...], list[str]]]:
    """Return every slot of every user: who, which, its candidates, and the states that it ran through."""
    slots = {(t.id, slot.id): slot for t in small_banks().topics.values() for slot in t.slots}
    return [
        (persona, slots[topic.topic, preference.subject], preference.candidates, [event.state for event in events])
        for persona, history in crowd
        for topic in history.topics
        for preference, events in chains(topic)
        if preference.kind == "slot"
    ]


def test_each_candidate_of_a_slot_is_equally_often_the_first_and_the_current_value(crowd: list[User]) -> None:
    for at in (0, -1):
        ranks = Counter(candidates.index(states[at]) for _, _, candidates, states in slots_of(crowd))
        assert even(ranks[rank] for rank in range(4))


def test_each_candidate_of_a_kind_of_facts_is_equally_often_true(crowd: list[User]) -> None:
    ranks = Counter(
        preference.candidates.index(events[0].state)
        for _, history in crowd
        for topic in history.topics
        for preference, events in chains(topic)
        if preference.kind == "fact"
    )
    assert even(ranks[rank] for rank in range(4))


def test_items_are_liked_as_often_as_disliked_at_first_and_now(crowd: list[User]) -> None:
    for at in (0, -1):
        stances = Counter(
            events[at].state
            for _, history in crowd
            for topic in history.topics
            for preference, events in chains(topic)
            if preference.kind == "item"
        )
        assert even(stances[stance] for stance in STANCES)


def test_neither_of_two_items_in_a_question_sorts_first_for_being_known(crowd: list[User]) -> None:
    ranks = Counter(
        preference.candidates.index(preference.subject)
        for _, history in crowd
        for topic in history.topics
        for preference in topic.preferences
        if preference.kind == "item"
    )
    assert even(ranks[rank] for rank in range(2))


def test_a_user_has_at_least_one_slot_about_which_there_is_a_stereotype(crowd: list[User]) -> None:
    for persona, history in crowd:
        for topic in history.topics:
            slots = {slot.id: slot for slot in small_banks().topics[topic.topic].slots}
            mine = [slots[preference.subject] for preference in topic.preferences if preference.kind == "slot"]
            assert any(stereotyped(slot, persona) for slot in mine)


def test_at_most_one_candidate_follows_a_stereotype(crowd: list[User]) -> None:
    for persona, slot, candidates, _ in slots_of(crowd):
        marked = stereotyped(slot, persona)
        assert len(marked & set(candidates)) == bool(marked)


def test_stereotypes_hold_as_often_as_anything_else(crowd: list[User]) -> None:
    table = {True: [0, 0, 0], False: [0, 0, 0]}  # current, outdated, never held
    for persona, slot, candidates, states in slots_of(crowd):
        marked = stereotyped(slot, persona) & set(candidates)
        for value in candidates if marked else ():
            part = 0 if value == states[-1] else 1 if value in states else 2
            table[value in marked][part] += 1
    assert min(table[True]) > 100
    assert chi2_contingency([table[True], table[False]]).pvalue > 1e-4


def test_a_stereotype_is_about_the_groups_of_the_user() -> None:
    values = [
        {"phrase": "a", "recommend": ["r"], "stereotype": ["woman"]},
        {"phrase": "b", "recommend": ["s"], "stereotype": ["older", "man"]},
        {"phrase": "c", "recommend": ["t"], "stereotype": ["younger"]},
        {"phrase": "d", "recommend": ["u"]},
    ]
    texts: dict[str, Any] = {
        "first": ["{value}"],
        "update": ["{value}"],
        "queries": ["q"],
        "again": ["g"],
        "recall": ["{value}"],
        "recommend_queries": ["w"],
    }
    slot = Slot(id="s", name="n", values=values, **texts)
    persona = Persona(
        persona_id=0,
        name="A B",
        age=39,
        gender="woman",
        race="",
        occupation="",
        motive="calm",
        secondary_motives=(),
        demographics="",
        profile="",
        shown="",
        shown_tokens=0,
    )
    assert stereotyped(slot, persona) == {"a", "c"}
    assert stereotyped(slot, persona.model_copy(update={"age": 40})) == {"a", "b"}
    assert stereotyped(slot, persona.model_copy(update={"gender": "non-binary"})) == {"c"}
    assert stereotyped(slot, persona.model_copy(update={"gender": "man"})) == {"b", "c"}


def test_values_are_returned_to_as_well_as_left(crowd: list[User]) -> None:
    """Otherwise the last value that is new would always be the current one."""
    often = [states for _, _, _, states in slots_of(crowd) if len(states) > 2]
    returned = sum(states[-1] in states[:-1] for states in often)
    assert 0.25 < returned / len(often) < 0.75


def test_most_reasons_show_the_main_motive(crowd: list[User]) -> None:
    """The first two reasons of a topic, which no bank is too small for."""
    shown = [
        event.motive == persona.motive
        for persona, history in crowd
        for topic in history.topics
        for event in [event for event in topic.events if event.reason is not None][:2]
    ]
    assert len(shown) == 2 * 4 * len(crowd)
    assert binomtest(sum(shown), len(shown), 0.6).pvalue > 1e-4


def test_secondary_motives_show_equally_often(crowd: list[User]) -> None:
    ranks = Counter(
        persona.secondary_motives.index(event.motive)
        for persona, history in crowd
        for topic in history.topics
        for event in topic.events
        if event.motive in persona.secondary_motives
    )
    assert even(ranks[rank] for rank in range(3))


# --- the general history


def life_events() -> list[LifeEvent]:
    """Return enough for everybody: every third of them for any age, the others for people over 30 or over 42."""
    texts: dict[str, Any] = {"told": ["It was so {when}."], "replies": ["I see."], "asks": ["What now?"]}
    plain = [
        LifeEvent(id=f"plain{i}", term="short", min_age=18 + i % 3 * 12, max_age=50 + i, **texts) for i in range(120)
    ]
    reversals = [
        LifeEvent(id=f"undone{i}", term="long", after=f"plain{i}", min_age=18 + i % 3 * 12, **texts)
        for i in range(0, 120, 2)
    ]
    return [*reversals, *plain]


def test_life_is_told_by_date_and_nothing_happens_twice(cases: list[Case]) -> None:
    for _, _, _, plans in cases:
        assert [plan.date for plan in plans] == sorted(plan.date for plan in plans)
        assert len({plan.entry.id for plan in plans}) == len(plans) > 0


def test_life_events_lie_in_the_periods_that_they_are_counted_to(cases: list[Case]) -> None:
    for config, persona, _, plans in cases:
        start = start_date(config, persona.persona_id)
        spans = [(-3650, 0), (1, 7), (8, 30), (31, 365)]
        assert {plan.period for plan in plans} == set(range(config.periods))
        for plan in plans:
            low, high = spans[plan.period]
            assert low <= (plan.date - start).days <= high


def test_a_reversal_comes_only_after_what_it_reverses(cases: list[Case]) -> None:
    for _, _, _, plans in cases:
        happened = {plan.entry.id: plan.date for plan in plans}
        for plan in plans:
            if plan.entry.after is not None:
                assert happened[plan.entry.after] < plan.date


def test_reversals_do_happen(crowd: list[User], crowd_config: Config) -> None:
    plans = [plan for persona, _ in crowd[:20] for plan in draw_general(crowd_config, persona, life_events())]
    assert sum(plan.entry.after is not None for plan in plans) >= 20


def test_life_events_fit_the_age_of_the_user(cases: list[Case]) -> None:
    for _, persona, _, plans in cases:
        age = persona.age
        assert all(plan.entry.min_age <= age <= plan.entry.max_age for plan in plans)


def test_the_user_was_old_enough_when_it_happened(cases: list[Case]) -> None:
    for config, persona, _, plans in cases:
        start = start_date(config, persona.persona_id)
        for plan in plans:
            years_before = (start - plan.date).days / 365
            assert persona.age - years_before >= plan.entry.min_age


def test_a_bank_too_small_for_all_events_gives_what_it_has(cases: list[Case]) -> None:
    few = [entry for entry in life_events() if entry.after is None][:3]
    for config, persona, _, _ in cases:
        fitting = {entry.id for entry in few if entry.min_age <= persona.age <= entry.max_age}
        assert {plan.entry.id for plan in draw_general(config, persona, few)} == fitting
