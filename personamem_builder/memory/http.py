"""A memory system in another process or language, behind a small JSON API: `docs/memory_http.md` is its description."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, NonNegativeInt

from personamem_builder.memory.json_server import JsonServer, MemoryFault
from personamem_builder.memory.system import Memory, Session

API_VERSION: Final = 1
"""Sent with each request, and due in each reply."""


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
    takes_in_once = True

    def __init__(self, url: str, timeout: float = 60.0, label: str = "") -> None:
        self._server = JsonServer(url, timeout, "docs/memory_http.md")
        self._url = self._server.url
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
            MemoryFault: See `JsonServer.post`; or the server speaks another version.
        """
        reply = self._server.post(name, {"version": API_VERSION, "context": self._context, **payload}, kind)
        if reply.version != API_VERSION:
            raise MemoryFault(
                f"{self._url}/{name}: the server speaks version {reply.version}, not {API_VERSION}",
                "docs/memory_http.md says what a reply holds",
            )
        self._usage.update(reply.usage)
        return reply
