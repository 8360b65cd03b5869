"""A context message by message: where sessions start, where events are told, how many tokens stand before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from generation.records import Persona
from personamem_builder.assemble.records import Block
from personamem_builder.assemble.run_records import Conversation, PersonaRecords
from personamem_builder.official.contexts_jsonl import hashed_form, id_of_forms
from personamem_builder.schema import Message


class Layout(NamedTuple):
    """The places in a context.

    Attributes:
        shared_context_id: sha256 of the messages, as the official release computes it.
        tokens_before: Tokens before each message, and at the end of all: prefix sums.
        letters_before: Letters likewise.
        filler_tokens_before: Tokens of fillers likewise.
        session_starts: Index of the first message of each conversation, fillers included.
        session_ends: For each session of the user in order, the index after its last message.
        session_ids: The sessions of the user in order.
        event_places: For each event told, the index of its message.
        event_sessions: For each event told, the number of its session among `session_ids`.
    """

    shared_context_id: str
    messages: list[Message]
    tokens_before: list[int]
    letters_before: list[int]
    filler_tokens_before: list[int]
    session_starts: list[int]
    session_ends: list[int]
    session_ids: list[str]
    event_places: dict[str, int]
    event_sessions: dict[str, int]


def context_messages(
    persona: Persona, blocks: Sequence[Block], shown: Callable[[Block], Iterable[Any]]
) -> tuple[list[Message], list[int]]:
    """Return the messages of a context, and the index of the first of each conversation.

    Each session of the user begins with what the model is shown of them, as in the official release. `shown` gives the
    messages of a conversation; contexts share these objects.
    """
    messages: list[Message] = []
    starts: list[int] = []
    system = _system(persona)
    for block in blocks:
        starts.append(len(messages))
        if block.kind == "session":
            messages += system
        messages += shown(block)
    return messages, starts


def _system(persona: Persona) -> list[Message]:
    return [{"role": "system", "content": persona.shown}] if persona.shown else []


def lay_out(records: PersonaRecords, blocks: Sequence[Block], fillers: Mapping[str, Conversation]) -> Layout:
    """Return the places in a context of some conversations; those that are fillers are given by id."""

    def conversation_of(block: Block) -> Conversation:
        return records.sessions[block.id] if block.kind == "session" else fillers[block.id]

    messages, starts = context_messages(records.persona, blocks, lambda block: conversation_of(block).shown)
    forms: list[bytes] = []
    tokens: list[int] = []
    letters: list[int] = []
    filler_tokens: list[int] = []
    ends: list[int] = []
    ids: list[str] = []
    places: dict[str, int] = {}
    sessions: dict[str, int] = {}
    system_form = hashed_form(_system(records.persona))
    for block in blocks:
        own, conversation = block.kind == "session", conversation_of(block)
        if own and records.persona.shown:
            forms.append(system_form)
            tokens.append(records.persona.shown_tokens)
            letters.append(len(records.persona.shown))
            filler_tokens.append(0)
        for offset, event_id in conversation.events:
            places[event_id] = len(tokens) + offset
            sessions[event_id] = len(ids)
        forms.append(conversation.hashed)
        tokens += conversation.tokens
        letters += conversation.letters
        filler_tokens += [0] * len(conversation.tokens) if own else conversation.tokens
        if own:
            ids.append(block.id)
            ends.append(len(tokens))
    return Layout(
        shared_context_id=id_of_forms(forms),
        messages=messages,
        tokens_before=[0, *accumulate(tokens)],
        letters_before=[0, *accumulate(letters)],
        filler_tokens_before=[0, *accumulate(filler_tokens)],
        session_starts=starts,
        session_ends=ends,
        session_ids=ids,
        event_places=places,
        event_sessions=sessions,
    )
