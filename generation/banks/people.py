"""The bank of people: names, demographics, and the parts of which a life is drawn."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from generation.banks.model import AgeRange, BankModel, Plain, Slots, Tag, Template, Text

OccupationKind = Literal["worker", "student", "retired"]

_PERSON = ("name", "subject", "object", "possessive")
Sentence = Annotated[Template, AfterValidator(Slots(may=_PERSON))]
"""A sentence, or a part of one, about a persona: `{name}`, `{subject}`, `{object}`, `{possessive}`."""
_Opening = Annotated[
    Template,
    AfterValidator(
        Slots(
            "name",
            "household",
            "home",
            may=("age", "an_age", "occupation", "an_occupation", "place", "setting", "subject", "possessive"),
        )
    ),
]


class Culture(BankModel):
    """Given and family names that go together, and the racial identity of people so named."""

    id: Text
    race: Text
    women: list[Text] = Field(min_length=1)
    men: list[Text] = Field(min_length=1)
    neutral: list[Text] = Field(min_length=1)
    families: list[Text] = Field(min_length=1)


class Gender(BankModel):
    """A gender identity, its pronouns, and how often it is drawn."""

    id: Text
    subject: Text
    object: Text
    possessive: Text
    weight: int = Field(ge=0)


class LifePart(AgeRange):
    """A part of a life.

    Attributes:
        text: What is said of it.
        tags: What it brings into the life.
        kind: Of one kind a life has one part.
    """

    text: Sentence
    tags: frozenset[Tag] = frozenset()
    kind: str = ""


class Occupation(AgeRange):
    """An occupation, without an article; its kind brings a tag of its own."""

    name: Text
    kind: OccupationKind = "worker"
    tags: frozenset[Tag] = frozenset()


class HomePlace(BankModel):
    """A kind of place, and a clause about it that begins with `where`."""

    name: Plain
    setting: Plain


class Opener(BankModel):
    """The first sentences of a profile."""

    kind: OccupationKind
    text: _Opening


class PeopleBank(BankModel):
    """Where personas are drawn from.

    Attributes:
        relations: Of people whom a user speaks of.
        households: Completes `Ana lives …`.
        homes: Completes `Ana lives in …`.
        extras: What else a life has.
        background: Where somebody comes from.
        interests: What fills evenings and weekends.
        goals: What somebody wants of the coming years.
    """

    cultures: list[Culture] = Field(min_length=1)
    genders: list[Gender] = Field(min_length=1)
    relations: list[Text] = Field(min_length=8)
    occupations: list[Occupation] = Field(min_length=1)
    places: list[HomePlace] = Field(min_length=1)
    households: list[LifePart] = Field(min_length=1)
    homes: list[LifePart] = Field(min_length=1)
    extras: list[LifePart] = Field(min_length=1)
    profile_openers: list[Opener] = Field(min_length=1)
    background: list[LifePart] = Field(min_length=1)
    interests: list[LifePart] = Field(min_length=2)
    goals: list[LifePart] = Field(min_length=1)
