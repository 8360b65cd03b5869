"""Token sequences that share parts, compared and sorted without being put together."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Tokens = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False, slots=True)
class TokenPath:
    """A token sequence made of arrays of token ids, which other sequences may share as objects."""

    parts: tuple[Tokens, ...]
    length: int

    @classmethod
    def of(cls, parts: Sequence[Tokens]) -> TokenPath:
        """Make a path of parts; empty ones are left out."""
        kept = tuple(part for part in parts if len(part))
        return cls(kept, sum(map(len, kept)))

    def then(self, tokens: Tokens) -> TokenPath:
        """Return the path that goes on with some more tokens."""
        return TokenPath((*self.parts, tokens), self.length + len(tokens)) if len(tokens) else self

    def without_last(self) -> TokenPath:
        """Return the path without its last token."""
        *parts, last = self.parts
        return TokenPath.of([*parts, last[:-1]])

    def slice(self, start: int, stop: int) -> Tokens:
        """Return the tokens from `start` up to `stop`."""
        pieces: list[Tokens] = []
        end = self.length
        for part in reversed(self.parts):  # what is asked for is mostly at the end
            if end <= start:
                break
            begin = end - len(part)
            if begin < stop:
                pieces.append(part[max(0, start - begin) : stop - begin])
            end = begin
        return np.concatenate(pieces[::-1]) if pieces else np.empty(0, np.int32)


def common_prefix(a: TokenPath, b: TokenPath) -> int:
    """Return the number of tokens that two paths share at their start."""
    # Mostly the same objects in the same places.
    pairs = zip(a.parts, b.parts, strict=False)
    i = j = next((n for n, (x, y) in enumerate(pairs) if x is not y), min(len(a.parts), len(b.parts)))
    shared = sum(map(len, a.parts[:i]))
    at_i = at_j = 0  # positions in them
    while i < len(a.parts) and j < len(b.parts):
        x, y = a.parts[i], b.parts[j]
        n = min(len(x) - at_i, len(y) - at_j)
        differ = np.flatnonzero(x[at_i : at_i + n] != y[at_j : at_j + n])
        if len(differ):
            return shared + int(differ[0])
        shared += n
        at_i, at_j = at_i + n, at_j + n
        if at_i == len(x):
            i, at_i = i + 1, 0
        if at_j == len(y):
            j, at_j = j + 1, 0
    return shared


def sorted_order(paths: Sequence[TokenPath]) -> list[int]:
    """Return the indices of paths in the order of their tokens, a path before those that go on from it."""
    by_tokens = functools.cmp_to_key(_compare)
    return sorted(range(len(paths)), key=lambda index: by_tokens(paths[index]))


def _compare(a: TokenPath, b: TokenPath) -> int:
    shared = common_prefix(a, b)
    if shared in (a.length, b.length):
        return a.length - b.length
    return int(a.slice(shared, shared + 1)[0]) - int(b.slice(shared, shared + 1)[0])
