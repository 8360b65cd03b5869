"""One chat request, with what its reply took: seconds, and the tokens that the endpoint counted."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Mapping
from typing import Any, Final

from generation.http import Address, HttpError, Redirected, Unreachable, body_as_json, post
from generation.llm.replies import ChatReply, RequestFailure, error_body, read_reply
from personamem_builder.usage import AnswerUsage

_MOST_TOKENS: Final = 10_000_000


def send_measured(
    address: Address,
    body: Mapping[str, object],
    headers: Mapping[str, str],
    timeout: float,
    context: ssl.SSLContext | None,
    clock: Callable[[], float],
) -> tuple[ChatReply | RequestFailure, AnswerUsage]:
    """Send one chat request, once; its headers hold the key. A failure takes nothing that is known."""
    data = json.dumps(body).encode()
    started = clock()
    try:
        response = post(address, data, headers, timeout, context=context)
    except HttpError as error:
        return RequestFailure(0, str(error), unreachable=isinstance(error, Unreachable | Redirected)), AnswerUsage()
    seconds = clock() - started
    if response.status != 200:
        return RequestFailure(response.status, error_body(response.content), response.headers), AnswerUsage()
    reply = read_reply(response.content)
    if isinstance(reply, RequestFailure):
        return reply, AnswerUsage()
    return reply, _usage(reply, round(seconds, 6), response.content)


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
