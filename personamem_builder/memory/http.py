"""A memory system in another process or language, behind a small JSON API: `docs/memory_http.md` is its description."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, NonNegativeInt, ValidationError

from generation.errors import UserError
from generation.http import (
    Address,
    HttpError,
    Redirected,
    ReplyTooLong,
    TimedOut,
    Unreachable,
    address_of,
    body_as_json,
    post,
)
from generation.reading import clean, clean_text
from personamem_builder.memory.system import Memory, Session

API_VERSION: Final = 1
"""Sent with each request, and due in each reply."""

_SHOWN: Final = 200
"""Characters of a reply that an error shows, at most."""


class MemoryFault(UserError):
    """A call to a memory system outside this process did not give what it should."""


class _Reply(BaseModel):
    """What every reply holds; more keys may come with later versions of a server."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    version: int
    usage: dict[str, NonNegativeFloat] = {}


class _ResetReply(_Reply):
    answers: bool = False
    parallel: bool = False


class _FoundMemory(BaseModel):
    model_config = ConfigDict(strict=True)

    text: str
    date: str = ""
    message_indices: list[NonNegativeInt] = []


class _SearchReply(_Reply):
    memories: list[_FoundMemory]


class _AnswerReply(_Reply):
    index: int = Field(ge=0)


_AnyReply = TypeVar("_AnyReply", bound=_Reply)


class HttpMemory:
    """A memory system behind HTTP.

    No request is sent twice, and each names its context, a word that is made up at each `reset`. With the index of a
    session's first message it tells sessions apart: a server that is shown one again can let it be.

    Args:
        url: Where the server is, such as `http://127.0.0.1:8765`; a path in it stands before those of the API.
        timeout: Seconds that a request may take.
        label: What tells versions of the server apart: results are kept by the settings of a system, and nothing else
            here changes with the server's code.

    Attributes:
        answer: `answer(question, options)` gives the index of the option that the system chooses itself. None for a
            server that does not, which is known once it was reset.

    Raises:
        UserError: The address is none of HTTP, or there is no time.
    """

    version = API_VERSION

    def __init__(self, url: str, timeout: float = 60.0, label: str = "") -> None:
        address = _base_of(url)
        if address is None:
            raise UserError(f"{url!r} is no address of a memory server", "give one such as http://127.0.0.1:8765")
        if not timeout > 0:
            raise UserError(f"timeout={timeout}: a request needs time", "give seconds, such as 60")
        self._address = address
        self._url = address.shown
        self._timeout = timeout
        self._context = ""
        self._usage: Counter[str] = Counter()
        self.answer: Callable[[str, Sequence[str]], int] | None = None

    @classmethod
    def parallel(cls, **settings: Any) -> bool:
        """Ask the server whether it keeps several users' histories at a time: one that does not say so keeps one.

        Raises:
            UserError: It cannot be asked.
        """
        return cls(**settings)._reset().parallel

    def reset(self) -> None:
        """Begin the history of another user."""
        self.answer = self._answer if self._reset().answers else None

    def add_session(self, session: Session) -> None:
        """Show the server the next conversation."""
        shown = {
            "number": session.number,
            "date": session.date,
            "first_index": session.first_index,
            "messages": [{"role": message["role"], "content": message["content"]} for message in session.messages],
        }
        self._post("sessions", {"session": shown}, _Reply)

    def search(self, query: str, k: int) -> Sequence[Memory]:
        """Ask the server for up to `k` memories."""
        reply = self._post("search", {"query": query, "k": k}, _SearchReply)
        return [Memory(found.text, found.date, tuple(found.message_indices)) for found in reply.memories]

    def usage(self) -> Mapping[str, float]:
        """Return the sums of what the server says that its calls took, such as `llm_calls` or `prompt_tokens`."""
        return dict(self._usage)

    def _reset(self) -> _ResetReply:
        self._context = uuid.uuid4().hex
        return self._post("reset", {}, _ResetReply)

    def _answer(self, question: str, options: Sequence[str]) -> int:
        reply = self._post("answer", {"question": question, "options": list(options)}, _AnswerReply)
        if reply.index >= len(options):
            raise MemoryFault(f"{self._url}/answer: there is no option {reply.index} among {len(options)}")
        return reply.index

    def _post(self, name: str, payload: Mapping[str, Any], kind: type[_AnyReply]) -> _AnyReply:
        """Send a request to the path that ends in `name`, and return the reply.

        Raises:
            MemoryFault: The server cannot be reached, takes too long, refuses, or replies with too much or with
                something else.
        """
        where = f"{self._url}/{name}"
        body = json.dumps({"version": API_VERSION, "context": self._context, **payload})
        target = f"{self._address.target}/{name}"
        # A connection that was kept may turn out to be closed, and no request is sent twice.
        headers = {"Content-Type": "application/json", "Accept": "application/json", "Connection": "close"}
        try:
            # Texts of the web may hold halves of surrogate pairs, which are no UTF-8; JSON's escapes can hold them.
            status, said, content = post(
                self._address._replace(target=target), body.encode("ascii"), headers, self._timeout, use_proxy=False
            )
        except HttpError as error:
            raise MemoryFault(*_reported(where, error, self._timeout)) from None
        if status != 200:
            raise MemoryFault(f"{where}: HTTP {status}: {_reason(content)}", "look at the server's log")
        reply = self._read(where, said.get("content-type", "no type"), content, kind)
        self._usage.update(reply.usage)
        return reply

    @staticmethod
    def _read(where: str, content_type: str, content: bytes, kind: type[_AnyReply]) -> _AnyReply:
        hint = "docs/memory_http.md says what a reply holds"
        try:
            value = clean(body_as_json(content.decode("utf-8-sig")))
        except ValueError as error:
            raise MemoryFault(f"{where}: the reply is no JSON but {content_type}: {_excerpt(content)}", hint) from error
        try:
            reply = kind.model_validate(value)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False)[0]
            place = ".".join(map(str, first["loc"])) or "the whole"
            raise MemoryFault(f"{where}: the reply is not as it should be: {place}: {first['msg']}", hint) from error
        if reply.version != API_VERSION:
            raise MemoryFault(f"{where}: the server speaks version {reply.version}, not {API_VERSION}", hint)
        return reply


def _base_of(url: str) -> Address | None:
    """Return an address that the paths of the API can be added to, None if it is none of HTTP."""
    address = address_of(url)
    if address is None or "?" in url or "#" in url:
        return None
    return address._replace(target=address.target.rstrip("/"), credentials="")


def _reported(where: str, error: HttpError, timeout: float) -> tuple[str, str]:
    """Return what is wrong with a request that got no reply, and what to do."""
    match error:
        case TimedOut():
            return f"{where}: no reply in {timeout:g} s", "raise timeout, or look at its log"
        case ReplyTooLong():
            return f"{where}: {error}", "return fewer or shorter memories"
        case Redirected():
            return f"{where}: {error}", "correct url"
        case Unreachable():
            return f"{where}: no server is there: {error}", "start it, or correct url"
        case _:
            return f"{where}: {error}", "look at the server's log"


def _reason(content: bytes) -> str:
    try:
        value = body_as_json(content.decode("utf-8-sig"))
    except ValueError:
        return _excerpt(content)
    if isinstance(value, dict) and isinstance(error := value.get("error"), str):
        return clean_text(error[:_SHOWN])
    return _excerpt(content)


def _excerpt(content: bytes) -> str:
    text = content[: 4 * _SHOWN].decode("utf-8", "replace")
    return repr(text[:_SHOWN]) if text else "nothing"
