"""What happens to a user and when, drawn by code before any text is written.

The timeline is what makes questions valid. What a question may name is drawn first, and only then, by a shuffle, which
of it the user holds: so nothing but the history tells the right option from the wrong ones.
"""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from generation.banks.life import LifeEvent
from generation.banks.topic import Slot, TopicBank
from generation.config import MAX_UPDATES, Config
from generation.records import (
    STANCES,
    Event,
    Motive,
    Persona,
    Preference,
    PreferenceKind,
    SessionPlan,
    TopicHistory,
    content_id,
)
from generation.seeds import rng_for
from generation.tokenizer import token_length

_CANDIDATES: Final = 4
_MAX_SPREAD: Final = 3  # tokens between the longest and the shortest candidate of a slot or a fact
_MAX_DRAWS: Final = 100

# Which candidates (A, B, C; D is never held) a slot holds in turn, by the number of its updates. Returns to an earlier
# value keep a reader from being right by always taking the last value that is new.
_PATTERNS: Final = {0: ("A",), 1: ("AB",), 2: ("ABC", "ABC", "ABA"), 3: ("ABCA", "ABAC", "ABCB")}

_DOMINANT_SHARE: Final = 0.6  # of the reasons, those that show the persona's main motive
_INITIAL_DAYS: Final = 40
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


class _ScheduledStates(NamedTuple):
    """A preference with the states that it runs through, and the periods in which it takes them."""

    preference: Preference
    states: list[str]
    periods: list[int]


def draw_topic(config: Config, persona: Persona, bank: TopicBank, dates: Sequence[dt.date]) -> TopicHistory:
    """Draw a persona's preferences in a topic and how they change; `dates` are the days of the sessions."""
    rng = rng_for(config.seed, "timeline", persona.persona_id, bank.id)
    items = rng.sample(bank.items, len(bank.items))
    held, never = items[: config.items_per_topic], items[config.items_per_topic :]
    slots = _choose_slots(bank.slots, config.slots_per_topic, persona, rng)
    updates = _share_updates(config, len(slots), len(held), rng)

    plans: list[tuple[Preference, list[str]]] = []
    for slot, count in zip(slots, updates, strict=False):
        plans.append(_slot_states(persona, bank, slot, count, rng))
    for item, count in zip(held, updates[len(slots) :], strict=True):
        first = rng.randrange(2)
        states = [STANCES[(first + i) % 2] for i in range(count + 1)]
        plans.append((_preference(persona, bank, "item", item, sorted([item, rng.choice(never)])), states))
    for kind in rng.sample(bank.facts, config.facts_per_topic):
        candidates = _candidates([fact.recalled for fact in kind.facts], rng)
        plans.append((_preference(persona, bank, "fact", kind.id, candidates), [rng.choice(candidates)]))

    scheduled = _schedule(plans, config, rng)
    events = _events(scheduled, persona, bank, dates, rng)
    return TopicHistory(
        topic=bank.id,
        preferences=tuple(preference for preference, _ in plans),
        events=tuple(events),
        never=tuple(sorted(never)),
        sessions=tuple(
            SessionPlan(
                session_id=content_id("session", persona.persona_id, persona.name, bank.id, period, date, config.seed),
                period=period,
                date=date,
                event_ids=tuple(e.event_id for e in events if e.period == period),
            )
            for period, date in enumerate(dates)
        ),
    )


def stereotyped(slot: Slot, persona: Persona) -> set[str]:
    """Return the values of a slot that a stereotype ascribes to a persona."""
    groups = persona.groups()
    return {value.phrase for value in slot.values if groups & set(value.stereotype)}


def _choose_slots(slots: Sequence[Slot], count: int, persona: Persona, rng: random.Random) -> list[Slot]:
    """Choose slots at random, but at least one about which there is a stereotype, if the bank has one."""
    order = rng.sample(list(slots), len(slots))
    chosen = order[:count]
    if not any(stereotyped(slot, persona) for slot in chosen):
        chosen[-1:] = [next((slot for slot in order if stereotyped(slot, persona)), chosen[-1])]
    return chosen


def _share_updates(config: Config, slots: int, items: int, rng: random.Random) -> list[int]:
    """Share the updates out over slots, then items; a slot takes one three times as often as an item."""
    most = min(MAX_UPDATES, config.periods - 1)
    counts = [0] * (slots + items)
    weights = [3] * slots + [1] * items
    for _ in range(config.updates_per_topic):
        open_ = [i for i, count in enumerate(counts) if count < most]
        counts[rng.choices(open_, [weights[i] for i in open_])[0]] += 1
    return counts


def _slot_states(
    persona: Persona, bank: TopicBank, slot: Slot, updates: int, rng: random.Random
) -> tuple[Preference, list[str]]:
    phrases = [value.phrase for value in slot.values]
    marked = stereotyped(slot, persona)
    unmarked = [phrase for phrase in phrases if phrase not in marked]
    if marked and len(unmarked) >= _CANDIDATES - 1:
        # Exactly one of the four follows a stereotype, and the shuffle below gives it each part equally often.
        candidates = _candidates(unmarked, rng, beside=sorted(marked))
    else:
        candidates = _candidates(phrases, rng)
    roles = dict(zip("ABCD", rng.sample(candidates, len(candidates)), strict=True))
    states = [roles[letter] for letter in rng.choice(_PATTERNS[updates])]
    return _preference(persona, bank, "slot", slot.id, candidates), states


