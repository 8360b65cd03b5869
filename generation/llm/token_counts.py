"""How many tokens a chat endpoint says that a call took."""

from __future__ import annotations

from typing import Final, NamedTuple

_MOST_TOKENS: Final = 10_000_000


class TokenCounts(NamedTuple):
    """Tokens of a call, as the endpoint counts them; None where a count is missing or no count.

    Attributes:
        prompt: With those that were read from a cache.
        cached: Those of the prompt that were read from a cache.
    """

    prompt: int | None = None
    reply: int | None = None
    cached: int | None = None


def read_counts(usage: object) -> TokenCounts:
    """Read the `usage` of a reply, in the form of OpenAI, of Anthropic, or of DeepSeek."""
    if not isinstance(usage, dict):
        return TokenCounts()
    reply = _count(usage.get("completion_tokens", usage.get("output_tokens"))) or None
    if "prompt_tokens" in usage or "input_tokens" not in usage:
        details = usage.get("prompt_tokens_details")
        cached = _count(details.get("cached_tokens")) if isinstance(details, dict) else None
        if cached is None:
            cached = _count(usage.get("prompt_cache_hit_tokens"))  # DeepSeek
        return TokenCounts(_count(usage.get("prompt_tokens")) or None, reply, cached)
    # Anthropic counts what it read from its cache, or wrote there, apart.
    read, written = (_count(usage.get(f"cache_{what}_input_tokens")) for what in ("read", "creation"))
    prompt = (_count(usage["input_tokens"]) or 0) + (read or 0) + (written or 0)
    return TokenCounts(prompt or None, reply, read)


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS else None
