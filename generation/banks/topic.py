"""A topic bank: the preferences that a user may have in a topic, and the sentences that tell of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Set
from typing import Annotated, Final, Self

from pydantic import Field, StringConstraints, field_validator, model_validator

from generation.banks.model import BankModel, Text
from generation.content_words import content_stems
from generation.grammar import TemplateError, may_mention, mentions, slot_names
from generation.records import MOTIVES, Group, Motive


class Item(BankModel):
    """A thing that a user may like or dislike.

    Attributes:
        phrase: A noun phrase or gerund, as it stands in messages and in options.
        paraphrases: The same in other words, as it stands in messages.
    """

    phrase: Text
    paraphrases: list[Text] = Field(min_length=1)


class Value(BankModel):
    """One value of a slot.

    Attributes:
        phrase: A noun phrase or gerund, as it stands in messages and in options.
        paraphrases: The same in other words, as it stands in messages.
        signs: Things by which somebody shows that they have this value and none of the slot's others.
        recommend: Concrete recommendations that fit this value and none of the slot's others, without naming it.
        stereotype: Groups of which a stereotype says that they hold this value.
    """

    phrase: Text
    paraphrases: list[Text] = Field(min_length=1)
    signs: list[Text] = Field(min_length=1)
    recommend: list[Text] = Field(min_length=1)
    stereotype: tuple[Group, ...] = ()


class Slot(BankModel):
    """A preference with one value at a time, such as a favourite cuisine.

    Attributes:
        id: Its name in records.
        name: A second-person noun phrase for what is chosen, such as `the kind of cooking you do`.
        first: Sentences by which the user lets the first value be known; `{value}`.
        update: Sentences by which the user lets a new value be known, without naming the old one; `{value}`.
        shown: Sentences that tell what the user did, at first and after a change, with no verdict; `{sign}`.
        queries: Neutral messages about the activity, which favour no value.
        again: Messages that say the user wants to change this once more.
        recall: The assistant's words that take `{value}` for what the user holds now.
        recommend_queries: Requests for a recommendation, which favour no value.
    """

    id: Text
    name: Text
    values: list[Value] = Field(min_length=4)
    first: list[Text] = Field(min_length=1)
    update: list[Text] = Field(min_length=1)
    shown: list[Text] = Field(min_length=1)
    queries: list[Text] = Field(min_length=1)
    again: list[Text] = Field(min_length=1)
    recall: list[Text] = Field(min_length=1)
    recommend_queries: list[Text] = Field(min_length=1)


class Fact(BankModel):
    """Something that happened to the user.

    Attributes:
        told: A first-person sentence.
        retold: The same in other words.
        trace: What shows that it happened, in the first person.
        recalled: The same as a second-person phrase that completes `you told me about …`.
    """

    told: Text
    retold: Text
    trace: Text
    recalled: Text


class FactKind(BankModel):
    """Facts of one kind, of which a user has one.

    Attributes:
        id: Its name in records.
        queries: Messages that touch the kind without favouring a fact.
    """

    id: Text
    queries: list[Text] = Field(min_length=1)
    facts: list[Fact] = Field(min_length=4)


class Reason(BankModel):
    """Why a preference changed.

    Attributes:
        told: A first-person clause that completes `because …` and stands alone as a sentence.
        retold: The same in other words.
        recalled: The same in the second person.
    """

    told: Text
    retold: Text
    recalled: Text


class Talk(BankModel):
    """A question about the topic and its answer, free of anybody's preferences."""

    ask: Text
    answer: Text


