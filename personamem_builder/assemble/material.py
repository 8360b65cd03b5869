"""What contexts are put together from: the sessions of a persona and the fillers, as messages with their tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from generation.errors import UserError
from generation.records import Filler, History, Message, Persona, Question, Session
from generation.store import RunStore
from generation.tokenizer import load_encoding
from personamem_builder.official.contexts import hashed_form

R = TypeVar("R")

_FINISH: Final = "finish the run: the same personamem generate command again"


@dataclass(frozen=True)
class Piece:
    """The messages of a conversation, which many contexts hold: what these need of it is made once.

    Attributes:
        id: Of the session or filler.
        messages: Its messages.
        tokens: Those of each message (zeros where they were not counted).
    """

    id: str
    messages: tuple[Message, ...]
    tokens: tuple[int, ...]

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
        system: What the model is shown of the user at the start of each session; empty for nothing.
        system_tokens: Its tokens.
        history: What happens to them.
        sessions: By id.
        questions: Those that may be asked.
        question_tokens: The tokens of each question's message, by question id.
    """

    persona: Persona
    system: str
    system_tokens: int
    history: History
    sessions: dict[str, Piece]
    questions: tuple[Question, ...]
    question_tokens: dict[str, int]


def _counts(texts: Sequence[str], texts_only: bool) -> list[int]:
    """Return the `o200k_base` tokens of each text, or zeros."""
    if texts_only:
        return [0] * len(texts)
    encode = load_encoding()[0].encode_ordinary
    return [len(encode(text)) for text in texts]


def _piece(id_: str, messages: Sequence[Message], texts_only: bool) -> Piece:
    return Piece(id_, tuple(messages), tuple(_counts([message.content for message in messages], texts_only)))


def visible_persona(persona: Persona, visible: str) -> str:
    """Return what the model is shown of a user.

    Args:
        persona: The user.
        visible: `demographics`, `full` or `none`.
    """
    shown = {"demographics": persona.demographics, "full": f"{persona.demographics}\n{persona.profile}", "none": ""}
    return f"About the user. {shown[visible]}" if shown[visible] else ""


def read_fillers(store: RunStore, *, texts_only: bool = False) -> list[Piece]:
    """Read the fillers of a run."""
    fillers = [_piece(filler.filler_id, filler.messages, texts_only) for filler in store.read("fillers", Filler)]
    if len(fillers) != (wanted := store.fingerprint()["fillers"]):
        raise UserError(f"{store.path('fillers')} holds {len(fillers)} fillers of {wanted}", _FINISH)
    return fillers


def read_material(store: RunStore, *, texts_only: bool = False) -> Iterator[Material]:
    """Yield the material of each persona of a run; one at a time is in memory.

    Args:
        store: A finished run.
        texts_only: Whether tokens and questions are left out.

    Raises:
        UserError: The run is not finished, was changed by hand, or has no questions.
    """
    fingerprint = store.fingerprint()
    visible = fingerprint["persona_visible"]
    sessions = groupby(store.read("sessions", Session), key=lambda session: session.persona_id)
    questions = groupby(store.read("questions", Question), key=lambda question: question.persona_id)
    histories = groupby(store.read("histories", History), key=lambda history: history.persona_id)
    personas = list(store.read("personas", Persona))
    if len(personas) != fingerprint["personas"]:
        raise UserError(
            f"{store.path('personas')} holds {len(personas)} personas of {fingerprint['personas']}", _FINISH
        )
    if not any(fingerprint["questions_per_topic"].values()):
        raise UserError(f"{store.folder} has no questions", "generate with questions_per_topic above 0")
    for persona in personas:
        history = next(_of(persona.persona_id, histories, store.path("histories")))
        told = {
            session.session_id: _piece(session.session_id, session.messages, texts_only)
            for session in _of(persona.persona_id, sessions, store.path("sessions"))
        }
        if any(plan.session_id not in told for topic in history.topics for plan in topic.sessions):
            raise UserError(f"{store.path('sessions')} lacks sessions of persona {persona.persona_id}", _FINISH)
        own = () if texts_only else tuple(_of(persona.persona_id, questions, store.path("questions")))
        system = visible_persona(persona, visible)
        yield Material(
            persona=persona,
            system=system,
            system_tokens=sum(_counts([system], texts_only)),
            history=history,
            sessions=told,
            questions=own,
            question_tokens=dict(
                zip((q.question_id for q in own), _counts([q.message for q in own], texts_only), strict=True)
            ),
        )


def _of(persona_id: int, groups: Iterator[tuple[int, Iterator[R]]], path: Path) -> Iterator[R]:
    found, group = next(groups, (None, iter(())))
    if found != persona_id:
        raise UserError(f"{path} holds nothing of persona {persona_id}", _FINISH)
    return group
