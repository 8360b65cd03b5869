"""Histories of a topic under any configuration, for tests of what is drawn before any text is written."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from small_banks import TOPICS, small_banks

from generation.config import MAX_TOLD, OPTIONS, Config
from generation.history_records import Event, Mention, Preference, SessionPlan, TopicHistory
from generation.records import MOTIVES, Motive, Persona
from generation.timeline import session_dates
from generation.topic_history import draw_topic

CASES = 100


def any_persona(rng: random.Random, **changes: Any) -> Persona:
    """Return a user of any age and gender, with some attributes replaced."""
    persona = Persona(
        persona_id=rng.randint(0, 10_000),
        name="Ada Berg",
        age=rng.randint(18, 75),
        gender=rng.choice(["woman", "man", "non-binary"]),
        race="White",
        occupation="baker",
        motives=tuple(rng.sample(MOTIVES, 4)),
        circle=tuple(f"my friend {name}" for name in ("Ana", "Bo", "Cy", "Di", "Ed", "Flo", "Gil", "Hal")),
        life=("over40",),
        voice="brief",
        demographics="",
        profile="",
        shown="",
        shown_tokens=0,
    )
    return persona.model_copy(update=changes)


def any_config(rng: random.Random, spare: int = 6) -> Config:
    """Any counts that the shipped banks can give; `spare` is how many more turns a session has than it needs."""
    periods = rng.randint(1, 4)
    trials = rng.randint(0, 2)
    stances = rng.choice([0, 3, rng.randint(0, 9)]) if trials else rng.randint(3, 9)
    slots, facts = rng.choice([1, 5, rng.randint(1, 5)]), rng.randint(1, 3)
    most = min(12, min(3, periods - 1) * (stances + slots))
    updates = rng.choice([0, most, rng.randint(0, most)])
    fullest = -(-(stances + trials + slots + facts + updates) // periods)
    turns = -(-OPTIONS * fullest // MAX_TOLD) + spare
    return Config(
        seed=rng.choice([0, rng.randrange(2**40)]),
        topics=TOPICS,
        periods=periods,
        items_per_topic=3 * trials + stances,
        slots_per_topic=slots,
        facts_per_topic=facts,
        updates_per_topic=updates,
        turns_per_session={"min": turns, "max": turns},
        questions_per_topic={
            "suggest_new_ideas": trials,
            "generalize_to_new_scenarios": 0,
            "revisit_reasons_behind_preference_updates": 0,
        },
    )


class Case(NamedTuple):
    """A configuration and a user, with the history of the first topic."""

    config: Config
    persona: Persona
    history: TopicHistory


def any_cases(seed: int = 1, spare: int = 6) -> list[Case]:
    """Return histories of any kind."""
    rng = random.Random(seed)
    draws = [(any_config(rng, spare), any_persona(rng)) for _ in range(CASES)]
    return [Case(*draw, drawn(*draw)) for draw in draws]


def drawn(config: Config, persona: Persona, topic: str = TOPICS[0], motive: Motive | None = None) -> TopicHistory:
    """Draw the history of a user in a topic."""
    dates = session_dates(config, persona.persona_id, TOPICS)
    return draw_topic(config, persona, small_banks().topics[topic], dates[topic], motive or persona.motives[0])


def chains(history: TopicHistory) -> list[tuple[Preference, list[Event]]]:
    """Return each preference with the events about it, in order of date."""
    by_date = sorted(history.events, key=lambda e: (e.date, e.period))
    return [(p, [e for e in by_date if e.preference_id == p.preference_id]) for p in history.preferences]


def told_in(history: TopicHistory, session: SessionPlan) -> list[Event | Mention]:
    """Return what a session tells, in order."""
    told: dict[str, Event | Mention] = {event.event_id: event for event in history.events}
    told |= {mention.mention_id: mention for mention in history.mentions}
    return [told[id_] for id_ in session.told]


def events_with_mentions(
    history: TopicHistory, accepts: Callable[[Preference], bool] = lambda preference: True
) -> Iterator[tuple[Preference, Event, list[Mention]]]:
    """Yield each event about some preferences, with what stands beside it."""
    for event in history.events:
        preference = history.preference(event.preference_id)
        if accepts(preference):
            yield preference, event, history.beside(event)
