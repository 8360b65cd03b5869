"""Filler sessions: short chats about knowledge and programming that tell nothing about the user.

There are `count()` of them, all different: each kind of filler is a text with parameters, and a filler is one
combination of parameters. The texts and the facts are in bank files, which are read when the first filler is asked for;
what the texts insert is computed. No code is executed when a filler is written.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final, NamedTuple

from generation.llm.offline.fillers.bank import EVALUATORS, kinds
from generation.llm.offline.fillers.draft import draft
from generation.seeds import rng_for

PER_KIND: Final = 5_000
"""How many fillers of each kind there are for one seed; every kind has at least as many combinations."""


class FillerChat(NamedTuple):
    """A short chat that tells nothing about its user.

    Attributes:
        kind: What the chat is about, e.g. `"unit_conversion"`.
        title: A short description, of this filler only.
        turns: Pairs of a user's message and the assistant's.
    """

    kind: str
    title: str
    turns: tuple[tuple[str, str], ...]


class _FillerOrder(NamedTuple):
    """A seed's order of the kinds, and its walk through the combinations of each.

    The walk is `(step * turn + start) % size`, with a step coprime to the size, so it repeats nothing.
    """

    order: tuple[int, ...]
    steps: tuple[int, ...]
    starts: tuple[int, ...]


@lru_cache(maxsize=16)
def _order(seed: int) -> _FillerOrder:
    rng = rng_for(seed, "fillers")
    order = list(range(len(kinds())))
    rng.shuffle(order)
    steps = []
    for kind in kinds():
        step = rng.randrange(kind.size)
        while math.gcd(step, kind.size) != 1:
            step = rng.randrange(kind.size)
        steps.append(step)
    return _FillerOrder(tuple(order), tuple(steps), tuple(rng.randrange(kind.size) for kind in kinds()))


def count() -> int:
    """Return how many distinct fillers there are for each seed."""
    return PER_KIND * sum(map(len, EVALUATORS.values()))


def filler(index: int, seed: int) -> FillerChat:
    """Return one of a seed's fillers, from 0 to `count() - 1`; neighbours are of different kinds.

    Raises:
        IndexError: There is no filler with that index.
    """
    if not 0 <= index < count():
        raise IndexError(f"filler index {index} is not in the range from 0 to {count() - 1}")
    plan = _order(seed)
    turn, place = divmod(index, len(kinds()))
    chosen = plan.order[place]
    kind = kinds()[chosen]
    number = (plan.steps[chosen] * turn + plan.starts[chosen]) % kind.size
    title, question, answer, follow_up, reply = draft(kind, number, rng_for(seed, "filler", index))
    return FillerChat(kind.name, title, ((question, answer), (follow_up, reply)))
