"""The bank of life events and small talk: what users speak of besides the topic."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from generation.banks.model import AgeRange, BankModel, LifeNeeds, Slots, Tag, Template, Text
from generation.banks.topic import Exchange

_News = Annotated[Template, AfterValidator(Slots("when"))]


class LifeEvent(AgeRange):
    """An event of the general history.

    Attributes:
        term: Whether it matters for long.
        after: The event that must have come before, which this one reverses or continues.
        gives: What the life has from then on.
        takes: What it no longer has.
        told: First-person sentences with `{when}`.
        exchanges: What the user asks along with it, and what follows; the first message has `{told}`.
    """

    id: Text
    term: Literal["long", "short"]
    after: Text | None = None
    gives: frozenset[Tag] = frozenset()
    takes: frozenset[Tag] = frozenset()
    told: list[_News] = Field(min_length=1)
    exchanges: list[Exchange] = Field(min_length=1)


class SmallTalk(LifeNeeds):
    """A concern of the day.

    Attributes:
        months: When it comes up; at any time if there are none.
    """

    months: frozenset[int] = frozenset()
    exchanges: list[Exchange] = Field(min_length=1)


class LifeBank(BankModel):
    """What users speak of besides the topic; it shows no preference."""

    events: list[LifeEvent] = Field(min_length=1)
    small_talk: list[SmallTalk] = Field(min_length=1)
