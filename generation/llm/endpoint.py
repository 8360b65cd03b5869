"""Any endpoint that speaks OpenAI's chat protocol, as a backend."""

from __future__ import annotations

import os
import re
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlsplit

from generation.errors import UserError
from generation.llm.answers import (
    QUOTED,
    Answer,
    Failure,
    asked_wait,
    completion_of,
    is_transport,
    lost,
    read_answer,
    spoken,
)
from generation.llm.client import Call, Completion, ReplyError, prompt_tokens
from generation.llm.dialect import Dialect
from generation.llm.pace import Pace, Share
from generation.seeds import rng_for

PATIENCE: Final = 600.0
"""Seconds of failing and waiting after which a call is given up, and the run with it."""

_DEFAULT_URL: Final = "https://api.openai.com/v1"
_LONGEST_BACKOFF: Final = 60.0
_RESUME: Final = "run the same command again later: finished calls are kept"
_CLIENTS: Final = 8  # that share the calls: each looks at all its connections for every call, under a lock
_SECRET: Final = 8  # characters; a shorter key is a placeholder, which may be a part of any word

_CONFLICTS: Final = (408, 409, 425, 429)  # these pass, as do all from 500
_TOO_LONG: Final = re.compile(
    r"context.{0,12}(?:length|window|size|limit)|exceed_context|prompt is too long|input token count"
    r"|reduce the length|too many tokens|maximum.{0,20}tokens allowed",
    re.IGNORECASE,
)
_OUT_OF_MONEY: Final = re.compile(r"insufficient_quota|insufficient.balance", re.IGNORECASE)
_DECLINED: Final = re.compile(r"content_filter|content.{0,12}policy|usage policy|invalid_prompt|flagged", re.IGNORECASE)


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
        UserError: `OPENAI_BASE_URL` is no URL.
    """

    def __init__(
        self,
        model: str,
        *,
        temperature: float,
        max_tokens: int,
        timeout: float = 120,
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
        self._url = os.environ.get("OPENAI_BASE_URL", "").strip() or _DEFAULT_URL
        self._shown_url = _shown(self._url)
        self._lock = threading.Lock()
        self._clients: deque[Any] = deque()  # they alone hold the key
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
        """Make a client of the `openai` package; nothing is sent. The first call does this if nobody has.

        Raises:
            UserError: The package or the key is missing.
        """
        with self._lock:
            if not self._clients:
                _package()
                key = os.environ.get("OPENAI_API_KEY", "").strip()
                if not key:
                    raise UserError("OPENAI_API_KEY is not set", "a local server that needs no key takes any: none")
                if not (key.isascii() and key.isprintable()):
                    raise UserError("OPENAI_API_KEY has characters that no key has", "copy it again")
                self._clients.append(self._new_client(key))

    def _new_client(self, key: str) -> Any:
        # Retries are ours: the package gives up after two, and knows nothing of the pace.
        return _package().OpenAI(api_key=key, base_url=self._url, timeout=self._timeout, max_retries=0)

    def _next_client(self) -> Any:
        """Return the client whose turn it is."""
        with self._lock:
            if len(self._clients) < _CLIENTS:
                self._clients.append(self._new_client(self._clients[0].api_key))
            self._clients.rotate()
            return self._clients[0]

    def complete(self, call: Call) -> Completion:
        """Answer a conversation that ends with a user message.

        Raises:
            ReplyError: The endpoint, which has answered before, does not accept this request.
            UserError: The endpoint cannot be used, or not for now.
        """
        self.connect()
        left = PATIENCE
        failures = 0
        while True:
            share = self._begin(call)
            sent = self._dialect
            began = self._clock()
            result = self._send(call, sent)
            if isinstance(result, Answer):
                completion = completion_of(result, call)
                self._settle(share, completion.prompt_tokens + completion.reply_tokens)
                self._answered = True
                return completion
            if result.status:
                self._settle(share, 0)
            if self._simplify(sent, result):
                continue
            if result.status in (400, 403, 422) and _DECLINED.search(str(result.body)):
                return Completion("", "refusal")
            self._raise_if_final(result, call)
            failures += 1
            wait = asked_wait(result.headers) or _backoff(call.seed, failures)
            left -= self._clock() - began + wait
            if left < 0:
                raise self._given_up(result, wait)
            self._sleep(wait)

    def _begin(self, call: Call) -> Share | None:
        return self._pace.wait(prompt_tokens(call.messages) + self._max_tokens) if self._pace else None

    def _settle(self, share: Share | None, tokens: int) -> None:
        if self._pace is not None and share is not None:
            self._pace.settle(share, tokens)

    def _send(self, call: Call, dialect: Dialect) -> Answer | Failure:
        """Make one request. Errors of the package end here: they carry the request, and with it the key."""
        openai = _package()
        until = self._clock() + self._timeout
        body = bytearray()
        try:
            # Read in parts: the package limits the time between two bytes, and a slow server can go on for ever. Not by
            # `chat.completions.create`: that looks through its arguments for longer than all else here takes.
            with self._next_client().post(
                "/chat/completions",
                cast_to=object,
                body={
                    "model": self._model,
                    "messages": [message._asdict() for message in call.messages],
                    "temperature": self._temperature,
                    **dialect.fields(call.schema, self._max_tokens, call.seed),
                },
                stream=True,
                stream_cls=openai.Stream[object],
            ) as stream:
                for part in stream.response.iter_bytes():
                    body += part
                    if self._clock() > until:
                        return Failure(0, f"no whole answer within {self._timeout:g} s")
        except openai.APIStatusError as error:
            return Failure(error.status_code, error.body or error.message, error.response.headers)
        except Exception as error:
            if not is_transport(error, openai):
                raise
            return lost(error)
        return read_answer(bytes(body))

    def _simplify(self, sent: Dialect, failure: Failure) -> bool:
        """Leave out what the endpoint does not understand; say whether there is something else to send now."""
        if failure.status not in (400, 422) or _TOO_LONG.search(str(failure.body)):
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
        status, said, at = failure.status, self._said(failure), self._shown_url
        if status == 401:
            raise UserError(f"{at} does not accept the key in OPENAI_API_KEY", "set one that belongs to this endpoint")
        if status == 403:
            raise UserError(f"the key in OPENAI_API_KEY may not use {self._model} at {at}: {said}")
        if status == 402 or _OUT_OF_MONEY.search(str(failure.body)):
            raise UserError(f"the account of OPENAI_API_KEY has no credit left at {at}: {said}", _RESUME)
        if status == 404:
            hint = "check the name of the model, and OPENAI_BASE_URL: most end in /v1"
            raise UserError(f"there is no model {self._model} at {at}: {said}", hint)
        if status not in (0, 429) and _TOO_LONG.search(str(failure.body)):
            raise UserError(
                f"the window of {self._model} is too small: a prompt of {call.request.template} has "
                f"{prompt_tokens(call.messages):,} tokens and its reply may have {self._max_tokens:,}; "
                f"{at} says: {said}",
                "take a model with a larger window, or lower max_tokens",
            )
        if failure.unreachable and not self._answered:
            raise UserError(f"no chat endpoint can be reached at {at}: {said}", "check OPENAI_BASE_URL")
        if status and status < 500 and status not in _CONFLICTS:
            message = f"{at} refuses a request of {call.request.template} to {self._model} (status {status}): {said}"
            raise ReplyError(message) if self._answered else UserError(message)

    def _given_up(self, failure: Failure, wait: float) -> UserError:
        what = f"status {failure.status}" if failure.status else "no answer"
        return UserError(
            f"{self._shown_url} gives no answer ({what}: {self._said(failure)}); the next try would be in "
            f"{wait:,.0f} s, and a request is given up after {PATIENCE / 60:g} minutes",
            f"set requests_per_minute to what the endpoint allows, and {_RESUME}" if failure.status == 429 else _RESUME,
        )

    def _said(self, failure: Failure) -> str:
        """Return what an endpoint said, short and without the key."""
        said = " ".join(spoken(failure.body).split())
        key = self._clients[0].api_key
        if len(key) >= _SECRET:
            said = said.replace(key, "…")
        return said[:QUOTED]


def _package() -> Any:
    try:
        import openai
    except ImportError as error:
        raise UserError("the backend openai needs the package openai", "pip install 'personamem[api]'") from error
    return openai


def _shown(url: str) -> str:
    """Return a URL without credentials and query."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or parts.scheme not in ("http", "https"):
        raise UserError("OPENAI_BASE_URL is no http or https URL", f"such as {_DEFAULT_URL}")
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}{f':{port}' if port else ''}{parts.path}".rstrip("/")


def _backoff(seed: int, failures: int) -> float:
    longest = min(_LONGEST_BACKOFF, 2.0**failures)
    return longest * rng_for(seed, "backoff", failures).uniform(0.5, 1)
