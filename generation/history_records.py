"""What happens to a user, and what their sessions tell of it: the records that the stage of histories writes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Container, Iterable
from itertools import takewhile
from typing import Final, Literal, Self

from pydantic import model_validator

from generation.records import Motive, Record, Telling

PreferenceKind = Literal["item", "slot", "fact", "trial"]


class Preference(Record):
    """Something about the user that events set and change.

    Attributes:
        preference_id: From the persona, the topic and the subject.
        kind: `item` (liked or disliked), `slot` (one value at a time), `fact` (happened once) or `trial` (items that
            were tried).
        subject: The item, or the id of the slot or of the kind of fact; empty for a trial.
        candidates: What options may assert, in an order that says nothing. For a slot four values; for a fact four
            facts; for an item the item itself and one of which only others speak; for a trial four items, of which the
            user has tried three.
    """

    preference_id: str
    kind: PreferenceKind
    subject: str
    candidates: tuple[str, ...]


class Event(Record):
    """Something that happened to the user and that one user turn tells.

    Attributes:
        period: Index into the periods of the topic.
        preference_id: What it sets.
        state: What it sets it to: `like` or `dislike`, a value, a fact, or items (see `tried_items`).
        telling: How the turn tells it.
        previous_event_id: The event whose state this one replaces; None for a first state.
        reason: Why the state changed, of nobody in particular; None for a first state.
        motive: What the reason shows.
    """

    event_id: str
    period: int
    date: dt.date
    preference_id: str
    state: str
    telling: Telling
    previous_event_id: str | None = None
    reason: str | None = None
    motive: Motive | None = None

    @model_validator(mode="after")
    def _updates_have_reasons(self) -> Self:
        if (self.previous_event_id is None) != (self.reason is None):
            raise ValueError("an event has a reason if and only if it replaces another")
        return self


def tried_state(items: Iterable[str]) -> str:
    """Return how items that were tried are recorded: `night trains; house swaps`."""
    return _BETWEEN_ITEMS.join(items)


def tried_items(state: str) -> list[str]:
    """Return the items that the state of a trial names."""
    return state.split(_BETWEEN_ITEMS)


_BETWEEN_ITEMS: Final = "; "

Whose = Literal["user", "other", "dropped", "past"]
"""Whose a thing told is: the user's own, somebody else's, a plan that came to nothing, or how it was with the user."""


class Mention(Record):
    """Something that a user turn tells and that is not the user's, or no longer.

    What the options of a question assert is spoken of equally often, by way of mentions: so who counts, or looks where
    words stand, learns nothing.

    Attributes:
        period: Index into the periods of the topic.
        beside_event_id: The event that it stands beside, in the same session; None where there is none.
        kind: Of what it speaks, as for a `Preference`.
        subject: As for a `Preference`.
        state: As for an `Event`.
        whose: Somebody else's, a dropped plan, or the user's past.
        person: Of the user's circle: whose it is, or to whom the user speaks of it.
        reason: As for an `Event` that is a change; None where no change is told.
    """

    mention_id: str
    period: int
    date: dt.date
    beside_event_id: str | None
    kind: PreferenceKind
    subject: str
    state: str
    whose: Whose
    person: str
    telling: Telling
    reason: str | None = None
    motive: Motive | None = None


class Offer(Record):
    """Things of one kind that the assistant names side by side, in no order; whose they are does not matter.

    Attributes:
        kind: As for a `Preference`.
        subject: The id of the slot; empty for items.
        names: Values or items.
    """

    kind: PreferenceKind
    subject: str
    names: tuple[str, ...]


class GeneralEvent(Record):
    """Something of the user's life outside the topics; no question is about it.

    Attributes:
        period: Index into `PERIODS`.
        subject: Which entry of the bank it is.
    """

    event_id: str
    period: int
    date: dt.date
    subject: str
    term: Literal["short", "long"]
    text: str


class SessionPlan(Record):
    """A session that is to be written.

    Attributes:
        session_id: From the persona, the topic and the period.
        period: Index into the periods of the topic.
        date: The day of the session; no event of it is later.
        event_ids: Events it tells, in order of date.
        threads: Events and mentions, in order of date: those of each stretch of chat that tells something.
        offers: What the assistant names in passing.
    """

    session_id: str
    period: int
    date: dt.date
    event_ids: tuple[str, ...]
    threads: tuple[tuple[str, ...], ...]
    offers: tuple[Offer, ...]

    @property
    def told(self) -> tuple[str, ...]:
        """Events and mentions, in order of date."""
        return tuple(id_ for thread in self.threads for id_ in thread)


class TopicHistory(Record):
    """The preferences of a user in a topic, how they change, and the sessions that tell of it.

    Attributes:
        motive: What moves the user most in this topic.
        preferences: What the user has a view on.
        events: By date.
        mentions: By date.
        sessions: One a period.
    """

    topic: str
    motive: Motive
    preferences: tuple[Preference, ...]
    events: tuple[Event, ...]
    mentions: tuple[Mention, ...]
    sessions: tuple[SessionPlan, ...]

    @model_validator(mode="after")
    def _knows_what_is_told(self) -> Self:
        known = {event.event_id for event in self.events} | {mention.mention_id for mention in self.mentions}
        if unknown := [id_ for session in self.sessions for id_ in session.told if id_ not in known]:
            raise ValueError(f"a session tells {unknown[0]}, which is neither an event nor a mention")
        return self

    def chain(self, preference_id: str, period: int) -> list[Event]:
        """Return the events of a preference up to a period, in order."""
        return [e for e in self.events if e.preference_id == preference_id and e.period <= period]

    def next_event(self, event: Event) -> Event | None:
        """Return the event that replaces this one, if there is one."""
        return next((e for e in self.events if e.previous_event_id == event.event_id), None)

    def beside(self, event: Event) -> list[Mention]:
        """Return the mentions that stand beside an event."""
        return [mention for mention in self.mentions if mention.beside_event_id == event.event_id]

    def session_of(self, event: Event) -> SessionPlan:
        """Return the session that tells an event."""
        return self.sessions[event.period]

    def preference(self, preference_id: str) -> Preference:
        """Return a preference by its id."""
        return next(p for p in self.preferences if p.preference_id == preference_id)


class History(Record):
    """Everything that happens to a user.

    Attributes:
        general: The general history, by date.
        topics: One history a topic, in the order in which the topics begin.
    """

    persona_id: int
    general: tuple[GeneralEvent, ...]
    topics: tuple[TopicHistory, ...]

    def up_to_missing(self, session_ids: Container[str]) -> History:
        """Return it with the sessions of each topic only up to the first that is not among some."""
        topics = [
            topic.model_copy(
                update={"sessions": tuple(takewhile(lambda s: s.session_id in session_ids, topic.sessions))}
            )
            for topic in self.topics
        ]
        return self.model_copy(update={"topics": tuple(topics)})
