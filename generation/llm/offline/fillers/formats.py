"""How fillers write numbers and lists."""

from __future__ import annotations

import math
from collections.abc import Iterable


def comma(number: int) -> str:
    """Return a whole number with separators of thousands and a proper minus."""
    return f"{number:,}".replace("-", "−")


def decimal(number: float, places: int = 2) -> str:
    """Return a rounded number, with separators of thousands and without needless zeros."""
    text = f"{number:,.{places}f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text.replace("-", "−")


def percent(share: float) -> str:
    """Return a share as a percentage with at least three significant digits."""
    value = 100 * share
    places = 2 if value >= 1 else 2 - math.floor(math.log10(value))
    return decimal(value, places) + "%"


def join(items: Iterable[object]) -> str:
    """Return things in a row, such as `3, 5 and 8`; nothing for none."""
    *first, last = list(map(str, items)) or [""]
    return f"{', '.join(first)} and {last}" if first else last


def row(items: Iterable[object]) -> str:
    """Return things separated by commas."""
    return ", ".join(map(str, items))


def times(number: int, noun: str) -> str:
    """Return a number of things, such as `1 day` or `1,024 days`."""
    return f"{comma(number)} {noun}" if number == 1 else f"{comma(number)} {noun}s"


def how_many(number: int) -> str:
    """Return which of the cases `none`, `one` and `many` a number is."""
    return "none" if number == 0 else "one" if number == 1 else "many"


def ordinal(number: int) -> str:
    """Return `1st`, `2nd`, `11th` and so on."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{comma(number)}{ending}"


def article(number: int) -> str:
    """Return `an` before 8, 11, 18, 80 and the like, else `a`."""
    return "an" if str(number)[0] == "8" or number in (11, 18) else "a"
