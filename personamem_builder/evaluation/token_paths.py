"""Token sequences that share prefixes, and the order in which one cache can serve them all.

A set of sequences is a trie. Walked depth first, each distinct prefix is computed once: the cache goes back to the
longest prefix that the next sequence shares with the last one, and on from there.
"""

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
    shared = 0
    i = j = 0  # parts
    at_i = at_j = 0  # positions in them
    while i < len(a.parts) and j < len(b.parts):
        x, y = a.parts[i], b.parts[j]
        if at_i == at_j == 0 and x is y:
            shared += len(x)
            i, j = i + 1, j + 1
            continue
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


@dataclass(frozen=True, slots=True)
class Request:
    """Tokens to run through a model, of which the first `reuse` come before the first whose output is wanted."""

    path: TokenPath
    reuse: int


@dataclass(frozen=True, slots=True)
class Step:
    """One request of a walk.

    Attributes:
        index: Which of the requests.
        start: Tokens that are in the cache already; the rest is to be computed.
        known: Outputs wanted that need not be computed: what is asked of them, how likely the next token is, was
            answered in the step before, which went on with the same tokens.
        snapshots: Positions after `start` to which a later step will go back, in rising order.
    """

    index: int
    start: int
    known: int
    snapshots: tuple[int, ...]


def plan_walk(requests: Sequence[Request]) -> list[Step]:
    """Order requests, repeats allowed, so that each distinct prefix is computed once.

    Returns:
        A step for each request. The cache is to be left, after a step, with the whole path of its request.
    """
    by_tokens = functools.cmp_to_key(_compare)
    # Of equal paths the one that needs most outputs comes first: the others find them there.
    order = sorted(range(len(requests)), key=lambda index: (by_tokens(requests[index].path), requests[index].reuse))
    starts: list[int] = []
    for position, index in enumerate(order):
        request, last = requests[index], requests[order[position - 1]]
        shared = common_prefix(last.path, request.path) if position else 0
        if last.reuse <= request.reuse < shared:
            # Only the last shared token needs to be run again: what follows it may differ.
            starts.append(shared - 1)
        else:
            starts.append(min(shared, request.reuse))
    snapshots: list[list[int]] = [[] for _ in order]
    segments: list[tuple[int, int]] = []  # of the current path: where each starts, and the step that computed it
    for position, start in enumerate(starts):
        while segments and segments[-1][0] >= start:
            segments.pop()
        if segments and start not in snapshots[segments[-1][1]]:
            snapshots[segments[-1][1]].append(start)
        segments.append((start, position))
    return [
        Step(index, start, max(0, start - requests[index].reuse), tuple(sorted(wanted)))
        for index, start, wanted in zip(order, starts, snapshots, strict=True)
    ]


def tokens_to_forward(requests: Sequence[Request], steps: Sequence[Step]) -> int:
    """Return the tokens that a walk computes."""
    return sum(requests[step.index].path.length - step.start for step in steps)


def distinct_prefixes(requests: Sequence[Request], steps: Sequence[Step]) -> int:
    """Return the number of distinct token prefixes of the requests: no scorer can compute fewer tokens."""
    total = 0
    last: TokenPath | None = None
    for step in steps:
        path = requests[step.index].path
        total += path.length - (common_prefix(last, path) if last is not None else 0)
        last = path
    return total


@dataclass
class Cost:
    """What a run takes.

    Attributes:
        requests: Number of requests.
        groups: Number of groups of requests that share a history.
        forward: Tokens to run through the model.
        distinct: Distinct token prefixes: no way of scoring runs fewer tokens.
        alone: Tokens that requests would take one by one.
        longest: Tokens of the longest request.
    """

    requests: int = 0
    groups: int = 0
    forward: int = 0
    distinct: int = 0
    alone: int = 0
    longest: int = 0

    def add(self, steps: Sequence[Step], requests: Sequence[Request]) -> None:
        """Add a group."""
        self.requests += len(requests)
        self.groups += 1
        self.forward += tokens_to_forward(requests, steps)
        self.distinct += distinct_prefixes(requests, steps)
        lengths = [request.path.length for request in requests]
        self.alone += sum(lengths)
        self.longest = max([self.longest, *lengths])

    def __str__(self) -> str:
        return (
            f"{self.requests:,} requests in {self.groups:,} groups; {self.forward:,} tokens to compute, "
            f"{self.forward / max(1, self.distinct):.3f} times the lower bound of {self.distinct:,}, instead of "
            f"{self.alone:,} one by one; longest {self.longest:,}"
        )


def _compare(a: TokenPath, b: TokenPath) -> int:
    shared = common_prefix(a, b)
    if shared in (a.length, b.length):
        return a.length - b.length
    return int(a.slice(shared, shared + 1)[0]) - int(b.slice(shared, shared + 1)[0])
