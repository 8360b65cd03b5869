"""A run of planned passes: the cache is taken along a tree of requests, and outputs are handed on as they come."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import torch

from personamem_builder.evaluation.live_cache import LiveCache, Positions, readable_memory_errors
from personamem_builder.evaluation.passes import Limits, Pack, Trunk, plan_passes
from personamem_builder.evaluation.token_paths import TokenPath, common_prefix
from personamem_builder.evaluation.token_tree import Ask, Segment
from personamem_builder.evaluation.tree_mask import lay_out

_log = logging.getLogger("lm_eval.personamem")

Placed = tuple[Ask, int]
"""What is asked, and the row of its first position among the tokens of a pass."""


class Answers(Protocol):
    """What becomes of the outputs."""

    def take(self, placed: Sequence[Placed], rows: Positions, logits: torch.Tensor) -> None:
        """Take the logits, (rows, vocabulary), of the rows wanted by what is asked."""

    def generate(self, cache: LiveCache, pack: Pack) -> bool:
        """Generate after the prompts that end in a pack, and say whether that can be done for all together."""


class Walk:
    """Runs passes with one cache.

    Args:
        cache: The cache, at any place.
        limits: What a packed pass may hold. Out of memory halves it, once.
        chunk: Most tokens of one pass.
        progress: Is told the number of tokens computed.
    """

    def __init__(self, cache: LiveCache, limits: Limits, chunk: int, progress: Callable[[int], Any]) -> None:
        self.limits = limits
        self._cache = cache
        self._chunk = chunk
        self._progress = progress
        self._held = TokenPath.of([])
        self._halved = False

    def run(self, root: Segment, answers: Answers) -> None:
        """Answer all requests of a tree."""
        for step in plan_passes(root.path, 0, root.children, self.limits):
            with readable_memory_errors(self._cache, step.end, self._chunk):
                self._run(step, self.limits, answers)

    def _run(self, step: Trunk | Pack, limits: Limits, answers: Answers) -> None:
        if isinstance(step, Trunk):
            self._go(step.path, step.start)
            self._extend(step.path, step.end, step.asks, answers)
            if step.keep:
                self._cache.snapshot()
            return
        if limits.hold(step.branches):
            full = False
            try:
                if self._pack(step, answers):
                    return
            except torch.OutOfMemoryError:
                if self._halved or limits.pack == 1:
                    raise
                full = True
            limits = self._halve() if full else Limits(1, forgets=limits.forgets)
        self._cache.snapshot()
        for part in plan_passes(step.path, step.end, step.branches, limits):
            self._run(part, limits, answers)

    def _halve(self) -> Limits:
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        self._halved, self.limits = True, self.limits.halved()
        _log.warning("hf-prefix: out of memory: goes on with at most %d tokens in a pack", self.limits.pack)
        return self.limits

    def _go(self, path: TokenPath, position: int) -> None:
        """Take the cache to the first `position` tokens of a path, from where it is."""
        shared = min(position, self._cache.length, common_prefix(self._held, path))
        self._cache.rewind(shared)
        self._held = path
        if shared < position:  # what was here gave way to parts of a pack
            self._extend(path, position)

    def _extend(self, path: TokenPath, end: int, asks: Sequence[Ask] = (), answers: Answers | None = None) -> None:
        while self._cache.length < end:
            begin = self._cache.length
            stop = min(end, begin + self._chunk)
            cut = [Ask(ask.request, max(ask.first, begin), min(ask.stop, stop)) for ask in asks]
            placed = [(ask, ask.first - begin) for ask in cut if ask.first < ask.stop]
            rows = _rows(placed, stop - begin)
            logits = self._cache.extend(path.slice(begin, stop), rows)
            self._progress(stop - begin)
            if placed and answers is not None:
                answers.take(placed, rows, logits)

    def _pack(self, step: Pack, answers: Answers) -> bool:
        self._go(step.path, step.end)
        if any(branch.answers for branch in step.branches):
            done = answers.generate(self._cache, step)
            if done:
                self._progress(step.size)
            return done
        layout = lay_out(step.branches)
        placed = [
            (ask, begin + ask.first - segment.start) for segment, begin in layout.rows.items() for ask in segment.asks
        ]
        rows = _rows(placed, len(layout.tokens))
        with self._cache.branching() as branching:
            sees = torch.as_tensor(layout.sees)
            logits = branching.run(layout.tokens, layout.positions, layout.hang, sees, rows)
        self._progress(step.size)
        answers.take(placed, rows, logits)
        return True


def _rows(placed: Sequence[Placed], size: int) -> Positions:
    """Return the rows, of so many, that are wanted."""
    wanted = np.zeros(size, np.bool_)
    for ask, begin in placed:
        wanted[begin : begin + ask.stop - ask.first] = True
    return np.flatnonzero(wanted)
