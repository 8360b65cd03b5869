"""What contexts are put together from: the sessions of a persona, and the fillers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple, TypeVar

from pydantic import BaseModel
from typing_extensions import TypedDict  # that of `typing` is enough for pydantic from Python 3.12 on

from generation.errors import UserError
from generation.records import Filler, History, Message, Persona, Question, Record, Session
from generation.store import RunStore, Span, persona_spans, read_records
from personamem_builder.assemble.refined import read_refined
from personamem_builder.official.contexts import hashed_form

R = TypeVar("R", bound=Record)

_FINISH: Final = "finish the run: the same personamem generate command again"


@dataclass(frozen=True)
class Piece:
    """A conversation, which many contexts hold: what these need of it is made once.

    Attributes:
        id: Of the session or filler.
        messages: Its messages.
    """

    id: str
    messages: tuple[Message, ...]

    @cached_property
    def tokens(self) -> list[int]:
        """The tokens of each message."""
        return [message.num_tokens for message in self.messages]

    @cached_property
    def num_tokens(self) -> int:
        """Tokens of all messages."""
        return sum(self.tokens)

    @cached_property
    def shown(self) -> list[dict[str, str]]:
        """Its messages as a context has them. Contexts share these objects: do not change them."""
        return [{"role": message.role, "content": message.content} for message in self.messages]

    @cached_property
    def letters(self) -> list[int]:
        """The letters of each message."""
        return [len(message.content) for message in self.messages]

    @cached_property
    def events(self) -> list[tuple[int, str]]:
        """The events told, each with the index of its message."""
        return [(i, event_id) for i, message in enumerate(self.messages) for event_id in message.event_ids]

    @cached_property
    def hashed(self) -> bytes:
        """What the id of a context that holds it is made of."""
        return hashed_form(self.shown)


class Material(NamedTuple):
    """Everything of one persona.

    Attributes:
        persona: The user.
        history: What happens to them.
        sessions: By id.
        questions: Those that may be asked.
    """

    persona: Persona
    history: History
    sessions: dict[str, Piece]
    questions: tuple[Question, ...]


def read_fillers(store: RunStore) -> list[Piece]:
    """Read the fillers of a run."""
    fillers = [Piece(filler.filler_id, filler.messages) for filler in store.read("fillers", Filler)]
    if len(fillers) + _failed(store, "fillers") != (wanted := store.fingerprint()["fillers"]):
        raise UserError(f"{store.path('fillers')} holds {len(fillers)} fillers of {wanted}", _FINISH)
    return fillers


class Place(NamedTuple):
    """Where the material of a persona lies in the files of the stages.

    Attributes:
        persona: The user.
        spans: Lines, by stage.
        dropped: Ids of questions of the run that are left out.
    """

    persona: Persona
    spans: dict[str, Span]
    dropped: frozenset[str] = frozenset()


def find_material(store: RunStore, *, refined: bool = True) -> list[Place]:
    """Return where the material of each persona of a run lies.

    Args:
        store: A finished run.
        refined: Whether the questions that `personamem refine` dropped are left out.

    Raises:
        UserError: The run is not finished, or has no questions, or was refined before its questions were made anew.
    """
    fingerprint = store.fingerprint()
    personas = list(store.read("personas", Persona))
    if len(personas) + _failed(store, "personas") != fingerprint["personas"]:
        raise UserError(
            f"{store.path('personas')} holds {len(personas)} personas of {fingerprint['personas']}", _FINISH
        )
    if not any(fingerprint["questions_per_topic"].values()):
        raise UserError(f"{store.folder} has no questions", "generate with questions_per_topic above 0")
    spans = {stage: persona_spans(store.finished(stage)) for stage in ("histories", "sessions", "questions")}
    lacking = [(stage, p) for p in personas for stage, own in spans.items() if p.persona_id not in own]
    if lacking and not store.failures():
        [(stage, persona), *_] = lacking
        raise UserError(f"{store.path(stage)} holds nothing of persona {persona.persona_id}", _FINISH)
    incomplete = {persona.persona_id for _, persona in lacking}
    decided = read_refined(store) if refined else None
    dropped = decided.dropped() if decided else frozenset[str]()
    return [
        Place(persona, {stage: own[persona.persona_id] for stage, own in spans.items()}, dropped)
        for persona in personas
        if persona.persona_id not in incomplete
    ]


def _failed(store: RunStore, stage: str) -> int:
    return sum(failure.stage == stage for failure in store.failures())


class Texts(NamedTuple):
    """What a persona's contexts are written from.

    Attributes:
        persona: The user.
        history: What happens to them.
        sessions: The messages of each session, by id.
    """

    persona: Persona
    history: History
    sessions: dict[str, list[ShownMessage]]


class ShownMessage(TypedDict):
    """A message as a context has it."""

    role: str
    content: str


class _Conversation(BaseModel):
    """Of a session or a filler, the messages alone: a tenth of the objects that `Session` is made of."""

    session_id: str = ""
    filler_id: str = ""
    messages: list[ShownMessage]


def read_texts(store: RunStore, place: Place) -> Texts:
    """Read what the contexts of a persona are written from, which `read_material` found whole before.

    Args:
        store: The run.
        place: Where the persona lies.

    Raises:
        UserError: A line was changed by hand.
    """
    [history] = read_records(store.path("histories"), History, place.spans["histories"])
    sessions = read_records(store.path("sessions"), _Conversation, place.spans["sessions"])
    return Texts(place.persona, history, {session.session_id: session.messages for session in sessions})


def read_filler_texts(store: RunStore) -> dict[str, list[ShownMessage]]:
    """Read the messages of the fillers of a run, by id.

    Raises:
        UserError: A line was changed by hand.
    """
    return {filler.filler_id: filler.messages for filler in read_records(store.finished("fillers"), _Conversation)}


def read_material(store: RunStore, place: Place) -> Material:
    """Read the material of a persona.

    Args:
        store: The run.
        place: Where it lies.

    Raises:
        UserError: Sessions are missing, or a line was changed by hand.
    """

    def read(stage: str, kind: type[R]) -> Iterator[R]:
        return read_records(store.path(stage), kind, place.spans[stage])

    [history] = read("histories", History)
    told = {session.session_id: Piece(session.session_id, session.messages) for session in read("sessions", Session)}
    if any(plan.session_id not in told for topic in history.topics for plan in topic.sessions):
        if not _failed(store, "sessions"):
            raise UserError(f"{store.path('sessions')} lacks sessions of persona {place.persona.persona_id}", _FINISH)
        history = history.up_to_missing(told)
    kept = tuple(question for question in read("questions", Question) if question.question_id not in place.dropped)
    return Material(place.persona, history, told, kept)
