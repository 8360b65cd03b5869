"""What happens to a user in a topic and what their sessions tell of it: drawn by code before any text is written.

This is what makes questions valid: given what the options and the sessions name, each option is right equally often.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Sequence
from typing import Final, NamedTuple

from generation.banks.topic import TopicBank
from generation.config import LIFE_EVENTS, OPTIONS, Config
from generation.history_records import Event, Mention, SessionPlan, TopicHistory
from generation.motives import Reasons
from generation.preference_plans import PreferencePlan, draw_plans
from generation.records import Motive, Persona, content_id
from generation.seeds import rng_for
from generation.tellings import (
    Told,
    draw_offers,
    tell_fact,
    tell_others,
    tell_stance,
    tell_trials,
    tell_value,
)

_INITIAL_DAYS: Final = 40
_OFFERS: Final = 2  # lists of the assistant in a session
_OTHERS_SHARE: Final = 0.6  # of the slots that a session could speak of without telling an event


def topic_motives(config: Config, persona: Persona, topics: Sequence[str]) -> dict[str, Motive]:
    """Draw what moves a persona most in each topic: each of their motives about equally often."""
    rng = rng_for(config.seed, "motives", persona.persona_id)
    motives: list[Motive] = []
    while len(motives) < len(topics):
        motives += rng.sample(persona.motives, len(persona.motives))
    return dict(zip(rng.sample(list(topics), len(topics)), motives, strict=False))


def draw_topic(
    config: Config, persona: Persona, bank: TopicBank, dates: Sequence[dt.date], motive: Motive
) -> TopicHistory:
    """Draw a persona's preferences in a topic, how they change, and what the sessions tell.

    Args:
        config: Of the run.
        persona: The user.
        bank: Of the topic.
        dates: The days of the sessions.
        motive: What moves the user most in the topic.
    """
    rng = rng_for(config.seed, "timeline", persona.persona_id, bank.id)
    plans = draw_plans(config, persona, bank, rng)
    ranks = _Ranks(rng)
    reasons = Reasons(bank, motive, persona.motives, config.updates_per_topic, rng)
    events: list[Event] = []
    mentions: list[Mention] = []
    sessions = []
    for period, date in enumerate(dates):
        told = _told(config, persona, plans, period, reasons, rng)
        first = dates[period - 1] + dt.timedelta(days=1) if period else dates[0] - dt.timedelta(days=_INITIAL_DAYS)
        # Not on the day of the session: what was tried this morning is no lasting view yet.
        days = sorted(first + dt.timedelta(days=rng.randrange((date - first).days)) for _ in told)
        dated = _Dated(list(zip(_ordered(told, ranks, rng), days, strict=True)), period)
        new_events = dated.events(persona, bank.id, events)
        new_mentions = dated.mentions(persona, bank.id, new_events)
        events += new_events.values()
        mentions += new_mentions.values()
        ids = {i: event.event_id for i, event in new_events.items()}
        ids |= {i: mention.mention_id for i, mention in new_mentions.items()}
        sessions.append(
            SessionPlan(
                session_id=content_id("session", persona.persona_id, persona.name, bank.id, period, date, config.seed),
                period=period,
                date=date,
                event_ids=tuple(event.event_id for event in new_events.values()),
                told=tuple(ids[i] for i in sorted(ids)),
                offers=tuple(draw_offers(told, _OFFERS, rng)),
            )
        )
    return TopicHistory(
        topic=bank.id,
        motive=motive,
        preferences=tuple(plan.preference for plan in plans),
        events=tuple(events),
        mentions=tuple(mentions),
        sessions=tuple(sessions),
    )


def _told(
    config: Config,
    persona: Persona,
    plans: Sequence[PreferencePlan],
    period: int,
    reasons: Reasons,
    rng: random.Random,
) -> list[Told]:
    """Return what a session tells, in no order: its events and what stands beside them, and values of others."""
    told: list[Told] = []
    for plan in rng.sample(plans, len(plans)):
        if period in plan.periods:
            told += _event(plan, plan.periods.index(period), persona, reasons, rng)
    room = config.turns_per_session.min - LIFE_EVENTS
    held = [plan for plan in plans if plan.kind == "slot" and plan.periods[0] < period and period not in plan.periods]
    for plan in rng.sample(held, len(held)):
        if len(told) + OPTIONS <= room and rng.random() < _OTHERS_SHARE:
            so_far = [state for state, p in zip(plan.states, plan.periods, strict=True) if p < period]
            told += tell_others(plan.preference, so_far, plan.telling, persona, rng)
    return told


def _event(plan: PreferencePlan, number: int, persona: Persona, reasons: Reasons, rng: random.Random) -> list[Told]:
    """Return a plan's event of a number, and what stands beside it."""
    preference = plan.preference
    if plan.kind == "trial":
        return tell_trials(preference, plan.states[0], plan.telling, persona, rng)
    if plan.kind == "fact":
        return tell_fact(preference, plan.states[0], plan.telling, persona, rng)
    change = reasons.next() if number else None
    if plan.kind == "item":
        return tell_stance(preference, plan.states[number], plan.telling, persona, rng, change)
    return tell_value(preference, plan.states[: number + 1], plan.telling, persona, rng, change)


