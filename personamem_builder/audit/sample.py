"""Which questions trained probes look at, where a split has more than they need."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from generation.seeds import rng_for
from personamem_builder.audit.records import AuditedSplit

SAMPLE: Final = 20_000
"""Questions that probes are trained and tested on at most. What they need of memory and time grows with these."""

_FEWEST_PERSONAS: Final = 20
"""There are so many in a sample at least, if need be with some of their questions only: probes hold personas out."""

_COMPARED: Final = 32
"""Of so many personas in turn the one is taken that brings the types nearest to their shares of the split."""


def sample(split: AuditedSplit, size: int = SAMPLE) -> AuditedSplit:
    """Return at most so many questions of a split, those of whole personas; the same ones each time.

    Personas are drawn one by one, in an order that depends on the name of the split and their ids alone, and such that
    each question type has about the share that it has in the split. Of a persona with more than its part of the size,
    where there are fewer than twenty, or with more than a twentieth of it, so many questions are drawn.

    Returns:
        The split itself where it is no larger; else its sample, in the order of the split.
    """
    if len(split.rows) <= size:
        return split
    own: dict[int, list[int]] = {}
    for index, persona in enumerate(split.personas):
        own.setdefault(persona, []).append(index)
    most = max(1, size // min(_FEWEST_PERSONAS, len(own)))
    for persona, indices in own.items():
        if len(indices) > most:
            own[persona] = rng_for(0, "audit sample", split.name, persona).sample(indices, most)
    counts = {persona: Counter(split.types[i] for i in indices) for persona, indices in own.items()}
    shares = {name: count / len(split.rows) for name, count in Counter(split.types).items()}
    order = sorted(own)
    rng_for(0, "audit sample", split.name).shuffle(order)
    return split.part(sorted(i for persona in _drawn(order, counts, shares, size) for i in own[persona]))


def _drawn(
    order: Sequence[int], counts: Mapping[int, Counter[str]], shares: Mapping[str, float], size: int
) -> list[int]:
    waiting = list(reversed(order))
    taken = Counter[str]()
    drawn: list[int] = []
    while waiting:
        near = [persona for persona in waiting[-_COMPARED:] if taken.total() + counts[persona].total() <= size]
        if not near:
            waiting = waiting[:-_COMPARED]
            continue
        chosen = min(reversed(near), key=lambda persona: _distance(taken + counts[persona], shares))
        waiting.remove(chosen)
        taken += counts[chosen]
        drawn.append(chosen)
    return drawn


def _distance(counts: Counter[str], shares: Mapping[str, float]) -> float:
    """Return how far the shares of the types are from those that they should have; rounded, as sums depend on order."""
    total = counts.total()
    return round(math.fsum((counts[name] / total - share) ** 2 for name, share in shares.items()), 12)
