"""One chat request, with what its reply took: seconds, and the tokens that the endpoint counted."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from generation.http import Address, HttpError, Redirected, Unreachable, body_as_json, post
from generation.llm.replies import ChatReply, RequestFailure, error_body, read_reply
from personamem_builder.evaluation.letters import TokenChoice, read_choices
from personamem_builder.usage import AnswerUsage

_MOST_TOKENS: Final = 10_000_000


class Measured(NamedTuple):
    """What came of a request: of a failure nothing more is known.

    Attributes:
        tokens: Of a reply whose log-probabilities were asked for, where the endpoint gave them.
    """

    result: ChatReply | RequestFailure
    usage: AnswerUsage = AnswerUsage()
    tokens: Sequence[TokenChoice] | None = None


def send_measured(
    address: Address,
    body: Mapping[str, object],
    headers: Mapping[str, str],
    timeout: float,
    context: ssl.SSLContext | None,
    clock: Callable[[], float],
) -> Measured:
    """Send one chat request, once; its headers hold the key."""
    data = json.dumps(body).encode()
    started = clock()
    try:
        response = post(address, data, headers, timeout, context=context)
    except HttpError as error:
        return Measured(RequestFailure(0, str(error), unreachable=isinstance(error, Unreachable | Redirected)))
    seconds = clock() - started
    if response.status != 200:
        return Measured(RequestFailure(response.status, error_body(response.content), response.headers))
    reply = read_reply(response.content)
    if isinstance(reply, RequestFailure):
        return Measured(reply)
    tokens = read_choices(response.content) if body.get("logprobs") else None
    return Measured(reply, _usage(reply, round(seconds, 6), response.content), tokens)


def _usage(reply: ChatReply, seconds: float, content: bytes) -> AnswerUsage:
    told = _told(content)
    if (
        "input_tokens" in told and "prompt_tokens" not in told
    ):  # Anthropic counts what it read from its cache, or wrote there, apart
        read, written = (_count(told.get(f"cache_{what}_input_tokens")) for what in ("read", "creation"))
        prompt = (_count(told["input_tokens"]) or 0) + (read or 0) + (written or 0)
        return AnswerUsage(seconds, prompt or None, reply.reply_tokens, read)
    details = told.get("prompt_tokens_details")
    cached = _count(details.get("cached_tokens")) if isinstance(details, dict) else None
    if cached is None:
        cached = _count(told.get("prompt_cache_hit_tokens"))  # DeepSeek
    return AnswerUsage(seconds, reply.prompt_tokens, reply.reply_tokens, cached)


def _told(content: bytes) -> dict[str, Any]:
    """Return the `usage` of a whole reply; empty for a stream of events, in which cached tokens stay unknown."""
    try:
        body = body_as_json(content.decode("utf-8-sig", errors="replace"))
    except ValueError:
        return {}
    usage = body.get("usage") if isinstance(body, dict) else None
    return usage if isinstance(usage, dict) else {}


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS else None