class TopicBank(BankModel):
    """Everything the generator knows about a topic.

    Attributes:
        id: The topic's name in records.
        label: Completes `talk about …`.
        items: Things of one kind.
        frames: First-person sentences, neutral, by which the user comes to `{item}`; may hold `{when}`.
        likes: Sentences that say the user liked it, without naming it.
        dislikes: Sentences that say the user disliked it, without naming it.
        item_queries: Neutral messages about the activity, which favour no item.
        idea_queries: Requests for something new, which name nothing.
        reasons: Why preferences change, by motive, equally many for each.
        colour: Things users say by the way, free of preferences.
        followups: What the assistant asks back.
    """

    id: Annotated[str, StringConstraints(pattern=r"^[a-zA-Z][a-zA-Z0-9_]*$")]
    label: Text
    items: list[Item] = Field(min_length=4)
    frames: list[Text] = Field(min_length=1)
    likes: list[Text] = Field(min_length=1)
    dislikes: list[Text] = Field(min_length=1)
    item_queries: list[Text] = Field(min_length=1)
    idea_queries: list[Text] = Field(min_length=1)
    slots: list[Slot] = Field(min_length=1)
    facts: list[FactKind] = Field(min_length=1)
    reasons: dict[Motive, list[Reason]]
    talks: list[Talk] = Field(min_length=1)
    colour: list[Text] = Field(min_length=1)
    followups: list[Text] = Field(min_length=1)

    @field_validator("reasons")
    @classmethod
    def _equal_reasons(cls, reasons: dict[Motive, list[Reason]]) -> dict[Motive, list[Reason]]:
        counts = {motive: len(reasons.get(motive, [])) for motive in MOTIVES}
        if len(set(counts.values())) != 1 or 0 in counts.values():
            raise ValueError(f"every motive needs equally many reasons, at least one; there are {counts}")
        return reasons

    @model_validator(mode="after")
    def _check(self) -> Self:
        faults = list(_faults(self))
        if faults:
            shown = "; ".join(faults[:20])
            more = f"; and {len(faults) - 20} more" if len(faults) > 20 else ""
            raise ValueError(shown + more)
        return self

    def slot(self, slot_id: str) -> Slot:
        """Return a slot by its id."""
        return next(slot for slot in self.slots if slot.id == slot_id)

    def fact_kind(self, kind_id: str) -> FactKind:
        """Return a kind of facts by its id."""
        return next(kind for kind in self.facts if kind.id == kind_id)

    def item(self, phrase: str) -> Item:
        """Return an item by its phrase."""
        return next(item for item in self.items if item.phrase == phrase)

    def names(self) -> Iterator[str]:
        """Yield every phrase that stands for an item or a value."""
        yield from (item.phrase for item in self.items)
        for slot in self.slots:
            yield from (value.phrase for value in slot.values)

    def templates(self) -> Iterator[tuple[str, str, frozenset[str]]]:
        """Yield every template as (where it stands, template, slots it must have)."""
        item, value = frozenset({"item"}), frozenset({"value"})
        nothing: frozenset[str] = frozenset()
        yield from (("frames", text, item) for text in self.frames)
        for field in ("likes", "dislikes", "item_queries", "idea_queries", "colour", "followups"):
            yield from ((field, text, nothing) for text in getattr(self, field))
        for slot in self.slots:
            for field in ("first", "update", "recall"):
                yield from ((f"slots.{slot.id}.{field}", text, value) for text in getattr(slot, field))
            yield from ((f"slots.{slot.id}.shown", text, frozenset({"sign"})) for text in slot.shown)
            for field in ("queries", "again", "recommend_queries"):
                yield from ((f"slots.{slot.id}.{field}", text, nothing) for text in getattr(slot, field))
        for kind in self.facts:
            yield from ((f"facts.{kind.id}.queries", text, nothing) for text in kind.queries)
            texts = (text for fact in kind.facts for text in (fact.told, fact.retold, fact.trace))
            yield from ((f"facts.{kind.id}", text, nothing) for text in texts)
        for motive, reasons in self.reasons.items():
            texts = (text for reason in reasons for text in (reason.told, reason.retold))
            yield from ((f"reasons.{motive}", text, nothing) for text in texts)
        for talk in self.talks:
            yield "talks", talk.ask, nothing
            yield "talks", talk.answer, nothing


def _faults(bank: TopicBank) -> Iterator[str]:
    yield from _duplicates(bank)
    for where, template, needed in bank.templates():
        try:
            slots = slot_names(template)
        except TemplateError as error:
            yield f"{where}: {error}"
            continue
        allowed = needed | ({"when"} if where == "frames" else set())
        if slots != needed and not needed <= slots <= allowed:
            wanted = ", ".join(f"{{{name}}}" for name in sorted(needed)) or "no slot"
            yield f"{where}: {template!r} must have {wanted}"
    plain = (
        ("label", bank.label),
        *((f"slots.{slot.id}.name", slot.name) for slot in bank.slots),
        *(("items", text) for item in bank.items for text in (item.phrase, *item.paraphrases)),
        *(
            (f"slots.{slot.id}", text)
            for slot in bank.slots
            for v in slot.values
            for text in (v.phrase, *v.paraphrases, *v.signs, *v.recommend)
        ),
        *((f"facts.{kind.id}", fact.recalled) for kind in bank.facts for fact in kind.facts),
        *((f"reasons.{motive}", reason.recalled) for motive, rs in bank.reasons.items() for reason in rs),
    )
    for where, text in plain:
        if re.search(r"[\[\]{}|]", text):
            yield f"{where}: {text!r} goes into options and must be plain text"
    yield from _given_away(bank)
    yield from _shared_words(bank)


