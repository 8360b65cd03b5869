"""The bank of attributions: words around something told that say whose it is.

They say it by a tag: `I wrote on Monday and Ana on Friday. The letter of Friday says …`. The same words stand around
what is the user's and what is not; only how the tags go together tells.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from functools import cached_property
from typing import Final, Literal, NamedTuple, Self, get_args

from pydantic import Field, model_validator

from generation.banks.model import BankModel, Template, Text
from generation.grammar import expand, named_pattern, slot_names
from generation.history_records import Whose

OPEN: Final = "“"
CLOSE: Final = "”"
"""What stands around something told; a text told has none of them."""

Rival = Literal["other", "dropped", "past"]
_CORE: Final = "{core}"
_TAGS: Final = {"mine", "theirs", "shown"}


class Attribution(BankModel):
    """Texts with two tags: `{mine}` goes with what is the user's, `{theirs}` with what is not, `{shown}` with the core.

    Attributes:
        rival: What the other one is: somebody else's, a dropped plan, or the user's past.
        tags: Of which two are drawn.
        texts: With `{core}` in quotation marks, and `{person}`.
    """

    rival: Rival
    tags: list[Text] = Field(min_length=2)
    texts: list[Template] = Field(min_length=1)


class Attributions(BankModel):
    """Words that say whose something told is."""

    attributions: list[Attribution] = Field(min_length=1)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if lacking := {*get_args(Rival)} - {entry.rival for entry in self.attributions}:
            raise ValueError(f"there is none for the rival {', '.join(sorted(lacking))}")
        if faults := [text for entry in self.attributions for text in entry.texts if _lacks(text)]:
            raise ValueError(f"must have {OPEN}{_CORE}{CLOSE} once, and every slot: {'; '.join(map(repr, faults))}")
        return self

    def tell(self, core: str, whose: Whose, person: str, rival: Rival, rng: random.Random) -> str:
        """Return something told with the words that say whose it is.

        Args:
            core: The text, in the first person of whoever it is.
            whose: Whose it is.
            person: Of the user's circle.
            rival: What it is, or could be, if it is not the user's.
            rng: Decides.
        """
        entry = rng.choice([entry for entry in self.attributions if entry.rival == rival])
        mine, theirs = rng.sample(entry.tags, 2)
        tags = {"mine": mine, "theirs": theirs, "shown": mine if whose == "user" else theirs}
        return expand(rng.choice(entry.texts), rng, core=core, person=person, **tags)

    def read(self, message: str) -> Iterator[Attributed]:
        """Yield what a message tells, with whose it is, in order; what no entry fits is left out."""
        start = 0
        while (opened := message.find(OPEN, start)) >= 0 and (closed := message.find(CLOSE, opened)) >= 0:
            before, after = message[start:opened], message[closed + 1 :]
            whose = next((found for frame in self._frames if (found := frame.read(before, after))), None)
            if whose is not None:
                yield Attributed(message[opened + 1 : closed], whose)
            start = closed + 1

    @cached_property
    def _frames(self) -> tuple[_Frame, ...]:
        return tuple(_frame(text, entry) for entry in self.attributions for text in entry.texts)


class Attributed(NamedTuple):
    """Something told, and whose it is."""

    core: str
    whose: Whose


class _Frame(NamedTuple):
    """What stands before and after something told.

    Attributes:
        key: Words that stand before it or after it: they rule most frames out at once.
        rival: Whose it is if its tag is not the user's.
    """

    key: str
    before: re.Pattern[str]
    after: re.Pattern[str]
    rival: Rival

    def read(self, before: str, after: str) -> Whose | None:
        if self.key not in before and self.key not in after:
            return None
        ahead, behind = self.before.search(before), self.after.match(after)
        if ahead is None or behind is None:
            return None
        tags = {name: text.lower() for name, text in {**ahead.groupdict(), **behind.groupdict()}.items()}
        whose: dict[str, Whose] = {tags["mine"]: "user", tags["theirs"]: self.rival}
        return whose.get(tags["shown"])


def _frame(text: str, entry: Attribution) -> _Frame:
    before, after = text.split(f"{OPEN}{_CORE}{CLOSE}")
    fillings = dict.fromkeys(_TAGS, entry.tags)
    return _Frame(
        max((part.strip() for part in _FILLED.split(text)), key=len),
        re.compile(rf"(?<!\w){named_pattern(before, fillings)}\Z", re.IGNORECASE),
        re.compile(named_pattern(after, fillings), re.IGNORECASE),
        entry.rival,
    )


_FILLED: Final = re.compile(r"\[[^\]]*\]|\{[^}]*\}|“|”|(?<=[.!?:]) ")


def _lacks(text: str) -> bool:
    return text.count(f"{OPEN}{_CORE}{CLOSE}") != 1 or slot_names(text) - {"person"} != _TAGS | {"core"}
