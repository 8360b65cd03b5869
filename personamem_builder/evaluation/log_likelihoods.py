"""Log-probabilities of the tokens asked for, gathered from the logits of many passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import torch

from personamem_builder.evaluation.live_cache import LiveCache, Positions
from personamem_builder.evaluation.passes import Pack
from personamem_builder.evaluation.responses import LogLikelihood
from personamem_builder.evaluation.token_paths import Tokens
from personamem_builder.evaluation.walk import Placed

_LOGIT_ROWS: Final = 256
"""Positions whose logits are turned into float32 at a time."""


class LogLikelihoods:
    """The outputs of requests for log-likelihoods.

    Args:
        firsts: For each request, the position of its first output.
        targets: For each request, the tokens whose log-probabilities are wanted.
        done: Is given the index of a request and its result once all of it is there.
    """

    def __init__(
        self, firsts: Sequence[int], targets: Sequence[Tokens], done: Callable[[int, LogLikelihood], Any]
    ) -> None:
        self._firsts = firsts
        self._targets = targets
        self._done = done
        self._logprobs = [np.empty(len(tokens)) for tokens in targets]
        self._greedy = [np.empty(len(tokens), np.bool_) for tokens in targets]
        self._missing = [len(tokens) for tokens in targets]

    def take(self, placed: Sequence[Placed], rows: Positions, logits: torch.Tensor) -> None:
        """Take the logits of some rows."""
        targets = [
            self._targets[ask.request][ask.first - self._firsts[ask.request] : ask.stop - self._firsts[ask.request]]
            for ask, _ in placed
        ]
        at = [
            np.searchsorted(rows, begin) + np.arange(len(own)) for (_, begin), own in zip(placed, targets, strict=True)
        ]
        logprobs, greedy = _gather(logits, np.concatenate(at), np.concatenate(targets))
        begin = 0
        for (ask, _), own in zip(placed, targets, strict=True):
            place = slice(ask.first - self._firsts[ask.request], ask.stop - self._firsts[ask.request])
            self._logprobs[ask.request][place] = logprobs[begin : begin + len(own)]
            self._greedy[ask.request][place] = greedy[begin : begin + len(own)]
            self._missing[ask.request] -= len(own)
            begin += len(own)
            if not self._missing[ask.request]:
                result = LogLikelihood(self._logprobs[ask.request].tolist(), bool(self._greedy[ask.request].all()))
                self._done(ask.request, result)

    def generate(self, cache: LiveCache, pack: Pack) -> bool:
        """Never asked for."""
        raise NotImplementedError


def _gather(logits: torch.Tensor, at: Positions, targets: Tokens) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return the log-probability of each target in its row of the logits, and whether it is the likeliest token."""
    logprobs, greedy = np.empty(len(at)), np.empty(len(at), np.bool_)
    for begin in range(0, len(logits), _LOGIT_ROWS):
        table = logits[begin : begin + _LOGIT_ROWS].float().log_softmax(-1)
        own = np.flatnonzero((at >= begin) & (at < begin + _LOGIT_ROWS))
        rows = torch.as_tensor(at[own] - begin, device=table.device)
        tokens = torch.as_tensor(targets[own], dtype=torch.long, device=table.device)
        logprobs[own] = table[rows, tokens].cpu().numpy()
        greedy[own] = (table.argmax(-1)[rows] == tokens).cpu().numpy()
    return logprobs, greedy
