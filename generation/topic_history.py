"""What happens to a user in a topic and what their sessions tell of it: drawn by code before any text is written.

This is what makes questions valid: given what the options and the sessions name, each option is right equally often.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Sequence
from itertools import islice
from typing import Final, NamedTuple

from generation.banks.topic import TopicBank
from generation.config import FREE_SHARE, Config
from generation.decoys import Decoys
from generation.history_records import Event, Mention, SessionPlan, TopicHistory
from generation.motives import Reasons
from generation.preference_plans import PreferencePlan, draw_plans
from generation.records import Motive, Persona, content_id
from generation.seeds import rng_for
from generation.tellings import (
    Told,
    draw_offers,
    tell_fact,
    tell_stance,
    tell_trials,
    tell_value,
)

_INITIAL_DAYS: Final = 40
_OFFERS: Final = 2  # lists of the assistant in a session


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
    reasons = Reasons(bank, frozenset(persona.life), motive, persona.motives, config.updates_per_topic, rng)
    decoys = Decoys(config, persona, bank, plans, reasons, rng)
    preferences = [plan.preference for plan in plans]
    events: list[Event] = []
    mentions: list[Mention] = []
    sessions = []
    for period, date in enumerate(dates):
        threads = _threads(config, persona, plans, period, reasons, decoys, rng)
        order = [ranks.ordered(thread) for thread in rng.sample(threads, len(threads))]
        told = [one for thread in order for one in thread]
        first = dates[period - 1] + dt.timedelta(days=1) if period else dates[0] - dt.timedelta(days=_INITIAL_DAYS)
        # Not on the day of the session: what was tried this morning is no lasting view yet.
        days = sorted(first + dt.timedelta(days=rng.randrange((date - first).days)) for _ in told)
        dated = _Dated(list(zip(told, days, strict=True)), period)
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
                threads=_in_threads([ids[i] for i in sorted(ids)], [len(thread) for thread in order]),
                offers=tuple(draw_offers([one for one in told if one.preference in preferences], _OFFERS, rng)),
            )
        )
    return TopicHistory(
        topic=bank.id,
        motive=motive,
        preferences=tuple(preferences),
        events=tuple(events),
        mentions=tuple(mentions),
        sessions=tuple(sessions),
    )


def _in_threads(ids: Sequence[str], sizes: Sequence[int]) -> tuple[tuple[str, ...], ...]:
    rest = iter(ids)
    return tuple(tuple(islice(rest, size)) for size in sizes)


def _threads(
    config: Config,
    persona: Persona,
    plans: Sequence[PreferencePlan],
    period: int,
    reasons: Reasons,
    decoys: Decoys,
    rng: random.Random,
) -> list[list[Told]]:
    """Return what each stretch of chat of a session tells, in no order: its events, and what is told of others."""
    threads = [
        _event(plan, plan.periods.index(period), persona, reasons, rng)
        for plan in rng.sample(plans, len(plans))
        if period in plan.periods
    ]
    # There should be room for stretches of chat that tell nothing.
    turns = (config.turns_per_session.min + config.turns_per_session.max) / 2
    room = round(turns * (1 - FREE_SHARE) / config.turns_per_thread) - len(threads)
    return [*threads, *decoys.of_session(room, period, (one for thread in threads for one in thread))]


def _event(plan: PreferencePlan, number: int, persona: Persona, reasons: Reasons, rng: random.Random) -> list[Told]:
    """Return a plan's event of a number, and what stands beside it."""
    preference = plan.preference
    if plan.kind == "trial":
        return tell_trials(preference, plan.states[0], plan.telling, persona, rng)
    if plan.kind == "fact":
        return tell_fact(preference, plan.states[0], plan.telling, persona, rng)
    change = reasons.next(preference, plan.states[number]) if number else None
    if plan.kind == "item":
        return tell_stance(preference, plan.states[number], plan.telling, persona, rng, change)
    return tell_value(preference, plan.states[: number + 1], plan.telling, persona, rng, change)


class _Ranks:
    """Where the user's own stands among what is told beside it: of each kind at every place equally often.

    Left to chance alone, a split of a few hundred questions would hold by luck more of one place than of another.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._left: dict[tuple[str, bool, bool], list[int]] = {}

    def draw(self, group: Sequence[Told]) -> int:
        """Return a place among those of a group."""
        tells = any(one.whose == "user" for one in group)
        left = self._left.setdefault((group[0].preference.kind, group[0].reason is not None, tells), [])
        if not left:
            left += self._rng.sample(range(len(group)), len(group))
        return left.pop()

    def ordered(self, group: Sequence[Told]) -> list[Told]:
        """Return what a stretch of chat tells in random order, the user's own at the place that is drawn for it.

        Where none of it is the user's, what is theirs now takes that place.
        """
        order = sorted(self._rng.sample(list(group), len(group)), key=lambda one: one.is_held)
        order.insert(self.draw(group), order.pop())
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
