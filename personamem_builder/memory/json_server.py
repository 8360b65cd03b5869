"""Requests of JSON to a memory server: one post at a time, bounded, and errors that say what to do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from generation.errors import UserError
from generation.http import (
    Address,
    HttpError,
    PrivateHeaders,
    Redirected,
    ReplyTooLong,
    TimedOut,
    Unreachable,
    address_of,
    body_as_json,
    post,
)
from generation.reading import clean, clean_text

_SHOWN: Final = 200
"""Characters of a reply that an error shows, at most."""

_TRANSIENT: Final = frozenset({408, 425, 429, 500, 502, 503, 504})

_Reply = TypeVar("_Reply", bound=BaseModel)


class MemoryFault(UserError):
    """A call to a memory system outside this process did not give what it should.

    Attributes:
        is_transient: Whether the same call may work a moment later.
    """

    is_transient: bool = False


class JsonServer:
    """A server that takes and gives JSON objects.

    Args:
        url: Where it is, such as `http://127.0.0.1:8765`; a path in it stands before those of requests.
        timeout: Seconds that a request may take.
        headers: More headers of each request, a key among them perhaps.
        manual: The page that says what a reply holds, for errors.

    Attributes:
        url: Where it is, without credentials.

    Raises:
        UserError: The address is none of HTTP, or there is no time.
    """

    def __init__(self, url: str, timeout: float, manual: str, headers: Mapping[str, str] | None = None) -> None:
        address = _base_of(url)
        if address is None:
            raise UserError(f"{url!r} is not an address of a memory server", "give one such as http://127.0.0.1:8765")
        if not timeout > 0:
            raise UserError(f"timeout={timeout}: a request needs time", "give seconds, such as 60")
        self._address = address
        self.url = address.shown
        self._timeout = timeout
        self._hint = f"{manual} says what a reply holds"
        # A connection that was kept may turn out to be closed, and no request is sent twice.
        own = {"Content-Type": "application/json", "Accept": "application/json", "Connection": "close"}
        self._headers = PrivateHeaders({**own, **(headers or {})})

    def post(self, name: str, payload: Mapping[str, Any], kind: type[_Reply]) -> _Reply:
        """Send one request, once, to the path that ends in `name`, and return the reply.

        Raises:
            MemoryFault: The server cannot be reached, takes too long, refuses, or replies with too much or with
                something else.
        """
        where = f"{self.url}/{name}"
        # Texts of the web may hold halves of surrogate pairs, which are no UTF-8; JSON's escapes can hold them.
        body = json.dumps(payload).encode("ascii")
        target = f"{self._address.target}/{name}"
        try:
            status, said, content = post(
                self._address._replace(target=target), body, self._headers, self._timeout, use_proxy=False
            )
        except HttpError as error:
            fault = MemoryFault(*_reported(where, error, self._timeout))
            fault.is_transient = not isinstance(error, ReplyTooLong | Redirected)
            raise fault from None
        if not 200 <= status < 300:
            fault = MemoryFault(f"{where}: HTTP {status}: {_reason(content)}", _refused(status))
            fault.is_transient = status in _TRANSIENT
            raise fault
        return self._read(where, said.get("content-type", "no type"), content, kind)

    def _read(self, where: str, content_type: str, content: bytes, kind: type[_Reply]) -> _Reply:
        try:
            value = clean(body_as_json(content.decode("utf-8-sig")))
        except ValueError as error:
            raise MemoryFault(
                f"{where}: the reply is not JSON but {content_type}: {_excerpt(content)}", self._hint
            ) from error
        try:
            return kind.model_validate(value)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False)[0]
            place = ".".join(map(str, first["loc"])) or "the whole"
            raise MemoryFault(
                f"{where}: the reply is not as it should be: {place}: {first['msg']}", self._hint
            ) from error


def _base_of(url: str) -> Address | None:
    """Return an address that paths can be added to, None if it is none of HTTP."""
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


def _refused(status: int) -> str:
    return "check the key" if status in (401, 403) else "look at the server's log"


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
