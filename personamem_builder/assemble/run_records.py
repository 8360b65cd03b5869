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
from generation.records import Filler, Persona, Question, Session
from generation.store import RunStore
from personamem_builder.assemble.refined import read_refined
from personamem_builder.official.contexts_jsonl import hashed_form
from personamem_builder.schema import Message

R = TypeVar("R", bound=BaseModel)

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
        part: The run, or the shard of it that has the persona.
        stages: Which lines of the file of a stage.
        dropped: Ids of questions of the run that are left out.
    """

    part: RunStore
    persona_id: int
    stages: dict[str, LineSpan]
    dropped: frozenset[str] = frozenset()

    def read(self, stage: str, kind: type[R]) -> Iterator[R]:
        """Yield what a stage has of the persona."""
        return read_records(self.part.path(stage), kind, self.stages[stage])

    def read_one(self, stage: str, kind: type[R]) -> R:
        """Return the one record that a stage has of the persona.

        Raises:
            UserError: There are several.
        """
        records = list(self.read(stage, kind))
        if len(records) != 1:
            found = f"{len(records)} {stage} of persona {self.persona_id}"
            raise UserError(f"{self.part.path(stage)} holds {found}", "delete the file, and generate again")
        return records[0]


class _ConversationTexts(BaseModel):
    """Of a session or a filler the messages alone: a tenth of the objects that `Session` is made of."""

    session_id: str = ""
    filler_id: str = ""
    messages: list[Message]


def find_personas(store: RunStore, *, refined: bool = True) -> Iterator[PersonaSpans]:
    """Yield where the records of each persona of a run lie, looking through one shard after another if it has some.

    Args:
        store: A finished run.
        refined: Whether the questions that `personamem refine` dropped are left out.

    Raises:
        UserError: The run is not finished, or has no questions, or was refined before its questions were made anew.
    """
    if not any(store.fingerprint()["questions_per_topic"].values()):
        raise UserError(f"{store.folder} has no questions", "generate with questions_per_topic above 0")
    decided = read_refined(store) if refined else None
    dropped = decided.dropped() if decided else frozenset[str]()
    for part in store.parts():
        yield from _find_personas(part, dropped)


def _find_personas(part: RunStore, dropped: frozenset[str]) -> Iterator[PersonaSpans]:
    spans = {stage: persona_spans(part.finished(stage)) for stage in ("personas", "histories", "sessions", "questions")}
    personas, wanted = spans["personas"], len(part.users())
    if len(personas) + _failed(part, "personas") != wanted:
        raise UserError(f"{part.path('personas')} holds {len(personas)} personas of {wanted}", _FINISH)
    is_whole = not part.failures()
    for persona_id in personas:
        lacking = [stage for stage, own in spans.items() if persona_id not in own]
        if lacking and is_whole:
            raise UserError(f"{part.path(lacking[0])} holds nothing of persona {persona_id}", _FINISH)
        if not lacking:
            yield PersonaSpans(part, persona_id, {stage: own[persona_id] for stage, own in spans.items()}, dropped)


def read_persona(spans: PersonaSpans) -> PersonaRecords:
    """Read the records of a persona.

    Raises:
        UserError: Sessions are missing, or a line was changed by hand.
    """
    persona, history = spans.read_one("personas", Persona), spans.read_one("histories", History)
    told = {
        session.session_id: Conversation(session.session_id, session.messages)
        for session in spans.read("sessions", Session)
    }
    if any(plan.session_id not in told for topic in history.topics for plan in topic.sessions):
        if not _failed(spans.part, "sessions"):
            raise UserError(f"{spans.part.path('sessions')} lacks sessions of persona {spans.persona_id}", _FINISH)
        history = history.up_to_missing(told)
    kept = tuple(
        question for question in spans.read("questions", Question) if question.question_id not in spans.dropped
    )
    return PersonaRecords(persona, history, told, kept)


def read_persona_texts(spans: PersonaSpans) -> PersonaTexts:
    """Read what the contexts of a persona are written from, which `read_persona` found whole before.

    Raises:
        UserError: A line was changed by hand.
    """
    sessions = {one.session_id: one.messages for one in spans.read("sessions", _ConversationTexts)}
    return PersonaTexts(spans.read_one("personas", Persona), spans.read_one("histories", History), sessions)


def read_fillers(store: RunStore) -> dict[str, Conversation]:
    """Read the fillers of a run, by id.

    Raises:
        UserError: Some are missing, or a line was changed by hand.
    """
    fillers = {
        filler.filler_id: Conversation(filler.filler_id, filler.messages) for filler in store.read("fillers", Filler)
    }
    if len(fillers) + _failed(store, "fillers") != (wanted := store.fingerprint()["fillers"]):
        raise UserError(f"{store.paths('fillers')[0]} holds {len(fillers)} fillers of {wanted}", _FINISH)
    return fillers


def read_filler_texts(store: RunStore) -> dict[str, list[Message]]:
    """Read the messages of the fillers of a run, by id.

    Raises:
        UserError: A line was changed by hand.
    """
    return {filler.filler_id: filler.messages for filler in store.read("fillers", _ConversationTexts)}


def _failed(store: RunStore, stage: str) -> int:
    return sum(failure.stage == stage for failure in store.failures())
