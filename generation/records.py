"""The records of a run: what each stage writes, a line each, and the next stage reads."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Container
from itertools import takewhile
from typing import Any, Final, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, model_validator

QuestionType = Literal[
    "recall_user_shared_facts",
    "suggest_new_ideas",
    "acknowledge_latest_user_preferences",
    "track_full_preference_evolution",
    "revisit_reasons_behind_preference_updates",
    "provide_preference_aligned_recommendations",
    "generalize_to_new_scenarios",
]
QUESTION_TYPES: Final[tuple[QuestionType, ...]] = get_args(QuestionType)
"""The seven in-situ question types of the paper (arXiv 2504.14225)."""

Motive = Literal["company", "calm", "thrift", "health", "curiosity", "convenience", "conscience", "mastery"]
MOTIVES: Final[tuple[Motive, ...]] = get_args(Motive)
"""What moves people: being with others, peace, saving money, the body, the new, saving effort, doing right, skill."""

Group = Literal["woman", "man", "younger", "older"]
"""A demographic group that a stereotype is about; `younger` is under 40."""

PERIODS: Final = ("initial", "next week", "next month", "next year")
"""The periods of a topic, as the paper names them."""

STANCES: Final = ("like", "dislike")


def content_id(kind: str, *content: Any) -> str:
    """Return an id that follows from the content, which JSON must hold: 16 digits; ids of two kinds never meet."""
    text = json.dumps([kind, *content], ensure_ascii=False, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class Record(BaseModel):
    """A line of a stage file: immutable, and unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Persona(Record):
    """A user.

    Attributes:
        persona_id: Number within the run, from 0.
        age: In years, at the start of the history.
        motive: What moves them most; shown only by the reasons they give.
        secondary_motives: What also moves them at times; the remaining motives never do.
        demographics: Name, age, gender and race, in words.
        profile: About five sentences. Names no motive.
        shown: What a model is shown of the user at the start of each session; empty for nothing.
    """

    persona_id: int
    name: str
    age: int
    gender: str
    race: str
    occupation: str
    motive: Motive
    secondary_motives: tuple[Motive, ...]
    demographics: str
    profile: str
    shown: str
    shown_tokens: int

    def groups(self) -> set[Group]:
        """Return the groups whose stereotypes are about this user."""
        groups: set[Group] = {"younger" if self.age < 40 else "older"}
        if self.gender == "woman":
            groups.add("woman")
        elif self.gender == "man":
            groups.add("man")
        return groups

    def absent_motives(self) -> list[Motive]:
        """Return the motives that no reason of this user ever shows."""
        return [motive for motive in MOTIVES if motive not in (self.motive, *self.secondary_motives)]


PreferenceKind = Literal["item", "slot", "fact"]


class Preference(Record):
    """Something about the user that events set and change.

    Attributes:
        preference_id: From the persona, the topic and the subject.
        kind: `item` (liked or disliked), `slot` (one value at a time) or `fact` (happened once).
        subject: The item, or the id of the slot or of the kind of fact.
        candidates: What options may assert. For a slot four values in an order that says nothing; for a fact four
            facts; for an item the item itself and one that this user never mentions.
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
        state: What it sets it to: `like` or `dislike`, a value, or a fact.
        previous_event_id: The event whose state this one replaces; None for a first state.
        reason: Why the state changed, in the second person; None for a first state.
        motive: What the reason shows.
    """

    event_id: str
    period: int
    date: dt.date
    preference_id: str
    state: str
    previous_event_id: str | None = None
    reason: str | None = None
    motive: Motive | None = None

    @model_validator(mode="after")
    def _updates_have_reasons(self) -> Self:
        if (self.previous_event_id is None) != (self.reason is None):
            raise ValueError("an event has a reason if and only if it replaces another")
        return self


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
    """

    session_id: str
    period: int
    date: dt.date
    event_ids: tuple[str, ...]


class TopicHistory(Record):
    """The preferences of a user in a topic, how they change, and the sessions that tell of it.

    Attributes:
        preferences: What the user has a view on.
        events: By date.
        never: Items that this user never mentions.
        sessions: One a period.
    """

    topic: str
    preferences: tuple[Preference, ...]
    events: tuple[Event, ...]
    never: tuple[str, ...]
    sessions: tuple[SessionPlan, ...]

    def chain(self, preference_id: str, period: int) -> list[Event]:
        """Return the events of a preference up to a period, in order."""
        return [e for e in self.events if e.preference_id == preference_id and e.period <= period]

    def next_event(self, event: Event) -> Event | None:
        """Return the event that replaces this one, if there is one."""
        return next((e for e in self.events if e.previous_event_id == event.event_id), None)

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


class Message(Record):
    """A message of a session.

    Attributes:
        num_tokens: Its tokens. They are counted when it is written, however many contexts hold it.
        event_ids: Events that the message tells.
    """

    role: Literal["user", "assistant"]
    content: str
    num_tokens: int
    event_ids: tuple[str, ...] = ()


class Session(Record):
    """A conversation between the user and the assistant.

    Attributes:
        period: Index into the periods of the topic.
        messages: User and assistant in turn.
    """

    session_id: str
    persona_id: int
    topic: str
    period: int
    date: dt.date
    messages: tuple[Message, ...]

    @model_validator(mode="after")
    def _alternates(self) -> Self:
        roles = [message.role for message in self.messages]
        if not roles or roles != ["user", "assistant"] * (len(roles) // 2):
            raise ValueError("messages must alternate, from the user to the assistant")
        return self


class Filler(Record):
    """A short conversation that shows nothing of any user.

    Attributes:
        messages: User and assistant in turn.
    """

    filler_id: str
    kind: str
    title: str
    messages: tuple[Message, ...]


OptionRole = Literal["current", "outdated", "never", "other", "new", "mentioned"]
"""What an option asserts, against the history.

`current` holds at the question point, `outdated` held before, `never` has not held; `other` is true of another change;
`new` was never mentioned and `mentioned` was (type `suggest_new_ideas`).
"""


class Option(Record):
    """A candidate response.

    Attributes:
        states: What it asserts, in order of time where there are several.
        role: How that stands to the history.
        stereotypical: Whether it follows a stereotype of the user's demographics.
    """

    text: str
    states: tuple[str, ...]
    role: OptionRole
    stereotypical: bool = False


class Question(Record):
    """An in-situ question with four candidate responses.

    Attributes:
        question_id: From the content, whatever the order of the options.
        subject: The preference (or the scenario) in question.
        options: In the order in which they are shown.
        answer_index: Which of them is right.
        evidence_event_ids: The events that decide, in order of time.
        after_session_ids: Sessions that must lie before the question.
        before_session_id: The session that must not: it changes the answer. None if nothing does.
        updates_spanned: How many updates lie among the evidence.
    """

    question_id: str
    persona_id: int
    question_type: QuestionType
    topic: str
    subject: str
    message: str
    num_tokens: int
    options: tuple[Option, Option, Option, Option]
    answer_index: int
    evidence_event_ids: tuple[str, ...]
    after_session_ids: tuple[str, ...]
    before_session_id: str | None
    updates_spanned: int
