"""Sessions as a language model writes them: what is wrong with the words, longer words, and what a reader finds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from pydantic import BaseModel, ConfigDict

from generation.llm.client import Client, Request
from generation.request_facts import SessionFacts
from generation.text_checks import AIMS, Speaker, conversation_faults, too_long, too_short


class Turn(BaseModel):
    """A user message, the events that it tells, and the reply."""

    model_config = ConfigDict(extra="forbid")

    user: str
    assistant: str
    event_ids: list[str]


class SessionReply(BaseModel):
    """What the model writes: a whole session."""

    turns: list[Turn]


class LongerTurn(BaseModel):
    """A turn that was lengthened."""

    number: int
    user: str
    assistant: str


class ExpandReply(BaseModel):
    """What the model writes when it lengthens a session: all turns, without their events, which stay."""

    turns: list[LongerTurn]


class EventReading(BaseModel):
    """The number of the user message that tells an event, or None."""

    event_id: str
    message: int | None


class CoverageReply(BaseModel):
    """What a reader finds in the user's messages."""

    events: list[EventReading]
    other_tastes: list[str]


def wording_faults(reply: SessionReply, facts: SessionFacts) -> list[str]:
    """Return what is wrong with the words of a session, given the facts that it was asked for with."""
    names = [facts["name"], facts["name"].split()[0]]
    faults = conversation_faults([(turn.user, turn.assistant) for turn in reply.turns], names)
    ids = [event["event_id"] for event in facts["events"]]
    for number, turn in enumerate(reply.turns, start=1):
        shown = [event_id for event_id in ids if event_id in turn.user or event_id in turn.assistant]
        faults += [f"turn {number}: a message shows the id of event {event_id}" for event_id in shown]
    return faults + [fault for role in AIMS for fault in too_long(_texts(reply, role), role)]


def _texts(reply: SessionReply, role: Speaker) -> list[str]:
    return [turn.user if role == "user" else turn.assistant for turn in reply.turns]


def _short(reply: SessionReply) -> list[str]:
    return [fault for role in AIMS for fault in too_short(_texts(reply, role), role)]


# --- longer words


def lengthened(
    client: Client, request: Request, reply: SessionReply, check: Callable[[SessionReply], list[str]]
) -> SessionReply:
    """Have a session lengthened if its messages are too short; each goes on telling what it told."""
    if not _short(reply):
        return reply

    def check_longer(longer: ExpandReply) -> list[str]:
        if [turn.number for turn in longer.turns] != list(range(1, len(reply.turns) + 1)):
            return [f"the turns must be those from 1 to {len(reply.turns)}, in order"]
        session = _with_words(reply, longer)
        return [*check(session), *_short(session)]

    return _with_words(reply, client.ask(expand_request(request, reply), ExpandReply, check_longer))


def expand_request(request: Request, reply: SessionReply) -> Request:
    """Return the call that lengthens the messages of a session."""
    turns = [
        {"number": number, "user": turn.user, "assistant": turn.assistant}
        for number, turn in enumerate(reply.turns, start=1)
    ]
    facts = {key: request.facts[key] for key in ("topic_label", "words", "never")}
    return Request("expand", {**facts, "turns": turns}, request.seed)


def _with_words(reply: SessionReply, longer: ExpandReply) -> SessionReply:
    turns = zip(reply.turns, longer.turns, strict=True)
    return SessionReply(
        turns=[Turn(user=new.user, assistant=new.assistant, event_ids=old.event_ids) for old, new in turns]
    )


# --- reading back


def read_back(client: Client, request: Request, reply: SessionReply) -> list[str]:
    """Have a session read, and return what is not told where it says so, and what is told besides."""
    claimed = {event_id: number for number, turn in enumerate(reply.turns, start=1) for event_id in turn.event_ids}

    def check(reading: CoverageReply) -> list[str]:
        read = Counter(event.event_id for event in reading.events)
        faults = [f"event {event_id} must be among the events once" for event_id in claimed if read[event_id] != 1]
        faults += [f"there is no event {event_id}" for event_id in read if event_id not in claimed]
        return faults + [
            f"event {event.event_id}: there is no message {event.message}"
            for event in reading.events
            if event.message is not None and not 1 <= event.message <= len(reply.turns)
        ]

    reading = client.ask(coverage_request(request, reply), CoverageReply, check)
    faults = []
    for event_id, message in ((event.event_id, event.message) for event in reading.events):
        turn = claimed[event_id]
        if message is None:
            faults.append(f"turn {turn}: what the user says does not tell event {event_id}, or not all of it")
        elif message != turn:
            faults.append(f"event {event_id} is told in turn {message}, but stands in the event_ids of turn {turn}")
    return faults + [f"the user shows a taste that no event stands for: {taste}" for taste in reading.other_tastes]


def coverage_request(request: Request, reply: SessionReply) -> Request:
    """Return the call that reads a session back.

    It shows what was to be told and the user's messages, but not which message claims to tell what: the events stand in
    the order of their ids, which says nothing.
    """
    facts = {
        "topic_label": request.facts["topic_label"],
        "events": sorted(request.facts["events"], key=lambda event: str(event["event_id"])),
        "messages": _texts(reply, "user"),
    }
    return Request("coverage", facts, request.seed)
