"""Filler sessions: short chats about knowledge and programming that tell nothing about the user.

There are `count()` of them, all different: each kind of filler is a text with parameters, and a filler is one
combination of parameters. Facts and outputs are computed; no code is executed when a filler is written.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final, NamedTuple

from generation.llm.offline.fillers import mathematics, programming, world
from generation.llm.offline.fillers.parts import Filler, Kind
from generation.seeds import rng_for

__all__ = ["KINDS", "Filler", "count", "filler"]

KINDS: Final[tuple[Kind, ...]] = (*mathematics.KINDS, *world.KINDS, *programming.KINDS)
"""All kinds of fillers."""

PER_KIND: Final = 5_000
"""How many fillers of each kind there are for one seed; every kind has at least as many combinations."""


class _Plan(NamedTuple):
    """A seed's order of the kinds, and its walk through the combinations of each.

    The walk is `(step * turn + start) % size`, with a step coprime to the size, so it repeats nothing.
    """

    order: tuple[int, ...]
    steps: tuple[int, ...]
    starts: tuple[int, ...]


@lru_cache(maxsize=16)
def _plan(seed: int) -> _Plan:
    rng = rng_for(seed, "fillers")
    order = list(range(len(KINDS)))
    rng.shuffle(order)
    steps = []
    for kind in KINDS:
        step = rng.randrange(kind.size)
        while math.gcd(step, kind.size) != 1:
            step = rng.randrange(kind.size)
        steps.append(step)
    return _Plan(tuple(order), tuple(steps), tuple(rng.randrange(kind.size) for kind in KINDS))


def count() -> int:
    """Return how many distinct fillers there are for each seed."""
    return PER_KIND * len(KINDS)


def filler(index: int, seed: int) -> Filler:
    """Return one of a seed's fillers.

    Args:
        index: Which one, from 0 to `count() - 1`. Neighbours are of different kinds.
        seed: Decides the order of the kinds, the parameters and the wording.

    Raises:
        IndexError: There is no filler with that index.
    """
    if not 0 <= index < count():
        raise IndexError(f"filler index {index} is not in the range from 0 to {count() - 1}")
    plan = _plan(seed)
    turn, place = divmod(index, len(KINDS))
    chosen = plan.order[place]
    kind = KINDS[chosen]
    draft = kind.draft((plan.steps[chosen] * turn + plan.starts[chosen]) % kind.size, rng_for(seed, "filler", index))
    return Filler(kind.name, draft.title, ((draft.question, draft.answer), (draft.follow_up, draft.reply)))
