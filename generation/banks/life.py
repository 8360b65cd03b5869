"""The bank of life events and small talk: what users speak of besides the topic."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from generation.banks.model import BankModel, Template, Text


class LifeEvent(BankModel):
    """An event of the general history.

    Attributes:
        term: Whether it matters for long.
        after: The event that must have come before, which this one reverses or continues.
        told: First-person sentences with `{when}`.
        asks: What the user asks along with it.
    """

    id: Text
    term: Literal["long", "short"]
    min_age: int = 18
    max_age: int = 120
    after: Text | None = None
    told: list[Template] = Field(min_length=1)
    replies: list[Template] = Field(min_length=1)
    asks: list[Template] = Field(min_length=1)


class SmallTalk(BankModel):
    """A remark about the day and the assistant's answer."""

    say: Template
    reply: Template


class LifeBank(BankModel):
    """What users speak of besides the topic; it shows no preference."""

    events: list[LifeEvent] = Field(min_length=1)
    small_talk: list[SmallTalk] = Field(min_length=1)
