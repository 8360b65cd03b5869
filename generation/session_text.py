"""Sessions as a language model writes them: what is wrong with the words, longer words, and what a reader finds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from pydantic import BaseModel, ConfigDict

from generation.content_words import unwanted_names
from generation.grammar import mentions
from generation.history_records import Whose
from generation.llm.client import Client, Request
from generation.request_facts import SessionFacts
from generation.text_checks import AIMS, Speaker, conversation_faults, too_long, too_short


class Turn(BaseModel):
    """A user message, the ids of what it tells, and the reply."""

    model_config = ConfigDict(extra="forbid")

    user: str
    assistant: str
    told_ids: list[str]


class SessionReply(BaseModel):
    """What the model writes: a whole session."""

    turns: list[Turn]


class LongerTurn(BaseModel):
    """A turn that was lengthened."""

    number: int
    user: str
    assistant: str


class MendedTurn(Turn):
    """A turn that was written anew."""

    number: int


class MendReply(BaseModel):
    """What the model writes when it mends a session: the turns that changed."""

    turns: list[MendedTurn]


class ExpandReply(BaseModel):
    """What the model writes when it lengthens a session: all turns, without what they tell, which stays."""

    turns: list[LongerTurn]


class ToldReading(BaseModel):
    """The number of the user message that tells something, or None, and whose that message says it is."""

    told_id: str
    message: int | None
    whose: Whose | None


class CoverageReply(BaseModel):
    """What a reader finds in the user's messages."""

    told: list[ToldReading]
    other_tastes: list[str]


def wording_faults(reply: SessionReply, facts: SessionFacts) -> list[str]:
    """Return what is wrong with the words of a session, given the facts that it was asked for with."""
    names = [facts["name"], facts["name"].split()[0]]
    faults = conversation_faults([(turn.user, turn.assistant) for turn in reply.turns], names)
    told = {one["told_id"]: one for one in facts["told"]}
    for number, turn in enumerate(reply.turns, start=1):
        shown = [id_ for id_ in told if id_ in turn.user or id_ in turn.assistant]
        faults += [f"turn {number}: a message shows the id {id_}" for id_ in shown]
        for one in (told[id_] for id_ in turn.told_ids if id_ in told):
            faults += [
                f"turn {number}: {one['told_id']} is to be told without the words of {text!r}, but the user's message "
                f"has {', '.join(f'{stem}…' for stem in sorted(shared))}"
                for text, shared in unwanted_names(one, facts, turn.user)
            ]
    faults += _offer_faults(reply, facts)
    return faults + [fault for role in AIMS for fault in too_long(_texts(reply, role), role)]


def _offer_faults(reply: SessionReply, facts: SessionFacts) -> list[str]:
    """Find things that no reply of the assistant names side by side."""
    replies = [turn.assistant.lower() for turn in reply.turns]
    return [
        f"the assistant names in no reply side by side: {'; '.join(offer['names'])}"
        for offer in facts["offers"]
        if not any(all(mentions(text, name.lower()) for name in offer["names"]) for text in replies)
    ]


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
    facts = {key: request.facts[key] for key in ("topic_label", "words", "named")}
    return request._replace(template="expand", facts={**facts, "turns": turns})


def _with_words(reply: SessionReply, longer: ExpandReply) -> SessionReply:
    turns = zip(reply.turns, longer.turns, strict=True)
    return SessionReply(
        turns=[Turn(user=new.user, assistant=new.assistant, told_ids=old.told_ids) for old, new in turns]
    )


# --- turns written anew


def mended(
    client: Client,
    request: Request,
    reply: SessionReply,
    faults: list[str],
    number: tuple[int, int],
    check: Callable[[SessionReply], list[str]],
) -> SessionReply:
    """Have those turns of a session written anew that have faults; the others stay as they are."""

    def check_turns(mended: MendReply) -> list[str]:
        numbers = [turn.number for turn in mended.turns]
        if not numbers or len(set(numbers)) < len(numbers) or not set(numbers) <= set(range(1, len(reply.turns) + 1)):
            return [f"the turns must be some of those from 1 to {len(reply.turns)}, each at most once"]
        return check(_with_turns(reply, mended))

    return _with_turns(reply, client.ask(mend_request(request, reply, faults, number), MendReply, check_turns))


def mend_request(request: Request, reply: SessionReply, faults: list[str], number: tuple[int, int]) -> Request:
    """Return the call that writes turns anew; `number` is that of the start and of the rewriting."""
    turns = [{"number": i, **turn.model_dump()} for i, turn in enumerate(reply.turns, start=1)]
    facts = {**request.facts, "original": request.template, "written": turns, "faults": faults}
    return request._replace(template="rewrite_turns", facts=facts, seed=(*request.seed, *number))


def _with_turns(reply: SessionReply, mended: MendReply) -> SessionReply:
    new = {turn.number: Turn(user=turn.user, assistant=turn.assistant, told_ids=turn.told_ids) for turn in mended.turns}
    return SessionReply(turns=[new.get(number, turn) for number, turn in enumerate(reply.turns, start=1)])


# --- reading back


def read_back(client: Client, request: Request, reply: SessionReply) -> list[str]:
    """Have a session read, and return what is not told where it says so, not clearly, or besides."""
    claimed = {id_: number for number, turn in enumerate(reply.turns, start=1) for id_ in turn.told_ids}
    whose = {one["told_id"]: one["whose"] for one in request.facts["told"]}

    def check(reading: CoverageReply) -> list[str]:
        read = Counter(one.told_id for one in reading.told)
        faults = [f"{id_} must be among what is told once" for id_ in claimed if read[id_] != 1]
        faults += [f"there is no {id_} to be told" for id_ in read if id_ not in claimed]
        return faults + [
            f"{one.told_id}: there is no message {one.message}"
            for one in reading.told
            if one.message is not None and not 1 <= one.message <= len(reply.turns)
        ]

    def found(reading: CoverageReply) -> list[str]:
        faults = []
        for one in reading.told:
            turn = claimed[one.told_id]
            if one.message is None:
                faults.append(f"turn {turn}: what the user says does not tell {one.told_id}, or not all of it")
            elif one.message != turn:
                faults.append(f"{one.told_id} is told in turn {one.message}, but stands in the told_ids of turn {turn}")
            elif one.whose != whose[one.told_id]:
                faults.append(
                    f"turn {turn}: {one.told_id} is {_WHOSE[whose[one.told_id]]}; it was taken for "
                    f"{_WHOSE[one.whose] if one.whose else 'nobody’s in particular'}"
                )
        return faults + [f"the user shows a taste that nothing told stands for: {t}" for t in reading.other_tastes]

    request = coverage_request(request, reply)
    return found(client.reader.ask(request, CoverageReply, check, lambda reading: bool(found(reading))))


_WHOSE: Final[dict[Whose, str]] = {
    "user": "the user's own",
    "other": "somebody else's",
    "dropped": "a plan of the user's that came to nothing",
    "past": "how it was with the user, and is no longer",
}


def coverage_request(request: Request, reply: SessionReply) -> Request:
    """Return the call that reads a session back.

    It shows what was to be told and the user's messages, but not which message claims to tell what, nor whose it is:
    what was told stands in the order of ids, which says nothing.
    """
    told = [{**one, "whose": "", "person": ""} for one in request.facts["told"]]
    facts = {
        "topic_label": request.facts["topic_label"],
        "told": sorted(told, key=lambda one: str(one["told_id"])),
        "messages": _texts(reply, "user"),
    }
    return request._replace(template="coverage", facts=facts)
