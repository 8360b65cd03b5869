"""Asking a language model for a reply of a given form."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from pydantic import BaseModel, ValidationError

from generation.config import describe
from generation.errors import UserError
from generation.llm.cache import ReplyCache
from generation.prompts import render

S = TypeVar("S", bound=BaseModel)

MAX_REPAIRS: Final = 2
"""How often a reply that does not fit is sent back with its faults."""


class Request(NamedTuple):
    """One call.

    Attributes:
        template: Name of the prompt template.
        facts: What the prompt is rendered from; the offline backend answers from these alone.
        seed: What the call is for: decides the random choices of the offline backend.
    """

    template: str
    facts: Mapping[str, Any]
    seed: tuple[str | int, ...]


class ChatMessage(NamedTuple):
    """A message to or from the model."""

    role: str
    content: str


class Completion(NamedTuple):
    """What a model sent back; `finish_reason` is `stop` for a whole answer."""

    text: str
    finish_reason: str


class Backend(Protocol):
    """A language model, or what stands in for one."""

    @property
    def identity(self) -> dict[str, Any]:
        """Everything about the model and its sampling that shapes its answers."""

    def complete(self, request: Request, messages: Sequence[ChatMessage]) -> Completion:
        """Answer a conversation that ends with a user message."""


class ReplyError(UserError):
    """A model gave no usable reply to a request."""


class Client:
    """Asks a backend, checks what comes back, and remembers what was paid for.

    Args:
        backend: The model.
        cache: Where good replies are kept; None for a backend that costs nothing.
    """

    def __init__(self, backend: Backend, cache: ReplyCache | None = None) -> None:
        self._backend = backend
        self._cache = cache

    def ask(self, request: Request, schema: type[S], check: Callable[[S], list[str]] = lambda _: []) -> S:
        """Ask for one reply.

        Args:
            request: What to ask.
            schema: The form of the reply, which is JSON.
            check: Returns what else is wrong with a reply of that form.

        Raises:
            ReplyError: The reply was cut or refused, or was still wrong after two repair turns.
        """
        messages = [ChatMessage("user", render(request.template, request.facts))]
        key = reply_key(self._backend.identity, messages, schema)
        if self._cache is not None and (kept := self._cache.get(key)) is not None:
            reply, faults = _read(kept, schema, check)
            if reply is not None:
                return reply
        for _ in range(1 + MAX_REPAIRS):
            completion = self._backend.complete(request, messages)
            if completion.finish_reason != "stop":
                # A cut answer cannot be mended by asking for a mended one: that would be cut as well.
                raise ReplyError(f"{_name(request)}: the reply ended with {completion.finish_reason!r}")
            reply, faults = _read(completion.text, schema, check)
            if reply is not None:
                if self._cache is not None:
                    self._cache.put(key, completion.text)
                return reply
            messages += [
                ChatMessage("assistant", completion.text),
                ChatMessage("user", render("repair", {"faults": faults})),
            ]
        raise ReplyError(f"{_name(request)}: no usable reply after {MAX_REPAIRS} repairs: {'; '.join(faults)}")


def reply_key(identity: Mapping[str, Any], messages: Sequence[ChatMessage], schema: type[BaseModel]) -> str:
    """Return the key of a reply: a digest of everything that shapes it, and of nothing else.

    Args:
        identity: Of the backend.
        messages: The rendered conversation.
        schema: The form that the reply must have.
    """
    content = [dict(identity), [list(message) for message in messages], schema.model_json_schema()]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _read(text: str, schema: type[S], check: Callable[[S], list[str]]) -> tuple[S | None, list[str]]:
    try:
        reply = schema.model_validate_json(text)
    except ValidationError as error:
        return None, [describe(error)]
    faults = check(reply)
    return (None, faults) if faults else (reply, [])


def _name(request: Request) -> str:
    return f"{request.template} for {' '.join(str(part) for part in request.seed)}"
