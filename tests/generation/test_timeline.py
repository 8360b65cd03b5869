from __future__ import annotations

import random
from collections import Counter
from typing import Any, NamedTuple

import pytest
from small_banks import TOPICS, even
from small_histories import CASES, any_config, any_persona

from generation.banks.life import LifeEvent
from generation.config import Config
from generation.history_records import History
from generation.records import Persona
from generation.timeline import GeneralPlan, draw_general, session_dates, start_date

User = tuple[Persona, History]


class Case(NamedTuple):
    """A configuration and a user, with their general history."""

    config: Config
    persona: Persona
    general: list[GeneralPlan]


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    rng = random.Random(1)
    draws = [(any_config(rng), any_persona(rng)) for _ in range(CASES)]
    return [Case(*draw, draw_general(*draw, life_events())) for draw in draws]


# --- the days of sessions


def test_no_two_sessions_of_a_user_share_a_day(cases: list[Case]) -> None:
    for config, persona, _ in cases:
        topics = [f"topic{i}" for i in range(18)]
        days = [day for days in session_dates(config, persona.persona_id, topics).values() for day in days]
        assert len(days) == len(set(days)) == 18 * config.periods


def test_the_days_of_a_topic_fit_the_names_of_its_periods(cases: list[Case]) -> None:
    for config, persona, _ in cases:
        for days in session_dates(config, persona.persona_id, [f"topic{i}" for i in range(18)]).values():
            assert days == sorted(days)
            distances = [(day - days[0]).days for day in days]
            for distance, (low, high) in zip(distances, [(0, 0), (6, 8), (27, 33), (357, 373)], strict=False):
                assert low <= distance <= high


def test_topics_are_listed_in_the_order_in_which_they_begin(cases: list[Case]) -> None:
    for config, persona, _ in cases:
        dates = session_dates(config, persona.persona_id, TOPICS)
        assert set(dates) == set(TOPICS)
        starts = [days[0] for days in dates.values()]
        assert starts == sorted(starts)
        assert starts[0] >= start_date(config, persona.persona_id)


def test_users_begin_with_any_topic(crowd: list[User]) -> None:
    assert even(Counter(history.topics[0].topic for _, history in crowd).values())


# --- the general history


def life_events() -> list[LifeEvent]:
    """Return enough for everybody: every third of them for any age, the others for people over 30 or over 42."""
    exchanges = [{"user": "{told} What now?", "assistant": "I see."}]
    texts: dict[str, Any] = {"told": ["It was so {when}."], "exchanges": exchanges}
    plain = [
        LifeEvent(id=f"plain{i}", term="short", min_age=18 + i % 3 * 12, max_age=50 + i, **texts) for i in range(120)
    ]
    reversals = [
        LifeEvent(id=f"undone{i}", term="long", after=f"plain{i}", min_age=18 + i % 3 * 12, **texts)
        for i in range(0, 120, 2)
    ]
    return [*reversals, *plain]


def test_life_is_told_by_date_and_nothing_happens_twice(cases: list[Case]) -> None:
    for _, _, plans in cases:
        assert [plan.date for plan in plans] == sorted(plan.date for plan in plans)
        assert len({plan.entry.id for plan in plans}) == len(plans) > 0


def test_life_events_lie_in_the_periods_that_they_are_counted_to(cases: list[Case]) -> None:
    for config, persona, plans in cases:
        start = start_date(config, persona.persona_id)
        spans = [(-3650, 0), (1, 7), (8, 30), (31, 365)]
        assert {plan.period for plan in plans} == set(range(config.periods))
        for plan in plans:
            low, high = spans[plan.period]
            assert low <= (plan.date - start).days <= high


def test_a_reversal_comes_only_after_what_it_reverses(cases: list[Case]) -> None:
    for _, _, plans in cases:
        happened = {plan.entry.id: plan.date for plan in plans}
        for plan in plans:
            if plan.entry.after is not None:
                assert happened[plan.entry.after] < plan.date


def test_reversals_do_happen(crowd: list[User], crowd_config: Config) -> None:
    plans = [plan for persona, _ in crowd[:20] for plan in draw_general(crowd_config, persona, life_events())]
    assert sum(plan.entry.after is not None for plan in plans) >= 20


def test_life_events_fit_the_age_of_the_user(cases: list[Case]) -> None:
    for _, persona, plans in cases:
        age = persona.age
        assert all(plan.entry.min_age <= age <= plan.entry.max_age for plan in plans)


def test_the_user_was_old_enough_when_it_happened(cases: list[Case]) -> None:
    for config, persona, plans in cases:
        start = start_date(config, persona.persona_id)
        for plan in plans:
            years_before = (start - plan.date).days / 365
            assert persona.age - years_before >= plan.entry.min_age


def test_a_bank_too_small_for_all_events_gives_what_it_has(cases: list[Case]) -> None:
    few = [entry for entry in life_events() if entry.after is None][:3]
    for config, persona, _ in cases:
        fitting = {entry.id for entry in few if entry.min_age <= persona.age <= entry.max_age}
        assert {plan.entry.id for plan in draw_general(config, persona, few)} <= fitting


def event(name: str, **more: Any) -> LifeEvent:
    return LifeEvent(
        id=name,
        term="long",
        told=["So it was {when}."],
        exchanges=[{"user": "{told} And?", "assistant": "Yes."}],
        **more,
    )


def test_what_happens_fits_the_life_as_it_is_by_then() -> None:
    bank = [
        event("cat", without=["pet"], gives=["pet"]),
        event("vet", needs=["pet"], after="cat"),
        event("gone", needs=["pet"], after="cat", takes=["pet"]),
        event("garden_fence", needs=["garden"]),
        *(event(f"plain{i}") for i in range(30)),
    ]
    seen = set()
    for seed in range(60):
        config = Config(topics=TOPICS, seed=seed)
        persona = any_persona(random.Random(seed), life=("garden",) if seed % 2 else ())
        start = start_date(config, persona.persona_id)
        life = set(persona.life)
        for plan in draw_general(config, persona, bank):
            assert plan.entry.fits(frozenset(life))
            if plan.date < start:
                assert not plan.entry.gives | plan.entry.takes, "the profile tells how it is at the start"
            life = (life - plan.entry.takes) | plan.entry.gives
            seen.add(plan.entry.id)
    assert {"cat", "vet", "gone", "garden_fence"} <= seen
