"""What comes back from an endpoint: an answer, or why there is none."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final, NamedTuple

from pydantic import BaseModel, ValidationError

from generation.llm.client import Call, Completion, prompt_tokens
from generation.llm.reply_text import is_refusal, json_text
from generation.tokenizer import num_tokens

QUOTED: Final = 300
"""Characters of what an endpoint said that are shown."""

_NOT_THERE: Final = {
    ConnectionRefusedError: "the connection is refused",
    socket.gaierror: "there is no such host",
    ssl.SSLCertVerificationError: "its certificate is not valid",
}

# The reasons that other servers give for what OpenAI calls `stop`, `length` and `content_filter`.
_REASONS: Final = {
    "eos": "stop",
    "eos_token": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "content_filter": "refusal",
}


class _Message(BaseModel):
    content: Any = None
    refusal: str | None = None


class _Choice(BaseModel):
    message: _Message | None = None
    finish_reason: str | None = None


class _Usage(BaseModel):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class Answer(BaseModel):
    """An answer of a chat endpoint, as far as it is looked at."""

    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: Any = None  # some gateways report a failure with status 200


class Failure(NamedTuple):
    """Why there is no answer.

    Attributes:
        status: Of HTTP; 0 where none came.
        body: What the endpoint said, as data; or the name of what happened to the connection.
        headers: Of the answer.
        unreachable: Whether there is no such server, or none that can be trusted.
    """

    status: int
    body: object
    headers: Mapping[str, str] = {}
    unreachable: bool = False


def read_answer(body: bytes) -> Answer | Failure:
    """Return what a body of status 200 says."""
    try:
        answer = Answer.model_validate_json(body)
    except ValidationError:
        said = body[: 2 * QUOTED].decode(errors="replace")
        return Failure(502, f"not an answer of a chat endpoint: {said}", unreachable=True)
    if answer.choices:
        return answer
    code = answer.error.get("code") if isinstance(answer.error, dict) else None
    return Failure(code if isinstance(code, int) and code >= 400 else 502, answer.error or "an answer without any")


def completion_of(answer: Answer, call: Call) -> Completion:
    """Return what a model sent back.

    Args:
        answer: One with choices.
        call: What was asked; its tokens are counted here where the endpoint does not say how many they were.
    """
    choice = answer.choices[0]
    message = choice.message or _Message()
    text = message.content if isinstance(message.content, str) else ""
    usage = answer.usage or _Usage()
    stripped = json_text(text)
    reason = (choice.finish_reason or "unknown").lower()
    reason = _REASONS.get(reason, reason)
    if reason == "stop":
        if message.refusal or is_refusal(text):
            reason = "refusal"
        elif not stripped.strip():
            reason = "empty"
    return Completion(
        stripped,
        reason,
        usage.prompt_tokens or prompt_tokens(call.messages),
        usage.completion_tokens or num_tokens(text),
    )


def is_transport(error: Exception, openai: Any) -> bool:
    """Say whether a connection failed, and not the code.

    Args:
        error: What was raised.
        openai: The package that made the request.
    """
    # What happens while an answer is read is not wrapped, and the package below differs between versions of openai.
    return isinstance(error, openai.APIConnectionError) or type(error).__module__.startswith(("httpx", "httpcore"))


def lost(error: Exception) -> Failure:
    """Return what happened to a connection, by kind: the words of such errors may hold anything that was sent."""
    causes = _chain(error)
    for kind, words in _NOT_THERE.items():
        if any(isinstance(cause, kind) for cause in causes):
            return Failure(0, words, unreachable=True)
    return Failure(0, type(causes[-1]).__name__)


def _chain(error: BaseException | None) -> list[BaseException]:
    return [] if error is None else [error, *_chain(error.__cause__ or error.__context__)]


def spoken(body: object) -> str:
    """Return the words of an error, wherever a server puts them."""
    match body:
        case [first, *_]:
            return spoken(first)
        case {"error": inner} | {"message": inner} | {"detail": inner}:
            return spoken(inner)
        case _:
            return str(body)


def asked_wait(headers: Mapping[str, str]) -> float:
    """Return the seconds that an endpoint asks to wait, or 0 where it asks for nothing that can be understood."""
    try:
        asked = (
            float(headers["retry-after-ms"]) / 1000 if "retry-after-ms" in headers else float(headers["retry-after"])
        )
    except KeyError:
        return 0.0
    except ValueError:
        try:
            # By the clock of the server, which need not agree with ours.
            asked = (
                parsedate_to_datetime(headers["retry-after"]) - parsedate_to_datetime(headers["date"])
            ).total_seconds()
        except (KeyError, ValueError, TypeError):
            return 0.0
    return asked if asked > 0 else 0.0  # what is no number is not above 0 either
