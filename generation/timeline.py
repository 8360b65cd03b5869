"""When the sessions of a user take place, and what else happens in their life: drawn before any text is written."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Sequence
from typing import Final, NamedTuple

from generation.banks.life import LifeEvent
from generation.config import Config
from generation.lives import after_events
from generation.records import Persona
from generation.seeds import rng_for

_OFFSETS: Final = ((0, 0), (7, 1), (30, 3), (365, 8))  # days after the first session, and how far they may move
_TOPIC_GAPS: Final = (2, 30)  # days between the starts of two topics
_GENERAL_EVENTS: Final = (6, 4, 4, 6)
_GENERAL_YEARS: Final = 10
_GENERAL_SPANS: Final = (7, 30, 365)


class GeneralPlan(NamedTuple):
    """An event of the general history, before it is put into words."""

    entry: LifeEvent
    period: int
    date: dt.date


def start_date(config: Config, persona_id: int) -> dt.date:
    """Return the day on which the first topic of a persona begins."""
    rng = rng_for(config.seed, "start", persona_id)
    return dt.date(2015, 1, 1) + dt.timedelta(days=rng.randrange(8 * 365))


def draw_general(config: Config, persona: Persona, bank: Sequence[LifeEvent]) -> list[GeneralPlan]:
    """Draw the general history by date: ten years up to the start, then a week, a month and a year.

    An entry that reverses an earlier one comes only after it, and each fits the life as it is by then. What the profile
    says is so at the start: events before it change nothing that it says.
    """
    rng = rng_for(config.seed, "general", persona.persona_id)
    start = start_date(config, persona.persona_id)
    plans: list[GeneralPlan] = []
    for period, count in enumerate(_GENERAL_EVENTS[: config.periods]):
        low, high = _general_days(start, period)
        low = max(low, start - dt.timedelta(days=_DAYS_OF_A_YEAR * (persona.age - _GROWN_UP)))
        span = range((high - low).days + 1)
        for day in (low + dt.timedelta(days=days) for days in sorted(rng.sample(span, min(count, len(span))))):
            fitting = _fitting(persona, bank, plans, day, start)
            if fitting:
                plans.append(GeneralPlan(rng.choice(fitting), period, day))
    return plans


def _fitting(
    persona: Persona, bank: Sequence[LifeEvent], plans: Sequence[GeneralPlan], day: dt.date, start: dt.date
) -> list[LifeEvent]:
    """Return what may happen next; what reverses something comes first, if there is any."""
    had = {plan.entry.id for plan in plans}
    life = life_on(persona, plans)
    age = persona.age - math.ceil((start - day).days / _DAYS_OF_A_YEAR) if day < start else persona.age
    can = [
        event
        for event in bank
        if event.id not in had
        and event.fits_person(age, life)
        and event.fits_person(persona.age, life)
        and not (day < start and (event.gives | event.takes))
    ]
    reversals = [event for event in can if event.after in had]
    return (reversals if len(had) % 2 else []) or [event for event in can if event.after is None or event.after in had]


_DAYS_OF_A_YEAR: Final = 365
_GROWN_UP: Final = 18


def life_on(persona: Persona, plans: Sequence[GeneralPlan]) -> frozenset[str]:
    """Return what is so in a user's life after some events."""
    return after_events(frozenset(persona.life), [plan.entry for plan in plans])


def _general_days(start: dt.date, period: int) -> tuple[dt.date, dt.date]:
    if period == 0:
        return start - dt.timedelta(days=365 * _GENERAL_YEARS), start
    earlier = _GENERAL_SPANS[period - 2] if period > 1 else 0
    return start + dt.timedelta(days=earlier + 1), start + dt.timedelta(days=_GENERAL_SPANS[period - 1])


def session_dates(config: Config, persona_id: int, topics: Sequence[str]) -> dict[str, list[dt.date]]:
    """Draw the days of all sessions of a persona.

    Topics begin one after another; each then runs through its periods. No two sessions share a day, so that the order
    of days is one over all topics.

    Returns:
        For each topic, in the order in which they begin, one day a period.
    """
    rng = rng_for(config.seed, "dates", persona_id)
    order = rng.sample(list(topics), len(topics))
    start = start_date(config, persona_id)
    taken: set[dt.date] = set()
    dates: dict[str, list[dt.date]] = {}
    for topic in order:
        days = _free_days(start, config.periods, taken, rng)
        taken.update(days)
        dates[topic] = days
        start = days[0] + dt.timedelta(days=rng.randint(*_TOPIC_GAPS))
    return dates


def _free_days(start: dt.date, periods: int, taken: set[dt.date], rng: random.Random) -> list[dt.date]:
    while True:
        days = []
        for offset, slack in _OFFSETS[:periods]:
            near = [start + dt.timedelta(days=offset + d) for d in range(-slack, slack + 1)]
            free = [day for day in near if day not in taken]
            if not free:
                break
            days.append(rng.choice(free))
        else:
            return days
        start += dt.timedelta(days=1)
