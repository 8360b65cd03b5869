"""What answers took: seconds and tokens, of one answer and of a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class AnswerUsage(NamedTuple):
    """What one answer took; None where that is not known.

    Attributes:
        seconds: From sending the request that brought the answer to the last byte of it. Waits for rate limits, and
            tries that failed before, are not in it.
        prompt_tokens: As the endpoint counted them, with those that it had cached.
        reply_tokens: As the endpoint counted them.
        cached_tokens: Those of the prompt that the endpoint read from a cache.
    """

    seconds: float | None = None
    prompt_tokens: int | None = None
    reply_tokens: int | None = None
    cached_tokens: int | None = None


class Seconds(NamedTuple):
    """Seconds of `n` answers; `p95` is the 95th percentile, between two answers interpolated linearly."""

    median: float
    p95: float
    n: int


class Tokens(NamedTuple):
    """Mean number of tokens of `n` answers."""

    mean: float
    n: int


class UsageSummary(NamedTuple):
    """What the answers of a run took, each over those of which it is known; None where it is known of none."""

    seconds: Seconds | None
    prompt_tokens: Tokens | None
    reply_tokens: Tokens | None
    cached_tokens: Tokens | None

    def to_json(self) -> dict[str, dict[str, float] | None]:
        """Return it as JSON has it: `{"seconds": {"median", "p95", "n"}, "prompt_tokens": {"mean", "n"}, …}`."""
        return {name: value and value._asdict() for name, value in self._asdict().items()}


def summarise_usage(usages: Iterable[AnswerUsage]) -> UsageSummary | None:
    """Return what answers took; None where nothing is known of any."""
    answers = list(usages)
    summary = UsageSummary(
        _seconds([one.seconds for one in answers if one.seconds is not None]),
        _tokens([one.prompt_tokens for one in answers if one.prompt_tokens is not None]),
        _tokens([one.reply_tokens for one in answers if one.reply_tokens is not None]),
        _tokens([one.cached_tokens for one in answers if one.cached_tokens is not None]),
    )
    return summary if any(summary) else None


def _seconds(values: Sequence[float]) -> Seconds | None:
    import numpy as np

    if not values:
        return None
    median, p95 = np.percentile(values, (50, 95)).tolist()
    return Seconds(median, p95, len(values))


def _tokens(counts: Sequence[int]) -> Tokens | None:
    return Tokens(sum(counts) / len(counts), len(counts)) if counts else None
