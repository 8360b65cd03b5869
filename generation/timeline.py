"""When the sessions of a user take place, and what else happens in their life: drawn before any text is written."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Sequence
from typing import Final, NamedTuple

from generation.banks.life import LifeEvent
from generation.config import Config
from generation.records import Persona
from generation.seeds import rng_for

_OFFSETS: Final = ((0, 0), (7, 1), (30, 3), (365, 8))  # days after the first session, and how far they may move
_TOPIC_GAPS: Final = (2, 30)  # days between the starts of two topics
_GENERAL_EVENTS: Final = (10, 8, 8, 8)
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

    An entry that reverses an earlier one comes only after it.
    """
    rng = rng_for(config.seed, "general", persona.persona_id)
    start = start_date(config, persona.persona_id)
    pool = [e for e in bank if e.min_age <= persona.age <= e.max_age]
    plans: list[GeneralPlan] = []
    for period, count in enumerate(_GENERAL_EVENTS[: config.periods]):
        had = {plan.entry.id for plan in plans}
        reversals = [e for e in pool if e.id not in had and e.after is not None and e.after in had]
        fresh = [e for e in pool if e.id not in had and e.after is None]
        chosen = rng.sample(reversals, min(len(reversals), count // 2))
        chosen += rng.sample(fresh, min(len(fresh), count - len(chosen)))
        low, high = _general_days(start, period)
        drawn = []
        for entry in chosen:
            old_enough = start - dt.timedelta(days=365 * (persona.age - entry.min_age))
            first = max(low, old_enough)
            drawn.append(GeneralPlan(entry, period, first + dt.timedelta(days=rng.randrange((high - first).days + 1))))
        plans += sorted(drawn, key=lambda plan: plan.date)
    return plans


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
