"""Any endpoint that speaks OpenAI's chat protocol, as a backend."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

from generation.errors import UserError
from generation.http import Address, HttpError, PrivateHeaders, address_of, is_header_value, post
from generation.llm.client import Call, Completion, ReplyError, prompt_tokens
from generation.llm.dialect import Dialect
from generation.llm.failures import (
    Named,
    asked_wait,
    backoff,
    described,
    end_of_run,
    is_declined,
    is_refused,
    is_too_long,
    lost,
    not_there,
)
from generation.llm.pace import Pace, Share
from generation.llm.replies import WHOLE, ChatReply, Failure, error_body, read_reply, spoken
from generation.llm.reply_text import is_refusal, json_text
from generation.progress import Waiting
from generation.redaction import redact
from generation.tokenizer import estimated_tokens

PATIENCE: Final = 600.0
"""Seconds of failing and waiting after which a call is given up, and the run with it; more where requests may take
so long that there would be no second try."""

DEFAULT_TIMEOUT: Final = 600.0
"""Seconds that one request may take: slow local servers and models that reason need many."""

_DEFAULT_URL: Final = "https://api.openai.com/v1"
_RESUME: Final = "run the same command again later: finished calls are kept"


class Endpoint:
    """Asks a model behind an OpenAI-compatible endpoint; for any number of threads.

    The key is read from `OPENAI_API_KEY`, the address from `OPENAI_BASE_URL`. What passes (limits, faults of the
    server, lost connections) is waited for; what the endpoint does not understand is left out from then on.

    Args:
        model: Its name at the endpoint.
        temperature: Of the sampling.
        max_tokens: Longest reply.
        timeout: Seconds that one request may take.
        pace: How fast requests may begin; None for no limit.
        clock: Tells the seconds.
        sleep: Waits so many seconds.

    Raises:
        UserError: `OPENAI_BASE_URL` is no URL of HTTP.
    """

    def __init__(
        self,
        model: str,
        *,
        temperature: float,
        max_tokens: int,
        timeout: float = DEFAULT_TIMEOUT,
        pace: Pace | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._model = model
        self._temperature = temperature
        self._max_tokens = max_tokens
        self._timeout = timeout
        self._pace = pace
        self._clock = clock
        self._sleep = sleep
        address = address_of(os.environ.get("OPENAI_BASE_URL", "").strip() or _DEFAULT_URL)
        if address is None:
            raise UserError("OPENAI_BASE_URL is no http or https URL", f"such as {_DEFAULT_URL}")
        self._shown_url = address.shown
        self._address = _chat_of(address)
        self._named = Named(self._shown_url, model, "OPENAI_API_KEY", "OPENAI_BASE_URL", "/v1")
        self._patience = max(PATIENCE, 2 * timeout)
        self._waiting = Waiting(address.place, clock)
        self._lock = threading.Lock()
        self._headers = PrivateHeaders()  # they alone hold the key
        self._dialect = Dialect()
        self._answered = False

    @property
    def identity(self) -> dict[str, Any]:
        """Everything about the model and its sampling that shapes a whole answer."""
        return {
            "backend": "openai",
            "model": self._model,
            "base_url": self._shown_url,
            "temperature": self._temperature,
        }

    def connect(self) -> None:
        """Read the key; nothing is sent. The first call does this if nobody has.

        Raises:
            UserError: The key is missing.
        """
        key = os.environ.get("OPENAI_API_KEY", "").strip()
        if not key:
            raise UserError("OPENAI_API_KEY is not set", "a local server that needs no key takes any: none")
        if not is_header_value(key):
            raise UserError("OPENAI_API_KEY has characters that no key has", "copy it again")
        self._headers = PrivateHeaders({"Authorization": f"Bearer {key}", "Content-Type": "application/json"})

    def complete(self, call: Call) -> Completion:
        """Answer a conversation that ends with a user message.

        Raises:
            ReplyError: The endpoint, which has answered before, does not accept this request.
            UserError: The endpoint cannot be used, or not for now.
        """
        if not self._headers:
            self.connect()
        with self._waiting.call():
            return self._complete(call)

    def _complete(self, call: Call) -> Completion:
        left = self._patience
        failures = 0
        while True:
            share = self._begin(call)
            sent = self._dialect
            began = self._clock()
            result = self._send(call, sent)
            if isinstance(result, ChatReply):
                completion = completion_of(result, call)
                self._settle(share, completion.prompt_tokens + completion.reply_tokens)
                self._answered = True
                return completion
            if result.status:
                self._settle(share, 0)
            if self._simplify(sent, result):
                continue
            if is_declined(result):
                return Completion("", "refusal")
            self._raise_if_final(result, call)
            failures += 1
            wait = asked_wait(result.headers) or backoff(call.seed, failures)
            left -= self._clock() - began + wait
            if left < 0:
                raise self._given_up(result, wait)
            self._waiting.retry(wait)
            self._sleep(wait)

    def _begin(self, call: Call) -> Share | None:
        return self._pace.wait(prompt_tokens(call.messages) + self._max_tokens) if self._pace else None

    def _settle(self, share: Share | None, tokens: int) -> None:
        if self._pace is not None and share is not None:
            self._pace.settle(share, tokens)

    def _send(self, call: Call, dialect: Dialect) -> ChatReply | Failure:
        """Make one request."""
        body = {
            "model": self._model,
            "messages": [message._asdict() for message in call.messages],
            "temperature": self._temperature,
            **dialect.fields(call.schema, self._max_tokens, call.seed),
        }
        try:
            response = post(self._address, json.dumps(body).encode(), self._headers, self._timeout)
        except HttpError as error:
            return lost(error)
        if response.status != 200:
            return Failure(response.status, error_body(response.content), response.headers)
        return read_reply(response.content)

    def _simplify(self, sent: Dialect, failure: Failure) -> bool:
        """Leave out what the endpoint does not understand; say whether there is something else to send now."""
        if failure.status not in (400, 422) or is_too_long(failure):
            return False
        simpler = sent.without(str(failure.body))
        with self._lock:
            if self._dialect == sent:  # else another thread has been told already, and perhaps more
                self._dialect = simpler
        return simpler != sent

    def _raise_if_final(self, failure: Failure, call: Call) -> None:
        """Raise what no waiting will mend.

        An endpoint that refuses the first request of all is not what the user thinks it is; one that has answered
        others refuses this one, which is then an item that failed.
        """
        if error := end_of_run(failure, self._named):
            raise _redacted(error)
        said, at = spoken(failure.body), self._shown_url
        if is_too_long(failure):
            raise _redacted(
                UserError(
                    f"the window of {self._model} is too small: a prompt of {call.request.template} has "
                    f"{prompt_tokens(call.messages):,} tokens and its reply may have {self._max_tokens:,}; "
                    f"{at} says: {said}",
                    "take a model with a larger window, or lower max_tokens",
                )
            )
        if failure.unreachable and not self._answered:
            raise _redacted(not_there(failure, self._named))
        if is_refused(failure):
            status = failure.status
            message = f"{at} refuses a request of {call.request.template} to {self._model} (status {status}): {said}"
            raise _redacted(ReplyError(message) if self._answered else UserError(message))

    def _given_up(self, failure: Failure, wait: float) -> UserError:
        return _redacted(
            UserError(
                f"{self._shown_url} gives no answer ({described(failure)}); the next try would be in "
                f"{wait:,.0f} s, and a request is given up after {self._patience / 60:g} minutes",
                f"set requests_per_minute to what the endpoint allows, and {_RESUME}"
                if failure.status == 429
                else _RESUME,
            )
        )


E = TypeVar("E", bound=UserError)


def completion_of(reply: ChatReply, call: Call) -> Completion:
    """Return what a model sent back, with its tokens counted here where the endpoint does not say how many."""
    stripped = json_text(reply.text)
    return Completion(
        stripped,
        _reason(reply, stripped),
        reply.prompt_tokens or prompt_tokens(call.messages),
        reply.reply_tokens or estimated_tokens(reply.text) + estimated_tokens(reply.reasoning),
    )


def _reason(reply: ChatReply, stripped: str) -> str:
    """Return how a reply ended: `stop` only for a whole answer."""
    reason = reply.finish_reason.lower()
    match reply.outcome:
        case "cut":
            return "length"
        case "refused":
            return "refusal"
        case "failed":
            return "empty" if not reason or reason in WHOLE else reason
    if not reason or reason not in WHOLE:
        return reason or "unknown"
    if is_refusal(reply.text):
        return "refusal"
    return "stop" if stripped.strip() else "empty"


def _chat_of(address: Address) -> Address:
    """Return where the chats of an API are, from where the API is."""
    path, mark, query = address.target.partition("?")
    return address._replace(target=f"{path.rstrip('/')}/chat/completions{mark}{query}")


def _redacted(error: E) -> E:
    """Return an error without the key, which a server may have said."""
    return type(error)(redact(error.message), error.hint)
