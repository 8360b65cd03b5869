"""The bank of people: names, demographics, and sentences for profiles."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from generation.banks.model import BankModel, Template, Text

OccupationKind = Literal["worker", "student", "retired"]


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


class AgeRange(BankModel):
    """Something that fits people of some ages only."""

    min_age: int = 18
    max_age: int = 120

    def fits(self, age: int) -> bool:
        """Say whether it fits someone of this age."""
        return self.min_age <= age <= self.max_age


class Occupation(AgeRange):
    """An occupation, without an article."""

    name: Text
    kind: OccupationKind = "worker"


class HomePlace(BankModel):
    """A kind of place, and a clause about it that begins with `where`."""

    name: Text
    setting: Text


class Sentence(AgeRange):
    """A sentence for a profile; `{name}`, `{subject}`, `{object}`, `{possessive}`."""

    text: Template
    kind: str = ""


class Opener(BankModel):
    """The first sentence of a profile; `{name}`, `{age}`, `{an_occupation}`, `{place}`, `{setting}`."""

    kind: OccupationKind
    text: Template


class PeopleBank(BankModel):
    """Where personas are drawn from; `relations` are those of people whom a user speaks of."""

    cultures: list[Culture] = Field(min_length=1)
    genders: list[Gender] = Field(min_length=1)
    relations: list[Text] = Field(min_length=8)
    occupations: list[Occupation] = Field(min_length=1)
    places: list[HomePlace] = Field(min_length=1)
    circumstances: list[Sentence] = Field(min_length=2)
    character: list[Sentence] = Field(min_length=1)
    dreams: list[Sentence] = Field(min_length=1)
    profile_openers: list[Opener] = Field(min_length=1)
