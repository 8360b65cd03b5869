"""The records of a run: what each stage writes, a line each, and the next stage reads."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
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

GENERIC_TYPES: Final[tuple[QuestionType, ...]] = tuple(t for t in QUESTION_TYPES if t != "suggest_new_ideas")
"""Types that may have generic distractors: their right option asserts something of the user. An idea does not, and
whatever suits anybody may be new to this user."""

Motive = Literal["company", "calm", "thrift", "health", "curiosity", "convenience", "conscience", "mastery"]
MOTIVES: Final[tuple[Motive, ...]] = get_args(Motive)
"""What moves people: being with others, peace, saving money, the body, the new, saving effort, doing right, skill."""

MEANINGS: Final[dict[Motive, str]] = {
    "company": "being with other people",
    "calm": "peace and quiet, and easy nerves",
    "thrift": "saving money",
    "health": "the health of the body",
    "curiosity": "what is new and unknown",
    "convenience": "saving time and effort",
    "conscience": "doing right by others, by animals and by nature",
    "mastery": "getting better at something",
}
"""Motives in words, for prompts."""

Group = Literal["woman", "man", "younger", "older"]
"""A demographic group that a stereotype is about; `younger` is under 40."""

PERIODS: Final = ("initial", "next week", "next month", "next year")
"""The periods of a topic, as the paper names them."""

Visible = Literal["demographics", "no_occupation", "full", "none"]
"""What a model is shown of the user: the paper's demographics, these without the occupation, the profile, nothing."""

STANCES: Final = ("like", "dislike")

Telling = Literal["named", "paraphrased", "implied"]
"""How a history tells something: by its name, in other words, or by what somebody does, with no verdict."""
TELLINGS: Final[tuple[Telling, ...]] = get_args(Telling)


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
        motives: What moves them, one of them most in each topic; shown only by the reasons they give.
        circle: People whom they speak of, as they would: `my cousin Ana`.
        life: What is so in their life at the start, as tags of the banks (`generation.banks.model.Tag`).
        voice: How they write: the id of a voice of the banks.
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
    motives: tuple[Motive, ...]
    circle: tuple[str, ...]
    life: tuple[str, ...]
    voice: str
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


class Message(Record):
    """A message of a session.

    Attributes:
        num_tokens: Its tokens. They are counted when it is written, however many contexts hold it.
        event_ids: Events that the message tells.
        mention_ids: Mentions that it holds.
    """

    role: Literal["user", "assistant"]
    content: str
    num_tokens: int
    event_ids: tuple[str, ...] = ()
    mention_ids: tuple[str, ...] = ()


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


OptionRole = Literal["current", "outdated", "never", "other", "new", "tried", "generic"]
"""What an option asserts, against the history.

`current` holds at the question point, `outdated` held before, `never` has not held; `other` is true of another change;
the user has not tried what is `new`, and has `tried` the rest (type `suggest_new_ideas`); what is `generic` suits
anybody and asserts nothing.
"""


class Option(Record):
    """A candidate response.

    Attributes:
        states: What it asserts, in order of time where there are several; nothing if it is generic.
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
        evidence_tellings: How each of them is told.
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
    evidence_tellings: tuple[Telling, ...]
    after_session_ids: tuple[str, ...]
    before_session_id: str | None
    updates_spanned: int
