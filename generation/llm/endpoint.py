"""Any endpoint that speaks OpenAI's chat protocol, as a backend."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from generation.errors import UserError
from generation.http import Address, PrivateHeaders, address_of, is_header_value
from generation.llm.chat_request import (
    RESUME,
    EndpointLabels,
    asked_wait,
    backoff,
    described,
    end_of_run,
    is_declined,
    is_refused,
    is_too_long,
    not_there,
    send_chat,
)
from generation.llm.client import Call, Completion, ReplyError, prompt_tokens
from generation.llm.rate_limit import RateLimit
from generation.llm.replies import WHOLE, ChatReply, RequestFailure, spoken
from generation.llm.reply_text import is_refusal, json_text
from generation.llm.request_fields import RequestFields, json_reply, refused_temperature
from generation.progress import Waiting
from generation.redaction import redact
from generation.tokenizer import estimated_tokens

PATIENCE: Final = 600.0
"""Seconds of failing and waiting after which a call is given up, and the run with it; more where requests may take
so long that there would be no second try."""

DEFAULT_TIMEOUT: Final = 600.0
"""Seconds that one request may take: slow local servers and models that reason need many."""

DEFAULT_URL: Final = "https://api.openai.com/v1"


class Endpoint:
    """Asks a model behind an OpenAI-compatible endpoint; for any number of threads.

    The key is read from `OPENAI_API_KEY`, the address from `OPENAI_BASE_URL`. What passes (limits, faults of the
    server, lost connections) is waited for; what the endpoint does not understand is left out from then on.

    Attributes:
        waiting: Says what is waited for.

    Raises:
        UserError: `OPENAI_BASE_URL` is no URL of HTTP.
    """

    def __init__(
        self,
        model: str,
        *,
        temperature: float | None,
        max_tokens: int,
        fields: Mapping[str, object] | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        rate_limit: RateLimit | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._model = model
        self._max_tokens = max_tokens
        self._given = {**({} if temperature is None else {"temperature": temperature}), **(fields or {})}
        self._timeout = timeout
        self._rate_limit = rate_limit or RateLimit(None, None)
        self._clock = clock
        self._sleep = sleep
        address = address_of(os.environ.get("OPENAI_BASE_URL", "").strip() or DEFAULT_URL)
        if address is None:
            raise UserError("OPENAI_BASE_URL is not an http or https URL", f"such as {DEFAULT_URL}")
        self._shown_url = address.shown
        self._address = _chat_of(address)
        self._labels = EndpointLabels(self._shown_url, model, "OPENAI_API_KEY", "OPENAI_BASE_URL", "/v1")
        self._patience = max(PATIENCE, 2 * timeout)
        self.waiting = Waiting(address.place, clock)
        self._lock = threading.Lock()
        self._headers = PrivateHeaders()  # they alone hold the key
        self._fields = RequestFields(formats=("json_schema", "json_object", "none"))
        self._answered = False

    @property
    def identity(self) -> dict[str, object]:
        """Everything about the model and its sampling that shapes a whole answer."""
        return {
            "backend": "openai",
            "model": self._model,
            "base_url": self._shown_url,
            "temperature": None,
            **self._given,
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
        with self.waiting.call():
            return self._complete(call)

    def _complete(self, call: Call) -> Completion:
        optional = {"max_tokens": self._max_tokens, "seed": call.seed, "response_format": json_reply(call.schema)}
        left = self._patience
        failures = 0
        while True:
            reservation = self._rate_limit.wait(prompt_tokens(call.messages) + self._max_tokens)
            fields = self._fields
            began = self._clock()
            result = self._send(call, fields.of(optional))
            if isinstance(result, ChatReply):
                completion = completion_of(result, call)
                self._rate_limit.settle(reservation, completion.prompt_tokens + completion.reply_tokens)
                self._answered = True
                return completion
            if result.status:
                self._rate_limit.settle(reservation, 0)
            simpler = fields.without(optional, result)
            if simpler != fields:
                with self._lock:
                    if self._fields == fields:  # else another thread has been told already, and perhaps more
                        self._fields = simpler
                continue
            if is_declined(result):
                return Completion("", "refusal")
            self._raise_if_final(result, call)
            failures += 1
            wait = asked_wait(result.headers) or backoff(call.seed, failures)
            left -= self._clock() - began + wait
            if left < 0:
                raise self._given_up(result, wait)
            self.waiting.retry(wait)
            self._sleep(wait)

    def _send(self, call: Call, optional: Mapping[str, object]) -> ChatReply | RequestFailure:
        body = {
            "model": self._model,
            "messages": [message._asdict() for message in call.messages],
            **self._given,
            **optional,
        }
        return send_chat(self._address, body, self._headers, self._timeout)

    def _raise_if_final(self, failure: RequestFailure, call: Call) -> None:
        """Raise what no waiting will mend.

        An endpoint that refuses the first request of all is not what the user thinks it is; one that has answered
        others refuses this one, which is then an item that failed.
        """
        if error := end_of_run(failure, self._labels):
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
            raise _redacted(not_there(failure, self._labels))
        if is_refused(failure):
            status = failure.status
            message = f"{at} refuses a request of {call.request.template} to {self._model} (status {status}): {said}"
            if self._answered:
                raise _redacted(ReplyError(message))
            own = refused_temperature(self._given, str(failure.body))
            raise _redacted(UserError(message, "set llm.temperature to null in the configuration" if own else ""))

    def _given_up(self, failure: RequestFailure, wait: float) -> UserError:
        return _redacted(
            UserError(
                f"{self._shown_url} does not answer ({described(failure)}); the next try would be in "
                f"{wait:,.0f} s, and a request is given up after {self._patience / 60:g} minutes",
                f"set requests_per_minute to what the endpoint allows, and {RESUME}"
                if failure.status == 429
                else RESUME,
            )
        )


E = TypeVar("E", bound=UserError)


def completion_of(reply: ChatReply, call: Call) -> Completion:
    """Return what a model sent back, with its tokens counted here where the endpoint does not say how many."""
    stripped = json_text(reply.text)
    return Completion(
        stripped,
        _reason(reply, stripped),
        reply.tokens.prompt or prompt_tokens(call.messages),
        reply.tokens.reply or estimated_tokens(reply.text) + estimated_tokens(reply.reasoning),
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
