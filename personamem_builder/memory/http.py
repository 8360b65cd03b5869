"""A memory system in another process or language, behind a small JSON API: `docs/memory_http.md` is its description."""

from __future__ import annotations

import json
import re
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, Final, TypeVar
from urllib.parse import SplitResult, urlsplit

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, NonNegativeInt, ValidationError

from generation.errors import UserError
from personamem_builder.memory.system import Memory, Session

API_VERSION: Final = 1
"""Sent with each request, and due in each reply."""

LIMIT: Final = 2**20
"""Bytes of a reply, at most: more than any `k` memories that fit a prompt."""

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


class _Found(BaseModel):
    model_config = ConfigDict(strict=True)

    text: str
    date: str = ""
    message_indices: list[NonNegativeInt] = []


class _SearchReply(_Reply):
    memories: list[_Found]


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
        parts = _parts_of(url)
        if parts is None:
            raise UserError(f"{url!r} is no address of a memory server", "give one such as http://127.0.0.1:8765")
        if not timeout > 0:
            raise UserError(f"timeout={timeout}: a request needs time", "give seconds, such as 60")
        self._connect = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._address = parts.netloc.rpartition("@")[2]
        self._path = parts.path.rstrip("/")
        self._url = f"{parts.scheme}://{self._address}{self._path}"
        self._timeout = timeout
        self._context = ""
        self._usage: Counter[str] = Counter()
        self.answer: Callable[[str, Sequence[str]], int] | None = None

    def reset(self) -> None:
        """Begin the history of another user.

        Raises:
            MemoryFault: See `_post`.
        """
        self._context = uuid.uuid4().hex
        reply = self._post("reset", {}, _ResetReply)
        self.answer = self._answer if reply.answers else None

    def add_session(self, session: Session) -> None:
        """Show the server the next conversation.

        Raises:
            MemoryFault: See `_post`.
        """
        shown = {
            "number": session.number,
            "date": session.date,
            "first_index": session.first_index,
            "messages": [{"role": message["role"], "content": message["content"]} for message in session.messages],
        }
        self._post("sessions", {"session": shown}, _Reply)

    def search(self, query: str, k: int) -> Sequence[Memory]:
        """Ask the server for up to `k` memories.

        Raises:
            MemoryFault: See `_post`.
        """
        reply = self._post("search", {"query": query, "k": k}, _SearchReply)
        return [Memory(found.text, found.date, tuple(found.message_indices)) for found in reply.memories]

    def usage(self) -> Mapping[str, float]:
        """Return the sums of what the server says that its calls took, such as `llm_calls` or `prompt_tokens`."""
        return dict(self._usage)

    def _answer(self, question: str, options: Sequence[str]) -> int:
        reply = self._post("answer", {"question": question, "options": list(options)}, _AnswerReply)
        if reply.index >= len(options):
            raise MemoryFault(f"{self._url}/answer: there is no option {reply.index} among {len(options)}")
        return reply.index

    def _post(self, name: str, payload: Mapping[str, Any], kind: type[_AnyReply]) -> _AnyReply:
        """Send a request.

        Args:
            name: The last part of its path.
            payload: What it holds beside version and context.
            kind: What the reply holds.

        Returns:
            The reply.

        Raises:
            MemoryFault: The server cannot be reached, takes too long, refuses, or replies with too much or with
                something else.
        """
        where = f"{self._url}/{name}"
        body = json.dumps({"version": API_VERSION, "context": self._context, **payload})
        try:
            # Texts of the web may hold halves of surrogate pairs, which are no UTF-8; JSON's escapes can hold them.
            status, content_type, content = self._exchange(name, body.encode("ascii"))
        except TimeoutError as error:
            raise MemoryFault(
                f"{where}: no reply in {self._timeout:g} s", "raise timeout, or look at its log"
            ) from error
        except ConnectionRefusedError as error:
            raise MemoryFault(f"{where}: no server is there", "start it, or correct url") from error
        except (OSError, HTTPException, UnicodeError) as error:  # the last for names that cannot be one of a host
            raise MemoryFault(f"{where}: {type(error).__name__}: {error}", "look at the server's log") from error
        if len(content) > LIMIT:
            raise MemoryFault(f"{where}: the reply has more than {LIMIT:,} bytes", "return fewer or shorter memories")
        if status != 200:
            raise MemoryFault(f"{where}: HTTP {status}: {_reason(content)}", "look at the server's log")
        reply = self._read(where, content_type, content, kind)
        self._usage.update(reply.usage)
        return reply

    def _exchange(self, name: str, body: bytes) -> tuple[int, str, bytes]:
        """Send a request over a connection of its own and read what comes, up to a little more than `LIMIT`."""
        until = time.monotonic() + self._timeout
        connection = self._connect(self._address, timeout=self._timeout)
        try:
            headers = {"Content-Type": "application/json", "Accept": "application/json"}
            connection.request("POST", f"{self._path}/{name}", body, headers)
            response = connection.getresponse()
            content = b""
            while len(content) <= LIMIT and (part := response.read1(2**16)):
                content += part
                if time.monotonic() > until:  # the time limit of a connection is for each part
                    raise TimeoutError
            if len(content) <= LIMIT and response.length:
                raise ConnectionResetError(f"the reply ends {response.length} bytes early")
            return response.status, response.headers.get("Content-Type", "no type"), content
        finally:
            connection.close()

    @staticmethod
    def _read(where: str, content_type: str, content: bytes, kind: type[_AnyReply]) -> _AnyReply:
        hint = "docs/memory_http.md says what a reply holds"
        try:
            value = json.loads(content)
        except (ValueError, RecursionError) as error:
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


def _parts_of(url: str) -> SplitResult | None:
    """Return the parts of an address, None if it is none of HTTP."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # fails where it is no number
    except ValueError:
        return None
    plain = parts.hostname and not (parts.query or parts.fragment or re.search(r"[\s\x00-\x1f\x7f]", url))
    return parts if plain and parts.scheme in ("http", "https") else None


def _reason(content: bytes) -> str:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return _excerpt(content)
    if isinstance(value, dict) and isinstance(error := value.get("error"), str):
        return error[:_SHOWN]
    return _excerpt(content)


def _excerpt(content: bytes) -> str:
    text = content[: 4 * _SHOWN].decode("utf-8", "replace")
    return repr(text[:_SHOWN]) if text else "nothing"
