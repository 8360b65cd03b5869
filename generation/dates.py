"""Dates as people say them."""

from __future__ import annotations

import datetime as dt
import random
from typing import Final

_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS: Final = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_ORDINALS: Final = [
    "first",
    "second",
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "ninth",
    "tenth",
    "eleventh",
    "twelfth",
    "thirteenth",
    "fourteenth",
    "fifteenth",
    "sixteenth",
    "seventeenth",
    "eighteenth",
    "nineteenth",
    "twentieth",
    "twenty-first",
    "twenty-second",
    "twenty-third",
    "twenty-fourth",
    "twenty-fifth",
    "twenty-sixth",
    "twenty-seventh",
    "twenty-eighth",
    "twenty-ninth",
    "thirtieth",
    "thirty-first",
]
_NUMBERS: Final = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven")


def spoken_day(date: dt.date) -> str:
    """Return a day of the year: `the third of May`."""
    return f"the {_ORDINALS[date.day - 1]} of {_MONTHS[date.month - 1]}"


def spoken_past(date: dt.date, today: dt.date, rng: random.Random) -> str:
    """Return how someone who speaks today refers to an earlier day: `last Thursday`, `three weeks ago`."""
    days = (today - date).days
    if days < 14:
        return rng.choice(_within_two_weeks(date, today))
    if days < 46:
        weeks = round(days / 7)
        return rng.choice([f"{_NUMBERS[weeks - 1]} weeks ago", _part(date)])
    if days < 330:
        months = max(2, round(days / 30.4))
        return rng.choice(
            [
                f"{_NUMBERS[months - 1]} months ago",
                f"back in {_MONTHS[date.month - 1]}",
                f"last {_MONTHS[date.month - 1]}",
            ]
        )
    month = _MONTHS[date.month - 1]
    forms = [f"in {month} {date.year}", f"in the {_season(date)} of {date.year}"]
    return rng.choice(forms if date.year == today.year else [*forms, f"back in {date.year}"])


class DatePhrases:
    """How someone who speaks on a day refers to earlier days: each has one phrase, and no two days share one.

    Args:
        today: The day.
        rng: Decides.
    """

    def __init__(self, today: dt.date, rng: random.Random) -> None:
        self._today = today
        self._rng = rng
        self._phrases: dict[dt.date, str] = {}

    def phrase(self, date: dt.date) -> str:
        """Return the phrase for a day."""
        if date not in self._phrases:
            taken = set(self._phrases.values())
            for _ in range(_TRIES):
                phrase = spoken_past(date, self._today, self._rng)
                if phrase not in taken:
                    break
            else:
                phrase = f"on {spoken_day(date)}"
            self._phrases[date] = phrase
        return self._phrases[date]


_TRIES: Final = 8


def _within_two_weeks(date: dt.date, today: dt.date) -> list[str]:
    days = (today - date).days
    day = _DAYS[date.weekday()]
    if days == 0:
        return ["this morning", "earlier today", "a few hours ago"]
    if days == 1:
        return ["yesterday", "yesterday afternoon"]
    if days < 7:
        return [f"last {day}", f"on {day}"]
    week = "of last week" if days <= 7 + today.weekday() else "of the week before last"
    return [f"on {day} {week}", f"a week ago last {day}" if days > 7 else "a week ago"]


def _part(date: dt.date) -> str:
    part = "at the start of" if date.day <= 10 else "in the middle of" if date.day <= 20 else "towards the end of"
    return f"{part} {_MONTHS[date.month - 1]}"


def _season(date: dt.date) -> str:
    return ("winter", "spring", "summer", "autumn")[date.month % 12 // 3]
