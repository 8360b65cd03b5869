"""A context message by message: where sessions start, where events are told, how many tokens stand before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from personamem_builder.assemble.material import Material, Piece
from personamem_builder.assemble.records import Block


class Layout(NamedTuple):
    """The places in a context.

    Attributes:
        messages: Role and content.
        tokens_before: Tokens before each message, and at the end of all: prefix sums.
        letters_before: Letters likewise.
        filler_tokens_before: Tokens of fillers likewise.
        session_starts: Index of the first message of each conversation, fillers included.
        session_ends: For each session of the user in order, the index after its last message.
        session_ids: The sessions of the user in order.
        event_places: For each event told, the index of its message.
        event_sessions: For each event told, the number of its session among `session_ids`.
    """

    messages: list[dict[str, str]]
    tokens_before: list[int]
    letters_before: list[int]
    filler_tokens_before: list[int]
    session_starts: list[int]
    session_ends: list[int]
    session_ids: list[str]
    event_places: dict[str, int]
    event_sessions: dict[str, int]


def lay_out(material: Material, blocks: Sequence[Block], fillers: Mapping[str, Piece]) -> Layout:
    """Put the messages of a context together.

    Each session of the user begins with what the model is shown of them, as in the official release.

    Args:
        material: The persona.
        blocks: The conversations in order.
        fillers: The fillers, by id.
    """
    messages: list[dict[str, str]] = []
    tokens: list[int] = []
    filler_tokens: list[int] = []
    starts: list[int] = []
    ends: list[int] = []
    ids: list[str] = []
    places: dict[str, int] = {}
    sessions: dict[str, int] = {}
    for block in blocks:
        starts.append(len(messages))
        own = block.kind == "session"
        piece = material.sessions[block.id] if own else fillers[block.id]
        if own and material.system:
            messages.append({"role": "system", "content": material.system})
            tokens.append(material.system_tokens)
            filler_tokens.append(0)
        for message, length in zip(piece.messages, piece.tokens, strict=True):
            for event_id in message.event_ids:
                places[event_id] = len(messages)
                sessions[event_id] = len(ids)
            messages.append({"role": message.role, "content": message.content})
            tokens.append(length)
            filler_tokens.append(0 if own else length)
        if own:
            ids.append(block.id)
            ends.append(len(messages))
    return Layout(
        messages=messages,
        tokens_before=[0, *accumulate(tokens)],
        letters_before=[0, *accumulate(len(message["content"]) for message in messages)],
        filler_tokens_before=[0, *accumulate(filler_tokens)],
        session_starts=starts,
        session_ends=ends,
        session_ids=ids,
        event_places=places,
        event_sessions=sessions,
    )
