"""Asking a language model for a reply of a given form."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from pydantic import BaseModel, ValidationError

from generation.errors import UserError
from generation.http import body_as_json
from generation.llm.paid_calls import CallOutcome
from generation.prompts import render
from generation.reading import clean, describe
from generation.tokenizer import num_tokens

S = TypeVar("S", bound=BaseModel)

MAX_REPAIRS: Final = 2
"""How often a reply that does not fit is sent back with its faults."""


class Request(NamedTuple):
    """One call.

    Attributes:
        facts: What the prompt is rendered from; the offline backend answers from these alone.
        seed: What the call is for: decides the random choices of the offline backend.
        persona_id: For which user it is, if it is for one.
        topic: In which topic, if in one.
    """

    template: str
    facts: Mapping[str, Any]
    seed: tuple[str | int, ...]
    persona_id: int | None = None
    topic: str = ""


class ChatMessage(NamedTuple):
    """A message to or from the model."""

    role: str
    content: str


class Call(NamedTuple):
    """What a backend is asked.

    Attributes:
        messages: The conversation; it ends with a user message.
        schema: The form of the reply, which is JSON.
        seed: For the model's sampling; another one for each fresh attempt.
    """

    request: Request
    messages: Sequence[ChatMessage]
    schema: type[BaseModel]
    seed: int


class Completion(NamedTuple):
    """What a model sent back.

    Attributes:
        finish_reason: `stop` for a whole answer, `length` for a cut one, or what else ended it.
        receipt: Names the call where it was counted as spent already, see `Ledger.owe`.
    """

    text: str
    finish_reason: str
    prompt_tokens: int = 0
    reply_tokens: int = 0
    receipt: str = ""


class Backend(Protocol):
    """A language model, or what stands in for one."""

    @property
    def identity(self) -> dict[str, object]:
        """Everything about the model and its sampling that shapes a whole answer."""

    def complete(self, call: Call) -> Completion:
        """Answer a conversation that ends with a user message."""


class ReplyError(UserError):
    """A model gave no usable reply to a request."""


class KeptReplies(Protocol):
    """Replies that were paid for: a `ReplyCache`, or one that is somewhere else."""

    def get(self, key: str) -> str | None:
        """Return the reply kept under a key, if there is one."""

    def put(self, key: str, text: str) -> None:
        """Keep a reply; it is on the disk when this returns."""


class CallBook(Protocol):
    """Where calls are written down: a `Ledger`, or one that is somewhere else."""

    @property
    def is_limited(self) -> bool:
        """Whether there is anything to reserve."""

    def reserve(self, model: str, prompt_tokens: int, reply_tokens: int) -> AbstractContextManager[None]:
        """Keep money back for a call, see `Ledger.reserve`."""

    def record(
        self,
        *,
        stage: str,
        template: str,
        model: str,
        prompt_tokens: int,
        reply_tokens: int,
        outcome: CallOutcome,
        persona_id: int | None,
        topic: str,
        disagreed: bool | None,
        receipt: str,
    ) -> None:
        """Write a call down, see `Ledger.record`."""


class Account(NamedTuple):
    """The ledger that calls of a stage to a model are written down in; their replies have at most `max_tokens`."""

    ledger: CallBook
    stage: str
    model: str
    max_tokens: int


class Client:
    """Asks a backend, checks what comes back, and remembers what was paid for.

    Args:
        backend: The model.
        cache: Where good replies are kept; None for a backend that costs nothing.
        attempts: How many conversations are begun, each with a seed of its own, before an item is given up.
        account: Where calls are written down; None for a backend that costs nothing.
        reader: Reads back what this one writes; None if this one does.

    Attributes:
        reader: What reads back.
        is_free_writer: Whether the backend may write anything, so that what a text says has to be read back. The
            offline backend writes what it is told by construction.
    """

    def __init__(
        self,
        backend: Backend,
        cache: KeptReplies | None = None,
        attempts: int = 1,
        account: Account | None = None,
        reader: Client | None = None,
    ) -> None:
        self._backend = backend
        self._cache = cache
        self._attempts = attempts
        self._account = account
        self.reader = reader or self
        self.is_free_writer = backend.identity.get("backend") != "offline"

    def ask(
        self,
        request: Request,
        schema: type[S],
        check: Callable[[S], list[str]] = lambda _: [],
        disagrees: Callable[[S], bool] | None = None,
    ) -> S:
        """Ask for one reply of a form; `check` returns what else is wrong with it.

        `disagrees` says of a reading whether it found something else than was to be written; the ledger keeps it.

        Raises:
            ReplyError: In every attempt the reply was cut or refused, or was still wrong after two repair turns.
            BudgetReached: The budget of the run is spent.
        """
        prompt = ChatMessage("user", render(request.template, request.facts))
        key = reply_key(self._backend.identity, [prompt], schema)
        if self._cache is not None and (kept := self._cache.get(key)) is not None:
            reply, _ = _read(kept, schema, check)
            if reply is not None:
                return reply
        reasons: list[str] = []
        for attempt in range(self._attempts):
            text, reply, reason = self._converse(request, prompt, schema, check, disagrees, attempt)
            if reply is not None:
                if self._cache is not None:
                    self._cache.put(key, text)
                return reply
            reasons.append(reason)
        raise ReplyError(f"{_name(request)}: {'; '.join(dict.fromkeys(reasons))}")

    def _converse(
        self,
        request: Request,
        prompt: ChatMessage,
        schema: type[S],
        check: Callable[[S], list[str]],
        disagrees: Callable[[S], bool] | None,
        attempt: int,
    ) -> tuple[str, S | None, str]:
        """Return the text and what it says, or why there is none."""
        messages = [prompt]
        faults: list[str] = []
        for turn in range(1 + MAX_REPAIRS):
            with self._written_down(request, messages) as write_down:
                completion = self._backend.complete(Call(request, messages, schema, _seed(request, attempt)))
                whole = completion.finish_reason == "stop"
                reply, faults = _read(completion.text, schema, check) if whole else (None, [])
                disagreed = disagrees(reply) if disagrees is not None and reply is not None else None
                write_down(completion, _outcome(completion.finish_reason, reply is not None, turn), disagreed)
            if not whole:
                # A cut answer cannot be mended by asking for a mended one: that would be cut as well.
                return "", None, f"the reply ended with {completion.finish_reason!r}"
            if reply is not None:
                return completion.text, reply, ""
            messages = [
                *messages,
                ChatMessage("assistant", completion.text),
                ChatMessage("user", render("repair", {"faults": faults})),
            ]
        return "", None, f"no usable reply after {MAX_REPAIRS} repairs: {'; '.join(faults)}"

    @contextmanager
    def _written_down(
        self, request: Request, messages: Sequence[ChatMessage]
    ) -> Iterator[Callable[[Completion, CallOutcome, bool | None], None]]:
        """Keep money back for a call, and give what writes it down when it is over."""
        if self._account is None:
            yield lambda completion, outcome, disagreed: None
            return
        ledger, stage, model, max_tokens = self._account

        def write_down(completion: Completion, outcome: CallOutcome, disagreed: bool | None) -> None:
            ledger.record(
                stage=stage,
                template=request.template,
                model=model,
                prompt_tokens=completion.prompt_tokens,
                reply_tokens=completion.reply_tokens,
                outcome=outcome,
                persona_id=request.persona_id,
                topic=request.topic,
                disagreed=disagreed,
                receipt=completion.receipt,
            )

        with ledger.reserve(model, prompt_tokens(messages) if ledger.is_limited else 0, max_tokens):
            yield write_down


def prompt_tokens(messages: Sequence[ChatMessage]) -> int:
    """Return the number of tokens of a conversation, as far as they are of its texts."""
    return sum(num_tokens(message.content) for message in messages)


def _outcome(finish_reason: str, is_good: bool, turn: int) -> CallOutcome:
    if finish_reason == "stop":
        return ("repaired" if turn else "ok") if is_good else "rejected"
    return {"length": "cut", "refusal": "refusal"}.get(finish_reason, "error")  # type: ignore[return-value]


def _seed(request: Request, attempt: int) -> int:
    """Return a seed of 31 bits, which every endpoint takes."""
    content = json.dumps([*request.seed, attempt])
    return int.from_bytes(hashlib.sha256(content.encode()).digest()[:4]) >> 1


def reply_key(identity: Mapping[str, object], messages: Sequence[ChatMessage], schema: type[BaseModel]) -> str:
    """Return the key of a reply: a digest of everything that shapes it, and of nothing else."""
    content = [dict(identity), [list(message) for message in messages], _form(schema)]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@cache
def _form(schema: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON schema of a reply; pydantic makes it anew each time, which takes as long as sending a request."""
    return schema.model_json_schema()


def _read(text: str, schema: type[S], check: Callable[[S], list[str]]) -> tuple[S | None, list[str]]:
    try:
        reply = schema.model_validate_json(_encodable(text))
    except ValidationError as error:
        return None, [describe(error)]
    faults = check(reply)
    return (None, faults) if faults else (reply, [])


def _encodable(text: str) -> str:
    """Return a JSON text without the escapes that stand for what no file can hold, see `clean_text`."""
    if "\\u" not in text:
        return text
    try:
        return json.dumps(clean(body_as_json(text)))
    except ValueError:
        return text  # what is wrong with it is told to the model


def _name(request: Request) -> str:
    return f"{request.template} for {' '.join(str(part) for part in request.seed)}"
