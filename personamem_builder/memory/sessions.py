"""From a shared context to the sessions that a memory system is shown."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from itertools import pairwise
from typing import Final

from personamem_builder.memory.system import Session
from personamem_builder.schema import ContextRow, Message

_SPEAKER: Final = re.compile(r"(?:User|Assistant|Patient|Therapist): ")
"""How a stored text begins that names its speaker itself."""


def cut_sessions(context: ContextRow, ends: Iterable[int]) -> list[Session]:
    """Cut a shared context into sessions, up to the last point at which a question is asked.

    A session inside which a question stands comes in pieces: what is said before the question, and what comes after it.
    The pieces share the number and the date of their session. A system may change the messages, which are copies.

    Args:
        context: A row of the shared contexts; without `session_dates` no date is known.
        ends: The end indices of its questions: a question is asked once all messages before its own are shown.
    """
    messages, starts = context["messages"], session_starts(context)
    dates = context.get("session_dates") or []
    ends = {min(end, len(messages)) for end in ends}
    last = max(ends, default=0)
    bounds = sorted({end for end in (*starts, *ends) if end < last} | {0, last})
    sessions = []
    for first, end in pairwise(bounds):
        number = bisect_right(starts, first) - 1
        copies = tuple(message.copy() for message in messages[first:end])
        sessions.append(Session(number, dates[number] if number < len(dates) else "", copies, first))
    return sessions


def session_starts(context: ContextRow) -> list[int]:
    """Return where the sessions of a context start; the first at 0, whatever the context says."""
    return sorted({0, *context["session_starts"]})


def cut_turns(session: Session) -> list[list[Message]]:
    """Cut what is said in a session into turns: what the user says, and what is replied before the user speaks again.

    System messages are left out. A reply at the beginning, as in the second piece of a session that a question cuts in
    two, is a turn of its own.
    """
    turns: list[list[Message]] = []
    role = ""
    for message in session.messages:
        if message["role"] == "system":
            continue
        if not turns or (message["role"] == "user" and role != "user"):
            turns.append([])
        turns[-1].append(message)
        role = message["role"]
    return turns


def spoken(message: Message) -> str:
    """Return a message with its speaker in front, unless its text names the speaker already."""
    content = message["content"]
    return content if _SPEAKER.match(content) else f"{message['role'].capitalize()}: {content}"


def without_speaker(text: str) -> str:
    """Return a text without the speaker in front, where it names one."""
    return _SPEAKER.sub("", text, count=1) if _SPEAKER.match(text) else text
