"""Attention masks of tokens that hang below one cache as a tree."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from transformers.masking_utils import AttentionMaskInterface, eager_mask

from personamem_builder.evaluation.token_paths import Tokens
from personamem_builder.evaluation.token_tree import Segment


@dataclass(frozen=True, slots=True)
class Layout:
    """The tokens of packed branches in one row, those of a segment after those of its parent.

    Attributes:
        tokens: Their ids.
        positions: Their positions in their sequences.
        hang: How many tokens of the cache each may see: those before its branch.
        sees: Which of the tokens (second axis) each (first axis) may see: itself and those before it in its branch.
        rows: Where the first token of each segment stands.
    """

    tokens: Tokens
    positions: npt.NDArray[np.int64]
    hang: npt.NDArray[np.int64]
    sees: npt.NDArray[np.bool_]
    rows: dict[Segment, int]


def lay_out(branches: Sequence[Segment]) -> Layout:
    """Return the tokens of some branches."""
    size = sum(branch.size for branch in branches)
    tokens, positions, hang = np.empty(size, np.int32), np.empty(size, np.int64), np.empty(size, np.int64)
    sees = np.zeros((size, size), np.bool_)
    rows: dict[Segment, int] = {}
    begin = 0
    for branch in branches:
        for segment in branch.walk():
            end = begin + segment.end - segment.start
            own = slice(begin, end)
            rows[segment] = begin
            tokens[own] = segment.path.slice(segment.start, segment.end)
            positions[own] = np.arange(segment.start, segment.end)
            hang[own] = branch.start
            if segment is not branch:
                parent = segment.parent
                assert parent is not None
                sees[own] = sees[rows[parent] + parent.end - parent.start - 1]
            sees[own, own] = np.tri(end - begin, dtype=np.bool_)
            begin = end
    return Layout(tokens, positions, hang, sees, rows)


@dataclass(frozen=True, slots=True)
class TreeMask:
    """Who sees whom in one pass over a cache of `cached` tokens and the tokens run after it.

    Attributes:
        cached: Tokens of the cache; layers with a window may hold only the last of them.
        positions: Of the new tokens, (queries,).
        hang: How many of the cached tokens each may see, (queries,).
        sees: Which of the tokens after the cached ones each may see, (queries, tokens after).
        after: Positions of the tokens after the cached ones.
    """

    cached: int
    positions: torch.Tensor
    hang: torch.Tensor
    sees: torch.Tensor
    after: torch.Tensor

    def make(self, keys: int, window: int | None, dtype: torch.dtype) -> torch.Tensor:
        """Return what to add to the attention logits, (1, 1, queries, keys): 0 or the least number."""
        held = keys - len(self.after)
        before = torch.arange(self.cached - held, self.cached, device=self.positions.device)
        visible = torch.cat([before < self.hang[:, None], self.sees], dim=1)
        if window is not None:
            visible &= self.positions[:, None] - torch.cat([before, self.after]) < window
        mask = torch.zeros(visible.shape, dtype=dtype, device=visible.device)
        return mask.masked_fill_(~visible, torch.finfo(dtype).min)[None, None]


_current: ContextVar[TreeMask | None] = ContextVar("tree_mask", default=None)


@contextlib.contextmanager
def using(mask: TreeMask) -> Iterator[None]:
    """Have models attend by a mask."""
    token = _current.set(mask)
    try:
        yield
    finally:
        _current.reset(token)


def is_used() -> bool:
    """Say whether a model is attending by a tree's mask."""
    return _current.get() is not None


def or_tree(make_mask: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that makes masks as another one of transformers, or by the tree in use."""

    @functools.wraps(make_mask)
    def make(*args: Any, **kwargs: Any) -> Any:
        tree = _current.get()
        if tree is None:
            return make_mask(*args, **kwargs)
        return tree.make(kwargs["kv_length"], kwargs.get("local_size"), kwargs.get("dtype", torch.float32))

    return make


AttentionMaskInterface.register("eager", or_tree(eager_mask))
