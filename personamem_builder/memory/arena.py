"""The memory system `arena`: any server that speaks the contract of the Agent Memory Leaderboard."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, TypeVar, get_args

from pydantic import BaseModel, ConfigDict

from generation.errors import UserError
from generation.http import address_of, is_header_value
from personamem_builder.memory.json_server import JsonServer, MemoryFault
from personamem_builder.memory.sessions import without_speaker
from personamem_builder.memory.system import Memory, Session

Auth = Literal["Bearer", "Token", "X-Api-Key"]
_AUTHS: Final[tuple[Auth, ...]] = get_args(Auth)

KEY_VARIABLE: Final = "ARENA_API_KEY"
_MANUAL: Final = "docs/memory.md, 'A server of the Agent Memory Leaderboard',"

_TRIES: Final = 3
_WAIT_SECONDS: Final = 0.5
_ISO_DATE: Final = len("2024-05-01")

_Result = TypeVar("_Result", bound=BaseModel)


class _Added(BaseModel):
    model_config = ConfigDict(strict=True)

    success: bool
    request_id: str | None = None
    user_id: str | None = None
    session_id: str | None = None


class _Item(BaseModel):
    content: str
    created_at: str | float | None = None


class _Found(BaseModel):
    data: list[_Item]


class ArenaMemory:
    """A server with `POST /add` and `POST /search`, in which `user_id` alone tells users apart.

    Each history is a user of its own with a made-up name, and each session a request with an id that follows from both:
    a request that failed on its way is sent again, at most twice, since the contract has the server take in an id once.
    The user's profile is not sent. Before the first history two made-up users make sure that the server keeps them
    apart.

    The contract lets a client send the options of a question with the search. They are not sent, unless
    `send_options` asks for it to measure what they are worth; the whole run then counts as tainted.

    Args:
        url: Where the server is; a path in it stands before `/add` and `/search`.
        auth: How the key in `ARENA_API_KEY` is sent: `Bearer` and `Token` in the header `Authorization`, `X-Api-Key`
            in a header of this name. Without a key nothing is sent.
        timeout: Seconds that one try of a request may take.
        send_options: Whether the server is shown the options of each question.
        label: What tells versions of the server apart, see `HttpMemory`.

    Attributes:
        search_with_options: `search` with the options of the question; None unless they are to be sent.

    Raises:
        UserError: The address is none of HTTP or has credentials, there is no time, or the key is of no use.
    """

    version = 1
    takes_in_once = True

    def __init__(
        self, url: str, auth: Auth = "Bearer", timeout: float = 180.0, send_options: bool = False, label: str = ""
    ) -> None:
        address = address_of(url)
        if address is not None and address.credentials:
            raise UserError(
                f"the address of the memory server at {address.place} has credentials in it, and settings are kept",
                f"leave them out, and put the key into {KEY_VARIABLE}",
            )
        self._server = JsonServer(url, timeout, _MANUAL, _auth_headers(auth))
        self._user = ""
        self._is_trusted = False
        self._dates: set[str] = set()
        self._places: dict[str, int] = {}
        self._probe = ""
        self.search_with_options: Callable[[str, int, Sequence[str]], Sequence[Memory]] | None = (
            self._search if send_options else None
        )

    def reset(self) -> None:
        """Begin the history of another user.

        Raises:
            MemoryFault: The server gives one user what another said, or cannot be asked.
        """
        if not self._is_trusted:
            self._check_isolation()
            self._is_trusted = True
        self._begin(_new_user())

    def _begin(self, user: str) -> None:
        self._user = user
        self._dates, self._places, self._probe = set(), {}, ""

    def add_session(self, session: Session) -> None:
        """Show the server the next conversation, once.

        Raises:
            MemoryFault: It cannot be asked, says that it failed, or speaks of another request.
        """
        said = [(i, m) for i, m in enumerate(session.messages, session.first_index) if m["role"] != "system"]
        self._know(session)
        if said:
            messages = [{"role": m["role"], "content": m["content"], **_timestamp(session.date, i)} for i, m in said]
            self._add(self._user, f"session-{session.number}", session.first_index, messages)
            self._probe = said[0][1]["content"]

    def search(self, query: str, k: int) -> Sequence[Memory]:
        """Ask the server for up to `k` memories."""
        return self._search(query, k)

    def snapshot(self) -> bytes:
        """Return the name under which the server knows this user; what it knows stays with it."""
        known = {"user": self._user, "dates": sorted(self._dates), "places": self._places, "probe": self._probe}
        return json.dumps(known).encode()

    def restore(self, content: bytes) -> None:
        """Go on with a user whom the server knows.

        Raises:
            MemoryFault: It knows nothing of that user any more.
        """
        known = json.loads(content)
        self._begin(known["user"])
        if known["probe"] and not self._ask(self._user, known["probe"], 1, None).data:
            raise MemoryFault(f"{self._server.url}/search: the server has forgotten a user", "it is shown all again")
        self._dates, self._places, self._probe = set(known["dates"]), known["places"], known["probe"]

    def _know(self, session: Session) -> None:
        self._dates.add(session.date)
        for i, message in enumerate(session.messages, session.first_index):
            if message["role"] != "system":
                self._places[_digest(message["content"])] = i

    def _search(self, query: str, k: int, options: Sequence[str] | None = None) -> Sequence[Memory]:
        return [self._memory(item) for item in self._ask(self._user, query, k, options).data]

    def _memory(self, item: _Item) -> Memory:
        place = self._places.get(_digest(item.content))
        date = _day(item.created_at)
        # A day on which nothing was said is the day of the run.
        return Memory(item.content, date if date in self._dates else "", () if place is None else (place,))

    # ---- requests

    def _add(self, user: str, session: str, first_index: int, messages: Sequence[Mapping[str, Any]]) -> None:
        ids = {"request_id": f"{user}-{first_index}", "user_id": user, "session_id": session}
        reply = self._post("add", {**ids, "messages": messages}, _Added)
        said = reply.model_dump()
        if not reply.success:
            raise MemoryFault(f"{self._server.url}/add: the server says that it failed", "look at its log")
        if differing := [key for key, value in ids.items() if said[key] not in (None, value)]:
            raise MemoryFault(
                f"{self._server.url}/add: the reply is about another {differing[0]}: {said[differing[0]]!r}"[:300],
                "a server that mixes requests up mixes users up",
            )

    def _ask(self, user: str, query: str, k: int, options: Sequence[str] | None) -> _Found:
        shown = {} if options is None else {"options": list(options)}
        return self._post("search", {"query": query, "user_id": user, "top_k": k, **shown}, _Found)

    def _post(self, name: str, payload: Mapping[str, Any], kind: type[_Result]) -> _Result:
        """Send a request, again where it failed on its way: the contract has it take effect once."""
        for number in range(_TRIES - 1):
            try:
                return self._server.post(name, payload, kind)
            except MemoryFault as fault:
                if not fault.is_transient:
                    raise
            time.sleep(_WAIT_SECONDS * 4**number)
        return self._server.post(name, payload, kind)

    def _check_isolation(self) -> None:
        """Make sure that the server gives no user what another said.

        Raises:
            MemoryFault: It does.
        """
        word = "zq" + uuid.uuid4().hex[:12].translate(str.maketrans("0123456789", "ghijklmnop"))
        told = [
            {"role": "user", "content": f"My boat is called {word}, after my grandmother's boat."},
            {"role": "assistant", "content": f"{word} is a fine name for a boat."},
        ]
        self._add(_new_user(), "session-0", 0, told)
        # A question would find what other users said of their boats before that.
        found = self._ask(_new_user(), word, 10, None)
        if any(word in item.content.lower() and item.content.strip() != word for item in found.data):
            raise MemoryFault(
                f"{self._server.url}: the server gives one user what another said: no result would mean anything",
                "have it keep users apart by user_id",
            )


def _new_user() -> str:
    return f"personamem-{uuid.uuid4().hex}"


def _digest(text: str) -> str:
    """Return what stands for a message, whoever is named in front of it."""
    return hashlib.sha256(without_speaker(text).strip().encode("utf-8", "replace")).hexdigest()[:16]


def _auth_headers(auth: str) -> dict[str, str]:
    if auth not in _AUTHS:
        raise UserError(f"auth={auth}: there is no such way to send a key", f"use one of {', '.join(_AUTHS)}")
    key = os.environ.get(KEY_VARIABLE, "").strip()
    if not key:
        return {}
    if not is_header_value(key):
        raise UserError(f"{KEY_VARIABLE} holds what no header can", "set it to the key alone")
    return {"X-Api-Key": key} if auth == "X-Api-Key" else {"Authorization": f"{auth} {key}"}


def _timestamp(date: str, index: int) -> dict[str, int]:
    """Return the day of a message in milliseconds, with a second for each message before it, so that order shows."""
    try:
        day = dt.datetime.fromisoformat(date).replace(tzinfo=dt.UTC)
    except ValueError:
        return {}
    return {"timestamp": int(day.timestamp() + index) * 1000}


def _day(created_at: str | float | None) -> str:
    """Return the ISO date of a time in ISO's form, in seconds or in milliseconds; empty where it is none."""
    if isinstance(created_at, str):
        return created_at[:_ISO_DATE]
    if created_at is None:
        return ""
    seconds = created_at / 1000 if abs(created_at) > 1e11 else created_at  # 1e11 s are 3,000 years
    try:
        return dt.datetime.fromtimestamp(seconds, dt.UTC).date().isoformat()
    except (OverflowError, ValueError, OSError):
        return ""
