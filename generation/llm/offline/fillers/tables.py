"""Tables for fillers, from their bank files: facts, and words without any meaning for a profile."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from pydantic import BaseModel

from generation.banks.model import BankModel, Text
from generation.reading import as_model
from generation.yaml_reading import read_yaml

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)

FILES: Final = Path(__file__).parents[3] / "banks" / "files" / "fillers"

Slots = Mapping[str, object]
"""What templates insert, by name."""

Evaluator = Callable[..., Slots]
"""Computes the slots of a kind of filler from its parameters."""


class Unit(BankModel):
    """A conversion: a value in the source unit is multiplied by `times` and divided by `over`, which are exact."""

    source: Text
    target: Text
    times: str = "1"
    over: str = "1"
    reason: Text

    @property
    def factor(self) -> Fraction:
        """How many of the target make one of the source."""
        return Fraction(self.times) / Fraction(self.over)


class Element(NamedTuple):
    """A chemical element and where it stands in the periodic table; the f-block has no group number."""

    symbol: str
    name: str
    period: int
    group: int | None


class Planet(BankModel):
    """A planet with rounded figures: gravity in m/s², diameter in km, distance from the Sun in minutes of light."""

    name: Text
    order: Text
    solid: bool
    gravity: float
    year: Text
    width: Text
    light: Text


class Country(BankModel):
    """A country on one continent, with one capital."""

    name: Text
    capital: Text
    continent: Text
    landlocked: bool = False


class Tables(BankModel):
    """All tables; the bank file says what they hold."""

    units: tuple[Unit, ...]
    elements: tuple[Element, ...]
    noble_gases: tuple[int, ...]
    families: tuple[Text, ...]
    planets: tuple[Planet, ...]
    countries: tuple[Country, ...]
    weekdays: tuple[Text, ...]
    months: tuple[Text, ...]
    variables: tuple[Text, ...]
    words: tuple[Text, ...]
    parts: tuple[Text, ...]


@cache
def tables() -> Tables:
    """Return the tables."""
    return read_file("tables.yaml", Tables)


def read_file(name: str, kind: type[M]) -> M:
    """Read a bank file of the fillers.

    Raises:
        UserError: It is damaged.
    """
    path = FILES / name
    return as_model(read_yaml(path), kind, str(path))


def digests() -> dict[str, str]:
    """Return the sha256 of each bank file of the fillers (16 digits)."""
    files = sorted(FILES.glob("*.yaml"))
    return {f"{FILES.name}/{path.name}": hashlib.sha256(path.read_bytes()).hexdigest()[:16] for path in files}


def distinct(items: Sequence[T], *places: int) -> list[T]:
    """Return different items, given their places among all, among all but the first that is taken, and so on."""
    left = list(items)
    return [left.pop(place) for place in places]
