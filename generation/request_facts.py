"""The facts of a request, by template: what its prompt is rendered from and the offline backend answers from."""

from __future__ import annotations

from typing import TypedDict

from generation.history_records import PreferenceKind, Whose
from generation.records import QuestionType, Telling
from generation.text_checks import Speaker


class PersonaFacts(TypedDict):
    """Facts of `persona`; the description comes from a source of the user's or from the bank."""

    name: str
    age: int
    gender: str
    race: str
    pronouns: list[str]
    description: str
    from_source: bool
    more: list[str]


class GeneralEventFacts(TypedDict):
    """An event of the general history; the kernel says in a sentence what happened."""

    date: str
    period: str
    term: str
    kernel: str


class HistoryFacts(TypedDict):
    """Facts of `general_history`."""

    name: str
    profile: str
    events: list[GeneralEventFacts]


class ToldFacts(TypedDict):
    """An event or a mention that a session tells; reason and motive are empty for what is no change.

    What `avoid` holds must not be named by it. `told_id` is the id of the event or of the mention, `thread` the number
    of the stretch of chat that tells it.
    """

    told_id: str
    thread: int
    whose: Whose
    person: str
    telling: Telling
    kind: PreferenceKind
    subject: str
    subject_name: str
    state: str
    when: str
    changed: bool
    reason: str
    motive: str
    avoid: list[str]


class OfferFacts(TypedDict):
    """Things that the assistant names side by side; the slot and its name are empty for items."""

    subject: str
    subject_name: str
    names: list[str]


class LifeEventFacts(TypedDict):
    """An event of the general history that a session speaks of."""

    event_id: str
    subject: str
    text: str
    when: str


class SessionFacts(TypedDict):
    """Facts of `session`.

    What `named` holds is named only where something told or an offer speaks of it; `life` is what is so in the user's
    life that day; `manner` says how the user writes, `words` how long the messages of each speaker are on average.
    """

    persona_id: int
    name: str
    profile: str
    topic: str
    topic_label: str
    period: str
    period_index: int
    date: str
    spoken_date: str
    turns: int
    told: list[ToldFacts]
    offers: list[OfferFacts]
    life_events: list[LifeEventFacts]
    life: list[str]
    voice: str
    manner: str
    circle: list[str]
    named: list[str]
    words: dict[Speaker, int]


class QuestionFacts(TypedDict):
    """Facts of a question, by its type; the states stand in an order that says nothing.

    For a scenario `about` is the label of the topic whose changes show what moves the user; else it is empty. `manner`
    says how the user writes, `form` the form that the four replies share, `meanings` what states of a scenario mean.
    """

    topic: str
    topic_label: str
    kind: str
    subject: str
    subject_name: str
    states: list[list[str]]
    max_length_ratio: float
    about: str
    name: str
    profile: str
    manner: str
    form: str
    meanings: dict[str, str]


class GenericFacts(TypedDict):
    """Facts of `generic_replies`: a question's message, and the replies whose places generic ones are to take."""

    question_type: QuestionType
    topic_label: str
    message: str
    replies: list[str]
    form: str
    max_length_ratio: float


class FillerFacts(TypedDict):
    """Facts of `filler`; the index names it among those of a seed, `words` are those of a message, by who speaks."""

    index: int
    kind: str
    title: str
    words: dict[Speaker, int]
