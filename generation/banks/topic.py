"""A topic bank: the preferences that a user may have in a topic, and the sentences that tell of them."""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import Annotated, Final, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from generation.banks.frames import Pair, Three, Turn
from generation.banks.model import (
    BankModel,
    LifeNeeds,
    MessageTemplate,
    Plain,
    PlainTemplate,
    Slots,
    Template,
    Text,
)
from generation.records import MOTIVES, Group, Motive

FREE: Final = "free"
ITEMS: Final = "items"
TRIALS: Final = "trials"
"""What threads may be on, beside the id of a slot or of a kind of fact."""

ItemPhrase = Annotated[Template, AfterValidator(Slots("item"))]
ValueSentence = Annotated[Template, AfterValidator(Slots("value"))]


class Item(BankModel):
    """A thing that a user may like or dislike.

    Attributes:
        phrase: A noun phrase or gerund, as it stands in messages and in options.
        paraphrases: The same in other words, as it stands in messages.
    """

    phrase: Plain
    paraphrases: list[Plain] = Field(min_length=1)


class Stances(BankModel):
    """How it is told that somebody likes or dislikes a thing: verb phrases in the past tense, for all persons.

    Attributes:
        likes: `took to {item} at once`.
        dislikes: `got nothing out of {item}`.
        turned_to: For a view that has changed, so that it is liked now.
        turned_from: For one that has changed the other way.
        like_signs: What somebody does who likes it, with no verdict.
        dislike_signs: The same of somebody who does not.
        stock: Verb phrases that say nothing of anything.
    """

    likes: list[ItemPhrase] = Field(min_length=1)
    dislikes: list[ItemPhrase] = Field(min_length=1)
    turned_to: list[ItemPhrase] = Field(min_length=1)
    turned_from: list[ItemPhrase] = Field(min_length=1)
    like_signs: list[ItemPhrase] = Field(min_length=1)
    dislike_signs: list[ItemPhrase] = Field(min_length=1)
    stock: list[PlainTemplate] = Field(min_length=1)
    pairs: list[Pair] = Field(min_length=1)
    threes: list[Three] = Field(min_length=1)


class Value(BankModel):
    """One value of a slot.

    Attributes:
        phrase: A noun phrase or gerund, as it stands in messages and in options.
        paraphrases: The same in other words, as it stands in messages.
        signs: Things by which somebody shows that they have this value and none of the slot's others.
        recommend: Concrete recommendations that fit this value and none of the slot's others, without naming it.
        stereotype: Groups of which a stereotype says that they hold this value.
        against: Motives that speak against this value: nobody turns to it for their sake.
    """

    phrase: Plain
    paraphrases: list[Plain] = Field(min_length=1)
    signs: list[Plain] = Field(min_length=1)
    recommend: list[Plain] = Field(min_length=1)
    stereotype: tuple[Group, ...] = ()
    against: tuple[Motive, ...] = ()


class SlotTells(BankModel):
    """How the values of a slot are told.

    Attributes:
        pairs: Frames that say who has which value now.
        threes: The same of three people.
        changes: Frames that say who has changed to which value.
        past: Frames that say what the user had and has.
        dropped: Frames that say what the user meant to have and has.
        signs: Frames that hold a sign in place of a value, with no verdict.
        stock: What fills a hole that says nothing.
    """

    pairs: list[Pair] = Field(min_length=1)
    threes: list[Three] = Field(min_length=1)
    changes: list[Pair] = Field(min_length=1)
    past: list[Turn] = Field(min_length=1)
    dropped: list[Turn] = Field(min_length=1)
    signs: list[Pair] = Field(min_length=1)
    stock: list[PlainTemplate] = Field(min_length=1)


class Reason(LifeNeeds):
    """Why something changed.

    Attributes:
        told: A clause that completes `because …`, of nobody in particular, as it stands in messages and in options.
        retold: The same in other words.
    """

    told: Plain
    retold: PlainTemplate


def _for_all_motives(reasons: dict[Motive, list[Reason]]) -> dict[Motive, list[Reason]]:
    counts = {motive: len(reasons.get(motive, [])) for motive in MOTIVES}
    if len(set(counts.values())) != 1 or 0 in counts.values():
        raise ValueError(f"every motive needs equally many reasons, at least one; there are {counts}")
    return reasons


Reasons = Annotated[dict[Motive, list[Reason]], AfterValidator(_for_all_motives)]
"""Reasons by motive, equally many for each."""


class Slot(BankModel):
    """A preference with one value at a time, such as a favourite cuisine.

    Attributes:
        id: Its name in records.
        name: A second-person noun phrase for what is chosen, such as `the kind of cooking you do`.
        reasons: Why somebody leaves one value for another, whichever they are; see `Value.against`.
        queries: Neutral messages about the activity, which favour no value.
        again: Messages that say the user wants to change this once more.
        recall: The assistant's words that take `{value}` for what the user holds now.
        recommend_queries: Requests for a recommendation, which favour no value.
    """

    id: Text
    name: Plain
    values: list[Value] = Field(min_length=4)
    tells: SlotTells
    reasons: Reasons
    queries: list[PlainTemplate] = Field(min_length=1)
    again: list[PlainTemplate] = Field(min_length=1)
    recall: list[ValueSentence] = Field(min_length=1)
    recommend_queries: list[PlainTemplate] = Field(min_length=1)


