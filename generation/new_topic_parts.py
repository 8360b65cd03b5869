"""The parts in which a language model writes a topic bank: the call for each, and the form of its reply."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from pydantic import BaseModel, Field

from generation.banks.frames import Pair, Three
from generation.banks.model import Plain, PlainTemplate, Tag
from generation.banks.topic import (
    FREE,
    ITEMS,
    TRIALS,
    Exchange,
    Fact,
    Item,
    Reason,
    SlotTells,
    Stances,
    Value,
    ValueSentence,
)
from generation.banks.topic_faults import Place
from generation.llm.client import Request
from generation.records import MEANINGS, MOTIVES

_ITEMS: Final = 24
_SLOTS: Final = 5
_VALUES: Final = 8
_KINDS: Final = 4
_FACTS: Final = 8
_REASONS: Final = 3
_THREADS: Final = 6  # that are asked for at a time


class Named(BaseModel):
    """A slot or a kind of facts."""

    id: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    name: Plain


class OutlineReply(BaseModel):
    """What the topic is about."""

    label: Plain
    items: list[Item]
    slots: list[Named]
    facts: list[Named]


class StancesReply(BaseModel):
    """How items are spoken of."""

    stances: Stances
    item_queries: list[PlainTemplate]
    idea_queries: list[PlainTemplate]


class SlotReply(BaseModel):
    """The values of a slot, and how they are spoken of."""

    values: list[Value]
    tells: SlotTells
    queries: list[PlainTemplate]
    again: list[PlainTemplate]
    recall: list[ValueSentence]
    recommend_queries: list[PlainTemplate]


class ReasonsReply(BaseModel):
    """Reasons by motive."""

    company: list[Reason]
    calm: list[Reason]
    thrift: list[Reason]
    health: list[Reason]
    curiosity: list[Reason]
    convenience: list[Reason]
    conscience: list[Reason]
    mastery: list[Reason]


class FactsReply(BaseModel):
    """Facts of one kind, and how they are told."""

    queries: list[PlainTemplate]
    pairs: list[Pair]
    threes: list[Three]
    stock: list[PlainTemplate]
    facts: list[Fact]


class NewThread(BaseModel):
    """A stretch of chat; what it is about is known."""

    label: Plain
    needs: list[Tag]
    exchanges: list[Exchange]


class ThreadsReply(BaseModel):
    """Stretches of chat about one thing."""

    threads: list[NewThread]


class Part(NamedTuple):
    """A part of a bank.

    Attributes:
        name: For people.
        place: Where it stands in the bank.
        request: The call that writes it.
        schema: The form of the reply.
        counts: How many of what the reply must have.
    """

    name: str
    place: Place
    request: Request
    schema: type[BaseModel]
    counts: Mapping[str, int]


def _request(part: str, topic: str, facts: Mapping[str, Any], *of: str) -> Request:
    return Request(f"new_topic_{part}", {"topic": topic, **facts}, ("new topic", topic, part, *of), topic=topic)


def outline_part(topic: str) -> Part:
    """Return the part that says what the others are."""
    counts = {"items": _ITEMS, "slots": _SLOTS, "facts": _KINDS}
    return Part("outline", (), _request("outline", topic, {}), OutlineReply, counts)


def parts_of(topic: str, outline: OutlineReply) -> Iterator[Part]:
    """Yield the parts of a bank with this outline."""
    shared = {"label": outline.label, "items": [item.phrase for item in outline.items]}
    yield Part("items", ("stances",), _request("stances", topic, shared), StancesReply, {})
    for i, slot in enumerate(outline.slots):
        others = [other.name for other in outline.slots if other != slot]
        request = _request("slot", topic, {**shared, "slot": slot.name, "others": others, "values": _VALUES}, slot.id)
        yield Part(f"slot {slot.id}", ("slots", i), request, SlotReply, {"values": _VALUES})
        of_slot = {**shared, "slot": slot.name, "way": ""}
        yield _reasons(topic, f"reasons for {slot.id}", ("slots", i, "reasons"), of_slot)
    for way in ("toward", "away"):
        yield _reasons(topic, f"reasons {way}", ("item_reasons", way), {**shared, "slot": "", "way": way})
    for i, kind in enumerate(outline.facts):
        request = _request("facts", topic, {**shared, "kind": kind.name, "count": _FACTS}, kind.id)
        yield Part(f"facts {kind.id}", ("facts", i), request, FactsReply, {"facts": _FACTS})
    told = [(slot.id, slot.name, 4) for slot in outline.slots]
    told += [(kind.id, kind.name, 3) for kind in outline.facts]
    told += [(ITEMS, "", _THREADS), (TRIALS, "", 4), (FREE, "", _THREADS), (FREE, "", _THREADS)]
    for number, (about, thing, count) in enumerate(told):
        of_thread: dict[str, Any] = {**shared, "about": about, "thing": thing, "count": count, "batch": number}
        request = _request("threads", topic, of_thread, about, str(number))
        yield Part(f"threads {number}: {about}", ("threads", number), request, ThreadsReply, {"threads": count})


def _reasons(topic: str, name: str, place: Place, facts: Mapping[str, Any]) -> Part:
    asked: dict[str, Any] = {**facts, "count": _REASONS, "meanings": dict(MEANINGS)}
    counts = {str(motive): _REASONS for motive in MOTIVES}
    return Part(name, place, _request("reasons", topic, asked, name), ReasonsReply, counts)
