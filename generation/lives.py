"""Who somebody is and how they live: parts of a life, drawn together so that none contradicts another."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence, Set
from typing import Final, NamedTuple

from generation.banks.life import LifeEvent
from generation.banks.people import LifePart, Occupation, PeopleBank

_INTERESTS: Final = 2
_KIND_TAGS: Final = {"worker": "job", "student": "student", "retired": "retired"}


class Life(NamedTuple):
    """A life at the start of the history.

    Attributes:
        more: What else a profile says, in order.
        tags: What is so in it.
    """

    occupation: Occupation
    household: LifePart
    home: LifePart
    more: tuple[LifePart, ...]
    tags: frozenset[str]


def draw_life(bank: PeopleBank, age: int, rng: random.Random) -> Life:
    """Draw a life: each part fits the age and what was drawn before it."""
    occupation = rng.choice([one for one in bank.occupations if one.min_age <= age <= one.max_age])
    tags = {*occupation.tags, _KIND_TAGS[occupation.kind], *age_tags(age)}

    def draw(parts: Sequence[LifePart], without_kinds: Collection[str] = ()) -> LifePart:
        fitting = [part for part in parts if part.fits_person(age, tags) and part.kind not in without_kinds]
        part = rng.choice(fitting)
        tags.update(part.tags)
        return part

    household, home, extra = draw(bank.households), draw(bank.homes), draw(bank.extras)
    background = draw(bank.background)
    interests: list[LifePart] = []
    for _ in range(_INTERESTS):
        interests.append(draw(bank.interests, [part.kind for part in interests if part.kind]))
    more = (background, *interests, extra, draw(bank.goals))
    return Life(occupation, household, home, more, frozenset(tags))


def age_tags(age: int) -> set[str]:
    """Return what an age says of a life."""
    return {"under40" if age < 40 else "over40", *(["over60"] if age >= 60 else [])}


def after_events(tags: Set[str], events: Sequence[LifeEvent]) -> frozenset[str]:
    """Return what is so in a life after some events, in their order."""
    now = set(tags)
    for event in events:
        now -= event.takes
        now |= event.gives
    return frozenset(now)
