"""The forward passes that answer a tree of token sequences from one cache.

The cache walks down the tree, along its large branches; small ones are packed, as many as fit, into passes of their own
that leave the cache as it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from personamem_builder.evaluation.token_paths import TokenPath
from personamem_builder.evaluation.token_tree import Ask, Segment

_IDLE_SHARE: Final = 1 / 8
"""Of the cache, which a branch may leave unread on average to share a pass with one that needs a longer one."""
_IDLE_TOKENS: Final = 256
"""Tokens of the cache that a branch may leave unread at any length."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a pass of packed branches may hold.

    Attributes:
        pack: Tokens; 1 packs nothing.
        answers: Answers generated together.
        room: Tokens that these answers may add to the cache.
        forgets: Whether the cache can go back only to where it was told to, so that what is packed must hang at its
            end.
    """

    pack: int
    answers: int = 1
    room: int = 0
    forgets: bool = False

    def halved(self) -> Limits:
        """Return limits of half the size."""
        return Limits(max(1, self.pack // 2), max(1, self.answers // 2), self.room // 2, self.forgets)

    def hold(self, branches: Sequence[Segment]) -> bool:
        """Say whether branches fit into one pass."""
        answers = sum(branch.answers for branch in branches)
        if answers == sum(branch.size for branch in branches) == 1:
            return True  # a prompt's end, however long its answer
        if self.pack == 1 or sum(branch.size for branch in branches) > self.pack:
            return False
        return not answers or (answers <= self.answers and sum(branch.room for branch in branches) <= self.room)


@dataclass(frozen=True, slots=True)
class Trunk:
    """Take the cache along `path` from `start` to `end`; `keep` means that a later pass comes back to this end."""

    path: TokenPath
    start: int
    end: int
    asks: tuple[Ask, ...]
    keep: bool


@dataclass(frozen=True, slots=True)
class Pack:
    """Run `branches`, which hang at or before the first `end` tokens of `path`, and leave the cache there."""

    path: TokenPath
    end: int
    branches: tuple[Segment, ...]

    @property
    def size(self) -> int:
        """Tokens to compute."""
        return sum(branch.size for branch in self.branches)

    @property
    def room(self) -> int:
        """Tokens that answers may add."""
        return sum(branch.room for branch in self.branches)


@dataclass(slots=True)
class _Pending:
    """Branches that wait to be packed, and where the cache is."""

    limits: Limits
    path: TokenPath
    end: int
    branches: list[Segment] = field(default_factory=list)

    def flush(self) -> Iterator[Pack]:
        if self.branches:
            yield Pack(self.path, self.end, tuple(self.branches))
            self.branches = []

    def idle_at(self, end: int) -> bool:
        """Say whether too much of a cache of this length would be read for nothing."""
        idle = sum(branch.size * (end - branch.start) for branch in self.branches)
        return idle > sum(branch.size for branch in self.branches) * max(end * _IDLE_SHARE, _IDLE_TOKENS)


def plan_passes(path: TokenPath, end: int, branches: Sequence[Segment], limits: Limits) -> Iterator[Trunk | Pack]:
    """Yield what to run for the branches below a cache that holds the first `end` tokens of `path`.

    Every token is computed once. At the end the cache is anywhere.
    """
    held: Trunk | None = None
    for step in _steps(path, end, branches, limits):
        if isinstance(step, Trunk) and held is not None and held.end == step.start and not held.keep:
            held = Trunk(step.path, held.start, step.end, held.asks + step.asks, step.keep)
            continue
        if held is not None:
            yield held
        held = step if isinstance(step, Trunk) else None
        if isinstance(step, Pack):
            yield step
    if held is not None:
        yield held


def _steps(path: TokenPath, end: int, branches: Sequence[Segment], limits: Limits) -> Iterator[Trunk | Pack]:
    pending = _Pending(limits, path, end)
    trunks: list[tuple[Segment, bool]] = []  # those still to walk; whether each goes on from where the cache is
    while True:
        large: list[Segment] = []
        for branch in branches:
            if not limits.hold([branch]):
                large.append(branch)
                continue
            if not limits.hold([*pending.branches, branch]):
                yield from pending.flush()
            pending.branches.append(branch)
        trunks.extend((branch, branch is large[0] and branch.start == pending.end) for branch in reversed(large))
        if not trunks:
            break
        trunk, goes_on = trunks.pop()
        if limits.forgets or not goes_on or pending.idle_at(trunk.end):
            yield from pending.flush()
        several = sum(not limits.hold([child]) for child in trunk.children) > 1
        yield Trunk(trunk.path, trunk.start, trunk.end, tuple(trunk.asks), limits.forgets and several)
        pending.path, pending.end, branches = trunk.path, trunk.end, trunk.children
    yield from pending.flush()


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
        passes: Forward passes, without those of generated tokens.
        reserve: Most tokens that the cache has to hold.
    """

    requests: int = 0
    groups: int = 0
    forward: int = 0
    distinct: int = 0
    alone: int = 0
    longest: int = 0
    passes: int = 0
    reserve: int = 0

    def add(self, root: Segment, lengths: Sequence[int], groups: int, limits: Limits, chunk: int) -> None:
        """Add a tree.

        Args:
            root: Its root.
            lengths: Tokens of each request.
            groups: How many groups of requests it holds.
            limits: What a packed pass may hold.
            chunk: Most tokens of any pass.
        """
        self.requests += len(lengths)
        self.groups += groups
        self.alone += sum(lengths)
        self.longest = max([self.longest, *lengths])
        self.distinct += root.size
        for step in plan_passes(root.path, 0, root.children, limits):
            if isinstance(step, Pack):
                self.forward += step.size
                self.passes += 1
                self.reserve = max(self.reserve, step.end + step.size + step.room)
            else:
                self.forward += step.end - step.start
                self.passes += -(-(step.end - step.start) // chunk)
                self.reserve = max(self.reserve, step.end)

    def __str__(self) -> str:
        return (
            f"{self.requests:,} requests in {self.groups:,} groups; {self.forward:,} tokens to compute in "
            f"{self.passes:,} passes, {self.forward / max(1, self.distinct):.3f} times the lower bound of "
            f"{self.distinct:,}, instead of {self.alone:,} one by one; longest {self.longest:,}"
        )
