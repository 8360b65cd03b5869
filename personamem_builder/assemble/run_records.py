"""What contexts are put together from, as the stages of a run wrote it: users, their sessions, and the fillers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple, TypeVar

from pydantic import BaseModel

from generation import records
from generation.errors import UserError
from generation.history_records import History
from generation.record_files import LineSpan, persona_spans, read_records
from generation.records import Filler, Persona, Question, Record, Session
from generation.store import RunStore
from personamem_builder.assemble.refined import read_refined
from personamem_builder.official.contexts_jsonl import hashed_form
from personamem_builder.schema import Message

R = TypeVar("R", bound=Record)

_FINISH: Final = "finish the run: the same personamem generate command again"


@dataclass(frozen=True)
class Conversation:
    """A session or a filler, which many contexts hold: what these need of it is made once."""

    id: str
    messages: tuple[records.Message, ...]

    @cached_property
    def tokens(self) -> list[int]:
        """The tokens of each message."""
        return [message.num_tokens for message in self.messages]

    @cached_property
    def num_tokens(self) -> int:
        """Tokens of all messages."""
        return sum(self.tokens)

    @cached_property
    def shown(self) -> list[Message]:
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


class PersonaRecords(NamedTuple):
    """What a run holds of one persona; `sessions` are by id, `questions` those that may be asked."""

    persona: Persona
    history: History
    sessions: dict[str, Conversation]
    questions: tuple[Question, ...]

    def session_tokens(self) -> dict[str, int]:
        """Return the tokens of each session, with those of what it shows of the user."""
        return {id_: session.num_tokens + self.persona.shown_tokens for id_, session in self.sessions.items()}


class PersonaTexts(NamedTuple):
    """What the contexts of a persona are written from; `sessions` are by id."""

    persona: Persona
    history: History
    sessions: dict[str, list[Message]]


class PersonaSpans(NamedTuple):
    """Where the records of a persona lie.

    Attributes:
        persona: The user.
        stages: Which lines of the file of a stage.
        dropped: Ids of questions of the run that are left out.
    """

    persona: Persona
    stages: dict[str, LineSpan]
    dropped: frozenset[str] = frozenset()


class _ConversationTexts(BaseModel):
    """Of a session or a filler the messages alone: a tenth of the objects that `Session` is made of."""

    session_id: str = ""
    filler_id: str = ""
    messages: list[Message]


def find_personas(store: RunStore, *, refined: bool = True) -> list[PersonaSpans]:
    """Return where the records of each persona of a run lie.

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
        PersonaSpans(persona, {stage: own[persona.persona_id] for stage, own in spans.items()}, dropped)
        for persona in personas
        if persona.persona_id not in incomplete
    ]


def read_persona(store: RunStore, spans: PersonaSpans) -> PersonaRecords:
    """Read the records of a persona.

    Raises:
        UserError: Sessions are missing, or a line was changed by hand.
    """

    def read(stage: str, kind: type[R]) -> Iterator[R]:
        return read_records(store.path(stage), kind, spans.stages[stage])

    histories = list(read("histories", History))
    if len(histories) != 1:
        found = f"{len(histories)} histories of persona {spans.persona.persona_id}"
        raise UserError(f"{store.path('histories')} holds {found}", "delete the file, and generate again")
    [history] = histories
    told = {
        session.session_id: Conversation(session.session_id, session.messages) for session in read("sessions", Session)
    }
    if any(plan.session_id not in told for topic in history.topics for plan in topic.sessions):
        if not _failed(store, "sessions"):
            raise UserError(f"{store.path('sessions')} lacks sessions of persona {spans.persona.persona_id}", _FINISH)
        history = history.up_to_missing(told)
    kept = tuple(question for question in read("questions", Question) if question.question_id not in spans.dropped)
    return PersonaRecords(spans.persona, history, told, kept)


def read_persona_texts(store: RunStore, spans: PersonaSpans) -> PersonaTexts:
    """Read what the contexts of a persona are written from, which `read_persona` found whole before.

    Raises:
        UserError: A line was changed by hand.
    """
    [history] = read_records(store.path("histories"), History, spans.stages["histories"])
    sessions = read_records(store.path("sessions"), _ConversationTexts, spans.stages["sessions"])
    return PersonaTexts(spans.persona, history, {session.session_id: session.messages for session in sessions})


def read_fillers(store: RunStore) -> dict[str, Conversation]:
    """Read the fillers of a run, by id.

    Raises:
        UserError: Some are missing, or a line was changed by hand.
    """
    fillers = {
        filler.filler_id: Conversation(filler.filler_id, filler.messages) for filler in store.read("fillers", Filler)
    }
    if len(fillers) + _failed(store, "fillers") != (wanted := store.fingerprint()["fillers"]):
        raise UserError(f"{store.path('fillers')} holds {len(fillers)} fillers of {wanted}", _FINISH)
    return fillers


def read_filler_texts(store: RunStore) -> dict[str, list[Message]]:
    """Read the messages of the fillers of a run, by id.

    Raises:
        UserError: A line was changed by hand.
    """
    texts = read_records(store.finished("fillers"), _ConversationTexts)
    return {filler.filler_id: filler.messages for filler in texts}


def _failed(store: RunStore, stage: str) -> int:
    return sum(failure.stage == stage for failure in store.failures())
