"""What moves a user in a topic, and the reasons that show it.

In each topic one of the user's motives is behind more changes than any other. Beside each change three others are told,
for reasons of the user's other motives: so all motives are spoken of equally often, and only whose reason it is tells.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from generation.banks.topic import TopicBank
from generation.records import Motive

_MAX_DRAWS: Final = 100


class Change(NamedTuple):
    """Why a state changes: the user's motive, and for each motive the reason that somebody gives."""

    motive: Motive
    reasons: Mapping[Motive, str]


class Reasons:
    """The reasons of a topic, a set for each change: one of each motive, and which of them is the user's.

    Args:
        main: What moves the user most in the topic.
        motives: All that moves the user, the main motive among them.
        changes: How many changes the topic has.
    """

    def __init__(
        self, bank: TopicBank, main: Motive, motives: Sequence[Motive], changes: int, rng: random.Random
    ) -> None:
        recalled = {motive: [reason.recalled for reason in bank.reasons[motive]] for motive in motives}
        self._reasons = {motive: rng.sample(reasons, len(reasons)) for motive, reasons in recalled.items()}
        self._own = _own_motives(main, motives, changes, min(map(len, self._reasons.values())), rng)
        self._told = 0

    def next(self) -> Change:
        """Return why the next state changes; no reason is the user's twice."""
        reasons = {motive: texts[self._told % len(texts)] for motive, texts in self._reasons.items()}
        own = self._own[self._told]
        self._told += 1
        return Change(own, reasons)


def _own_motives(
    main: Motive, motives: Sequence[Motive], changes: int, per_motive: int, rng: random.Random
) -> list[Motive]:
    """Draw the user's motive for each change: the main one for more of them than any other, where there are enough.

    Changes whose numbers are equal modulo `per_motive` share their reasons: their motives are different.
    """
    others = [motive for motive in motives if motive != main]
    drawn: list[Motive] = []
    for _ in range(_MAX_DRAWS):
        drawn = [main] * changes
        for first in range(min(per_motive, changes)):
            places = range(first, changes, per_motive)
            chosen = [main, *rng.sample(others, len(places) - 1)]
            for place, motive in zip(rng.sample(places, len(places)), chosen, strict=True):
                drawn[place] = motive
        counts = Counter(drawn)
        if all(counts[main] > counts[other] for other in others):
            break
    return drawn