class _Ranks:
    """Where the user's own stands among what is told beside it: of each kind at every place equally often.

    Left to chance alone, a split of a few hundred questions would hold by luck more of one place than of another.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._left: dict[tuple[str, bool], list[int]] = {}

    def draw(self, group: Sequence[Told]) -> int:
        """Return a place among those of a group."""
        left = self._left.setdefault((group[0].preference.kind, group[0].reason is not None), [])
        if not left:
            left += self._rng.sample(range(len(group)), len(group))
        return left.pop()


def _ordered(told: Sequence[Told], ranks: _Ranks, rng: random.Random) -> list[Told]:
    """Return what a session tells in random order, the user's own at the places that are drawn for it.

    Where none of a group is the user's, what is theirs now takes that place.
    """
    order = rng.sample(list(told), len(told))
    places: dict[str, list[int]] = {}
    for place, one in enumerate(order):
        places.setdefault(one.preference.preference_id, []).append(place)
    for own in places.values():
        group = sorted((order[place] for place in own), key=lambda one: one.is_held)
        group.insert(ranks.draw(group), group.pop())
        for place, one in zip(own, group, strict=True):
            order[place] = one
    return order


class _Dated(NamedTuple):
    """What a session tells, in order, each with the day on which it happened."""

    told: list[tuple[Told, dt.date]]
    period: int

    def events(self, persona: Persona, topic: str, earlier: Sequence[Event]) -> dict[int, Event]:
        """Return the events among it, by their places."""
        last = {event.preference_id: event.event_id for event in earlier}
        found = {}
        for place, (one, day) in enumerate(self.told):
            if one.whose != "user":
                continue
            preference_id = one.preference.preference_id
            event_id = content_id(
                "event", persona.persona_id, persona.name, topic, preference_id, self.period, day, one.state, one.reason
            )
            found[place] = Event(
                event_id=event_id,
                period=self.period,
                date=day,
                preference_id=preference_id,
                state=one.state,
                telling=one.telling,
                previous_event_id=last.get(preference_id),
                reason=one.reason,
                motive=one.motive,
            )
        return found

    def mentions(self, persona: Persona, topic: str, events: dict[int, Event]) -> dict[int, Mention]:
        """Return the mentions among it, by their places, each beside its event."""
        beside = {event.preference_id: event.event_id for event in events.values()}
        found = {}
        for place, (one, day) in enumerate(self.told):
            if one.whose == "user":
                continue
            kind, said = one.preference.kind, (one.subject, one.state, one.whose, one.person, one.reason)
            found[place] = Mention(
                mention_id=content_id(
                    "mention", persona.persona_id, persona.name, topic, kind, self.period, day, *said
                ),
                period=self.period,
                date=day,
                beside_event_id=beside.get(one.preference.preference_id),
                kind=kind,
                subject=one.subject,
                state=one.state,
                whose=one.whose,
                person=one.person,
                telling=one.telling,
                reason=one.reason,
                motive=one.motive,
            )
        return found