def _candidates(phrases: Sequence[str], rng: random.Random, beside: Sequence[str] = ()) -> list[str]:
    """Draw four phrases of about equal length, one of them from `beside` if there is any.

    The set is drawn before anything decides which of the four the user holds, so its lengths cannot tell.
    """
    best: list[str] = []
    least = -1
    for _ in range(_MAX_DRAWS):
        drawn = rng.sample(list(phrases), _CANDIDATES - bool(beside))
        if beside:
            drawn.append(rng.choice(beside))
        lengths = [token_length(phrase) for phrase in drawn]
        spread = max(lengths) - min(lengths)
        if least < 0 or spread < least:
            best, least = drawn, spread
        if spread <= _MAX_SPREAD:
            break
    return sorted(best)


def _preference(
    persona: Persona, bank: TopicBank, kind: PreferenceKind, subject: str, candidates: Sequence[str]
) -> Preference:
    return Preference(
        preference_id=content_id("preference", persona.persona_id, bank.id, kind, subject),
        kind=kind,
        subject=subject,
        candidates=tuple(candidates),
    )


def _schedule(plans: list[tuple[Preference, list[str]]], config: Config, rng: random.Random) -> list[_ScheduledStates]:
    """Give each state a period, in order, so that the sessions are about equally full."""
    load = Counter(dict.fromkeys(range(config.periods), 0))
    scheduled = []
    for preference, states in sorted(plans, key=lambda plan: -len(plan[1])):
        tries = [sorted(rng.sample(range(config.periods), len(states))) for _ in range(8)]
        if preference.kind == "slot":  # most of what can change is there from the start
            tries = [[0, *t[1:]] if len(set(t) - {0}) >= len(t) - 1 else t for t in tries]
        periods = min(tries, key=lambda t: sum(load[period] ** 2 for period in t) / len(t))
        if len(states) == 1 and preference.kind != "slot":
            periods = [min(load, key=lambda period: load[period])]
        load.update(periods)
        scheduled.append(_ScheduledStates(preference, states, periods))
    return scheduled if max(load.values()) <= config.turns_per_session.min else _schedule_evenly(scheduled, config, rng)


def _schedule_evenly(plans: Sequence[_ScheduledStates], config: Config, rng: random.Random) -> list[_ScheduledStates]:
    """Give each state one of the emptiest periods: no session then has two events more than another."""
    load = Counter(dict.fromkeys(range(config.periods), 0))
    scheduled = []
    for plan in plans:
        order = sorted(load, key=lambda period: (load[period], rng.random()))
        periods = sorted(order[: len(plan.states)])
        load.update(periods)
        scheduled.append(plan._replace(periods=periods))
    return scheduled


def _events(
    plans: Sequence[_ScheduledStates], persona: Persona, bank: TopicBank, dates: Sequence[dt.date], rng: random.Random
) -> list[Event]:
    reasons = _Reasons(persona, bank, rng)
    events: list[Event] = []
    last: dict[str, str] = {}
    steps = [
        (period, plan.preference.preference_id, state)
        for plan in plans
        for period, state in zip(plan.periods, plan.states, strict=True)
    ]
    for period in range(len(dates)):
        now = [(preference_id, state) for p, preference_id, state in steps if p == period]
        rng.shuffle(now)
        first = dates[period - 1] + dt.timedelta(days=1) if period else dates[0] - dt.timedelta(days=_INITIAL_DAYS)
        # Not on the day of the session: what was tried this morning is no lasting view yet.
        days = sorted(first + dt.timedelta(days=rng.randrange((dates[period] - first).days)) for _ in now)
        for (preference_id, state), day in zip(now, days, strict=True):
            previous = last.get(preference_id)
            reason, motive = reasons.draw() if previous else (None, None)
            event_id = content_id(
                "event", persona.persona_id, persona.name, bank.id, preference_id, period, day, state, reason
            )
            last[preference_id] = event_id
            events.append(
                Event(
                    event_id=event_id,
                    period=period,
                    date=day,
                    preference_id=preference_id,
                    state=state,
                    previous_event_id=previous,
                    reason=reason,
                    motive=motive,
                )
            )
    return events


class _Reasons:
    """Reasons of a topic, none used twice, most of them of the persona's main motive."""

    def __init__(self, persona: Persona, bank: TopicBank, rng: random.Random) -> None:
        self._rng = rng
        self._main = persona.motive
        self._left: dict[Motive, list[str]] = {
            motive: rng.sample([r.recalled for r in bank.reasons[motive]], len(bank.reasons[motive]))
            for motive in (persona.motive, *persona.secondary_motives)
        }

    def draw(self) -> tuple[str, Motive]:
        left = [motive for motive, reasons in self._left.items() if reasons]
        others = [motive for motive in left if motive != self._main]
        main = self._main in left and (not others or self._rng.random() < _DOMINANT_SHARE)
        motive = self._main if main else self._rng.choice(others)
        return self._left[motive].pop(), motive
