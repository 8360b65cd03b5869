"""What all banks have in common."""

from __future__ import annotations

import re
from collections.abc import Iterable, Set
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, model_validator

from generation.grammar import parse, slot_names, without_details

Tag = Literal[
    "job",
    "boss",
    "colleagues",
    "student",
    "retired",
    "partner",
    "children",
    "flatmates",
    "alone",
    "house",
    "flat",
    "garden",
    "balcony",
    "car",
    "pet",
    "under40",
    "over40",
    "over60",
]
"""Something that is so in a life, or is not; see `LifeNeeds`."""

_MARKUP: Final = re.compile(r"[\[\]{}|<>]")


def _plain(text: str) -> str:
    if _MARKUP.search(text):
        raise ValueError(f"{text!r} stands in options and must be plain text, without brackets")
    return text


def _readable(template: str) -> str:
    parse(template)
    return template


def _readable_with_details(template: str) -> str:
    Slots(may=["told"])(without_details(template, lambda: True))
    if not parse(without_details(template, lambda: False)):
        raise ValueError(f"{template!r} is empty without its details")
    return template


Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Plain = Annotated[Text, AfterValidator(_plain)]
"""A text as it is."""
Template = Annotated[Text, AfterValidator(_readable)]
"""A sentence template in the language of `generation.grammar`."""
MessageTemplate = Annotated[Text, AfterValidator(_readable_with_details)]
"""A template with `<details>`, which talkative users write and others leave out; may have `{told}`."""


class Slots:
    """A check that a template has some slots, and no others but those it may have.

    Args:
        needs: What it must have.
        may: What it may have besides.
    """

    def __init__(self, *needs: str, may: Iterable[str] = ()) -> None:
        self._needs = frozenset(needs)
        self._may = self._needs | frozenset(may)

    def __call__(self, template: str) -> str:
        """Return the template.

        Raises:
            ValueError: It lacks a slot, or has one too many.
        """
        found = slot_names(template)
        if not self._needs <= found <= self._may:
            wanted = ", ".join(f"{{{name}}}" for name in sorted(self._needs)) or "no slot"
            raise ValueError(f"{template!r} must have {wanted}")
        return template


PlainTemplate = Annotated[Template, AfterValidator(Slots())]
"""A template without slots."""


class BankModel(BaseModel):
    """A part of a bank file: immutable, and unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class LifeNeeds(BankModel):
    """Something that fits some lives only.

    Attributes:
        needs: What must be so in a life that it fits.
        without: What must not.
    """

    needs: frozenset[Tag] = frozenset()
    without: frozenset[Tag] = frozenset()

    @model_validator(mode="after")
    def _can_fit(self) -> Self:
        if both := self.needs & self.without:
            raise ValueError(f"{', '.join(sorted(both))} is needed and excluded")
        return self

    def fits(self, life: Set[str]) -> bool:
        """Say whether it fits a life, given by its tags."""
        return self.needs <= life and not self.without & life


class AgeRange(LifeNeeds):
    """Something that fits people of some ages, and some lives, only."""

    min_age: int = Field(default=18, ge=0)
    max_age: int = Field(default=120, ge=0)

    def fits_person(self, age: int, life: Set[str]) -> bool:
        """Say whether it fits someone of this age and life."""
        return self.min_age <= age <= self.max_age and self.fits(life)
