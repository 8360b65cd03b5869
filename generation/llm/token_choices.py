"""The log-probabilities that a chat endpoint gives of the tokens of its reply."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple


class TokenChoice(NamedTuple):
    """A token of a reply: what was written, and the likeliest tokens there with their log-probabilities."""

    written: str
    top: Sequence[tuple[str, float]]


def read_choices(logprobs: Any) -> list[TokenChoice] | None:
    """Read the `logprobs` of a choice in OpenAI's form; None where it has no alternatives that can be read."""
    try:
        tokens = logprobs["content"]
        found = [TokenChoice(_text(token["token"]), [_pair(one) for one in token["top_logprobs"]]) for token in tokens]
    except (ValueError, TypeError, LookupError):
        return None
    return found if found and all(choice.top for choice in found) else None


def _pair(entry: Any) -> tuple[str, float]:
    logprob = float(entry["logprob"])
    if math.isnan(logprob) or logprob > 1e-6:
        raise ValueError(f"{logprob} is no log-probability")
    return _text(entry["token"]), min(logprob, 0.0)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value