def _shared_words(bank: TopicBank) -> Iterator[str]:
    """Find other words that share a content word with what options say."""
    for item in bank.items:
        for text in item.paraphrases:
            yield from _shares("items", text, [other.phrase for other in bank.items])
    for slot in bank.slots:
        phrases = [value.phrase for value in slot.values]
        for value in slot.values:
            for text in (*value.paraphrases, *value.signs):
                yield from _shares(f"slots.{slot.id}", text, [*phrases, *value.recommend])
    for kind in bank.facts:
        common = frozenset[str].intersection(*(content_stems(fact.recalled) for fact in kind.facts))
        for fact in kind.facts:
            for text in (fact.retold, fact.trace):
                yield from _shares(f"facts.{kind.id}", text, [fact.recalled], common)
    for motive, reasons in bank.reasons.items():
        for reason in reasons:
            yield from _shares(f"reasons.{motive}", reason.retold, [reason.recalled])


def _shares(where: str, text: str, others: Iterable[str], free: Set[str] = frozenset()) -> Iterator[str]:
    stems = content_stems(re.sub(r"[\[\]{}|]", " ", text)) - free
    for other in others:
        if shared := stems & content_stems(other):
            yield f"{where}: {text!r} has the words {', '.join(sorted(shared))}… of {other!r}; use others"


def _duplicates(bank: TopicBank) -> Iterator[str]:
    groups: dict[str, list[str]] = {
        "items and values": [name.lower() for name in bank.names()],
        "slots": [slot.id for slot in bank.slots],
        "facts": [kind.id for kind in bank.facts],
        "other words": [
            text.lower()
            for words in (
                *(item.paraphrases for item in bank.items),
                *((*value.paraphrases, *value.signs) for slot in bank.slots for value in slot.values),
            )
            for text in words
        ],
        "recommendations": [r.lower() for slot in bank.slots for v in slot.values for r in v.recommend],
        "facts' recalled": [fact.recalled.lower() for kind in bank.facts for fact in kind.facts],
        "reasons": [r.recalled.lower() for reasons in bank.reasons.values() for r in reasons],
        "asks of talks": [talk.ask for talk in bank.talks],
        "answers of talks": [talk.answer for talk in bank.talks],
    }
    for name in ("frames", "likes", "dislikes", "colour", "followups"):
        groups[name] = getattr(bank, name)
    for name, entries in groups.items():
        for entry, count in Counter(entries).items():
            if count > 1:
                yield f"{name}: {entry!r} occurs {count} times"


def _given_away(bank: TopicBank) -> Iterator[str]:
    """Find names of items and values where they would tell a reader something that no event says."""
    names = [name.lower() for name in bank.names()]
    for i, name in enumerate(names):
        for j, other in enumerate(names):
            if i != j and mentions(other, name) and name != other:
                yield f"names: {name!r} is part of {other!r}, so one cannot be told from the other"
    texts = [(where, template) for where, template, _ in bank.templates()]
    texts += [("facts", fact.recalled) for kind in bank.facts for fact in kind.facts]
    texts += [("reasons", reason.recalled) for reasons in bank.reasons.values() for reason in reasons]
    texts += [(f"slots.{s.id}.name", s.name) for s in bank.slots]
    values = [(slot, value) for slot in bank.slots for value in slot.values]
    texts += [(f"slots.{s.id}.recommend", text) for s, v in values for text in v.recommend]
    texts += [(f"slots.{s.id}", text) for s, v in values for text in (*v.paraphrases, *v.signs)]
    texts += [("items", text) for item in bank.items for text in item.paraphrases]
    words = {name: set(_WORD.findall(name)) for name in names}
    for where, text in texts:
        lower = text.lower()
        there = set(_WORD.findall(lower))
        for name in names:
            if words[name] <= there and _names(lower, name):
                yield f"{where}: {text!r} names {name!r}"


_WORD: Final = re.compile(r"[^\W_]+")


def _names(template: str, name: str) -> bool:
    try:
        return may_mention(template, name)
    except TemplateError:  # a fault of its own
        return mentions(template, name)
