"""What moves a user in a topic, and the reasons that show it.

In each topic one of the user's motives is behind more changes than any other. Beside each change three others are told,
for reasons of the user's other motives: so all motives are spoken of equally often, and only whose reason it is tells.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from typing import Final, NamedTuple

from generation.banks.topic import TopicBank
from generation.history_records import Preference
from generation.records import STANCES, Motive


class Change(NamedTuple):
    """Why states change.

    Attributes:
        motive: The user's; None where only others change.
        reasons: For each motive the reason that somebody gives; for an item, who comes to the same view as the user.
        opposite: The same of who comes to the opposite view; as `reasons` for a slot.
    """

    motive: Motive | None
    reasons: Mapping[Motive, str]
    opposite: Mapping[Motive, str]


class Reasons:
    """The reasons of a topic, a set for each change: one of each motive, and which of them is the user's.

    Args:
        bank: Of the topic.
        life: What is so in the user's life: a reason that it rules out is not given.
        main: What moves the user most in the topic.
        motives: All that moves the user, the main motive among them.
        changes: How many changes the topic has.
    """

    def __init__(
        self,
        bank: TopicBank,
        life: Set[str],
        main: Motive,
        motives: Sequence[Motive],
        changes: int,
        rng: random.Random,
    ) -> None:
        self._bank = bank
        self._life = life
        self._motives = motives
        self._own = _own_motives(main, motives, changes, rng)
        self._rng = rng
        self._drawn: dict[str, dict[Motive, list[str]]] = {}
        self._sets: Counter[str] = Counter()
        self._given: set[str] = set()

    def next(self, preference: Preference, state: str) -> Change:
        """Return why a preference changes to a state; no reason is the user's twice, where there are enough."""
        about, opposite = _abouts(preference, state)
        number = self._sets[about]
        self._sets[about] += 1
        reasons = self._set(preference, about, number)
        fresh = [motive for motive in self._own if reasons[motive] not in self._given]
        own = fresh[0] if fresh else self._own[0]
        self._own.remove(own)
        self._given.add(reasons[own])
        return Change(own, reasons, self._set(preference, opposite, number))

    def of_others(self, preference: Preference) -> Change:
        """Return why others change to the states of a preference; for an item, to liking it and to disliking it."""
        about, opposite = _abouts(preference, STANCES[0])
        number = self._rng.randrange(_SETS)
        return Change(None, self._set(preference, about, number), self._set(preference, opposite, number))

    def _set(self, preference: Preference, about: str, number: int) -> dict[Motive, str]:
        """Return a reason of each motive, of a slot, or of coming to like or dislike something."""
        if about not in self._drawn:
            if preference.kind == "slot":
                bank = self._bank.slot(preference.subject).reasons
            else:
                bank = self._bank.item_reasons.toward if about == "like" else self._bank.item_reasons.away
            fitting = {m: [reason.told for reason in bank[m] if reason.fits(self._life)] for m in self._motives}
            self._drawn[about] = {motive: self._rng.sample(texts, len(texts)) for motive, texts in fitting.items()}
        return {motive: texts[number % len(texts)] for motive, texts in self._drawn[about].items()}


_SETS: Final = 12  # any multiple of how many reasons a motive may have


def _abouts(preference: Preference, state: str) -> tuple[str, str]:
    """Return what the reasons for a state are about, and those for the opposite one."""
    if preference.kind == "slot":
        return preference.subject, preference.subject
    return state, STANCES[1 - STANCES.index(state)]


def _own_motives(main: Motive, motives: Sequence[Motive], changes: int, rng: random.Random) -> list[Motive]:
    """Draw the user's motive for each change: the main one for more of them than any other."""
    others = rng.sample([motive for motive in motives if motive != main], len(motives) - 1)
    # Between as few as lead and a good half.
    fewest = next(k for k in range(1, changes + 2) if k > -(-(changes - k) // len(others)))
    most = rng.randint(min(fewest, changes), min(max(fewest, changes // 2 + 1), changes))
    rest = [others[i % len(others)] for i in range(changes - most)]
    return rng.sample([main] * most + rest, changes)