class Fact(BankModel):
    """Something that happened to somebody: verb phrases in the past tense, for all persons.

    Attributes:
        told: By its name.
        retold: The same in other words.
        trace: What shows that it happened.
        recalled: The same as a second-person phrase that completes `you told me about …`.
    """

    told: PlainTemplate
    retold: PlainTemplate
    trace: PlainTemplate
    recalled: Plain


class FactKind(BankModel):
    """Facts of one kind, of which a user has one.

    Attributes:
        id: Its name in records.
        name: What facts of it are about; completes `The message is about …`.
        queries: Messages that touch the kind without favouring a fact.
        stock: Verb phrases that say nothing.
    """

    id: Text
    name: Text
    queries: list[PlainTemplate] = Field(min_length=1)
    pairs: list[Pair] = Field(min_length=1)
    threes: list[Three] = Field(min_length=1)
    stock: list[PlainTemplate] = Field(min_length=1)
    facts: list[Fact] = Field(min_length=4)


class ItemReasons(BankModel):
    """Why somebody comes to like a thing, or no longer likes it."""

    toward: Reasons
    away: Reasons


class Exchange(BankModel):
    """What the user writes and the assistant answers; what is told goes in place of `{told}`."""

    user: MessageTemplate
    assistant: PlainTemplate

    @property
    def tells(self) -> bool:
        """Whether there is a place for something told."""
        return _TOLD in self.user


class Thread(LifeNeeds):
    """A stretch of chat about one concern; it may end after any of its exchanges.

    Attributes:
        about: The slot or the kind of fact it belongs to, or `items`, `trials` or `free`.
        label: Completes `how did it go with …`.
    """

    about: Text
    label: Plain
    exchanges: list[Exchange] = Field(min_length=1)

    @model_validator(mode="after")
    def _has_places(self) -> Self:
        if any(exchange.user.count(_TOLD) > 1 for exchange in self.exchanges):
            raise ValueError(f"{self.label}: a message has {_TOLD} once at most")
        if self.about == FREE and any(exchange.tells for exchange in self.exchanges):
            raise ValueError(f"{self.label}: a free thread has no {_TOLD}")
        if self.about != FREE and not all(exchange.tells for exchange in self.exchanges[:_TELLING_EXCHANGES]):
            raise ValueError(f"{self.label}: the first {_TELLING_EXCHANGES} messages must have {_TOLD}")
        return self


_TOLD: Final = "{told}"
_TELLING_EXCHANGES: Final = 2


class TopicBank(BankModel):
    """Everything the generator knows about a topic.

    Attributes:
        id: The topic's name in records.
        label: Completes `talk about …`.
        items: Things of one kind.
        item_queries: Neutral messages about the activity, which favour no item.
        idea_queries: Requests for something new, which name nothing.
    """

    id: Annotated[str, StringConstraints(pattern=r"^[a-zA-Z][a-zA-Z0-9_]*$")]
    label: Plain
    items: list[Item] = Field(min_length=4)
    stances: Stances
    item_queries: list[PlainTemplate] = Field(min_length=1)
    idea_queries: list[PlainTemplate] = Field(min_length=1)
    slots: list[Slot] = Field(min_length=1)
    facts: list[FactKind] = Field(min_length=1)
    item_reasons: ItemReasons
    threads: list[Thread] = Field(min_length=1)

    def slot(self, slot_id: str) -> Slot:
        """Return a slot by its id."""
        return next(slot for slot in self.slots if slot.id == slot_id)

    def fact_kind(self, kind_id: str) -> FactKind:
        """Return a kind of facts by its id."""
        return next(kind for kind in self.facts if kind.id == kind_id)

    def name_of(self, subject: str) -> str:
        """Return what a slot or a kind of facts is called; an item is called what it is."""
        names = {slot.id: slot.name for slot in self.slots} | {kind.id: kind.name for kind in self.facts}
        return names.get(subject, subject)

    def item(self, phrase: str) -> Item:
        """Return an item by its phrase."""
        return next(item for item in self.items if item.phrase == phrase)

    def names(self) -> Iterator[str]:
        """Yield every phrase that stands for an item or a value."""
        yield from (item.phrase for item in self.items)
        for slot in self.slots:
            yield from (value.phrase for value in slot.values)

    def threads_on(self, subject: str, life: Set[str]) -> list[Thread]:
        """Return the threads on something that fit a life."""
        return [thread for thread in self.threads if thread.about == subject and thread.fits(life)]

    def all_reasons(self) -> Iterator[tuple[Motive, Reason]]:
        """Yield every reason with its motive."""
        for reasons in (self.item_reasons.toward, self.item_reasons.away, *(slot.reasons for slot in self.slots)):
            yield from ((motive, reason) for motive, own in reasons.items() for reason in own)

    def reason(self, told: str) -> Reason:
        """Return a reason by its words."""
        return next(reason for _, reason in self.all_reasons() if reason.told == told)
