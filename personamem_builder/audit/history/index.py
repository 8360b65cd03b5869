"""Where words stand in a history: each context is read once, whatever is asked of it."""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Final

from personamem_builder.audit.history.words import stem
from personamem_builder.schema import Message

USER: Final = "user"
ASSISTANT: Final = "assistant"

_WORD: Final = re.compile(r"\w+")
_K1, _B = 1.2, 0.75
_DIGITS: Final = 9
"""Beyond these, the order of a sum would decide ties."""


class HistoryIndex:
    """The messages of a context, and for some stems in which of them, and how often, each stands.

    Args:
        messages: Of the context.
        stems: Those that will be asked for; others are not kept, so that the size is bounded by the questions.
    """

    def __init__(self, messages: Sequence[Message] = (), stems: Collection[str] = ()) -> None:
        self.messages = messages
        self._postings: dict[str, dict[str, dict[int, int]]] = {USER: {}, ASSISTANT: {}}
        self._users = [i for i, message in enumerate(messages) if message["role"] == USER]
        self._lengths = dict.fromkeys(self._users, 0)
        wanted: dict[str, str] = {}
        for i, message in enumerate(messages):
            if message["role"] not in self._postings:
                continue
            words = _WORD.findall(message["content"].lower())
            if message["role"] == USER:
                self._lengths[i] = len(words)
            self._add(i, message["role"], words, stems, wanted)

    def _add(self, i: int, role: str, words: Sequence[str], stems: Collection[str], wanted: dict[str, str]) -> None:
        postings = self._postings[role]
        for word in words:
            known = wanted.get(word)
            if known is None:
                own = stem(word)
                known = wanted[word] = own if own in stems else ""
            if known:
                places = postings.setdefault(known, {})
                places[i] = places.get(i, 0) + 1

    @cached_property
    def _words_before(self) -> list[int]:
        return [0, *accumulate(self._lengths[i] for i in self._users)]

    def counts(self, stem: str, end: int, role: str = USER) -> dict[int, int]:
        """Return how often a stem stands in each message of a role before `end`, in their order."""
        return {i: count for i, count in self._postings[role].get(stem, {}).items() if i < end}

    def idf(self, stem: str, end: int) -> float:
        """Return log(1 + (N − n + 0.5) / (n + 0.5)), where n of the user's N messages before `end` have the stem.

        The weight of Robertson and Spärck Jones, kept above 0 (Robertson and Zaragoza 2009, section 3.1).
        """
        total, having = bisect_left(self._users, end), len(self.counts(stem, end))
        return math.log(1 + (total - having + 0.5) / (having + 0.5))

    def overlap(self, stems: Sequence[str], end: int, role: str = USER) -> dict[int, float]:
        """Return for each message of a role before `end` the summed `idf` of the stems that it has, if it has any."""
        found: defaultdict[int, float] = defaultdict(float)
        for one in stems:
            weight = self.idf(one, end)
            for i in self.counts(one, end, role):
                found[i] += weight
        return found

    def shares(self, stems: Sequence[str], end: int, role: str = USER) -> dict[int, float]:
        """Return the same as a share of the summed `idf` of all the stems."""
        total = math.fsum(self.idf(one, end) for one in stems)
        return {i: round(value / total, _DIGITS) for i, value in self.overlap(stems, end, role).items()}

    def bm25(self, stems: Sequence[str], end: int) -> dict[int, float]:
        """Return the same for BM25: idf · f (k1 + 1) / (f + k1 (1 − b + b · length / mean length)).

        Robertson and Zaragoza 2009, equation 3.15, with k1 = 1.2 and b = 0.75; lengths are in words.
        """
        total = bisect_left(self._users, end)
        mean = max(1.0, self._words_before[total] / max(1, total))
        found: defaultdict[int, float] = defaultdict(float)
        for one in stems:
            weight = self.idf(one, end)
            for i, count in self.counts(one, end).items():
                norm = _K1 * (1 - _B + _B * self._lengths[i] / mean)
                found[i] += weight * count * (_K1 + 1) / (count + norm)
        return found


def best(values: Mapping[int, float]) -> float:
    """Return the highest value, rounded; 0 where there is none."""
    return round(max(values.values(), default=0.0), _DIGITS)
