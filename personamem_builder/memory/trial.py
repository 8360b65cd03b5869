"""A memory system on trial: its calls have a time limit, and what goes wrong is told in words."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from generation.errors import UserError
from personamem_builder.memory.firewall import check_memories
from personamem_builder.memory.made_up import MadeUpUser
from personamem_builder.memory.registry import SystemSpec
from personamem_builder.memory.system import Memory, Session
from personamem_builder.memory.worker import Hung, Worker

_K: Final = 10
_LONGEST: Final = 300


class Failure(Exception):
    """What a system does wrong, in words."""


class Unclear(Exception):
    """Why a check cannot tell."""


class Skipped(Exception):
    """What the system does not have."""


class Trial:
    """A system in a thread of its own, whose calls have a time limit."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._texts: list[str] = []
        self._worker = Worker()
        self.system: Any = self.call("making it", lab.spec.make)
        self.call("reset", self.system.reset)

    def call(self, what: str, function: Callable[[], Any]) -> Any:
        """Return what a call gives.

        Raises:
            Failure: It fails, or takes too long.
        """
        started = time.perf_counter()
        try:
            return self._worker.call(function, self._lab.timeout)
        except Hung as hung:
            raise Failure(f"{what} hangs: {hung}") from None
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            told = error.message if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
            raise Failure(f"{what} fails: {told}"[:_LONGEST]) from None
        finally:
            seconds = time.perf_counter() - started
            self._lab.slowest = max(self._lab.slowest, (seconds, what))

    def reset(self) -> None:
        """Begin another user's history."""
        self._texts = []
        self.call("reset", self.system.reset)

    def feed(self, sessions: Sequence[Session]) -> None:
        """Show sessions."""
        for session in sessions:
            copy = session._replace(messages=tuple(message.copy() for message in session.messages))
            self.call(f"add_session of session {session.number}", partial(self.system.add_session, copy))
            self.knows([session])

    def knows(self, sessions: Sequence[Session]) -> None:
        """Note that the system knows these sessions now, however it came to know them."""
        for session in sessions:  # one that is shown again stands where it stood
            self._texts[session.first_index :] = [message["content"] for message in session.messages]

    def search(self, query: str, k: int = _K, *, is_strict: bool = True) -> list[Memory]:
        """Return what is found, made fit for a prompt.

        Raises:
            Failure: It is nothing that can be read, or, where that is strict, has other faults.
        """
        given = self.call("search", lambda: list(self.system.search(query, k) or ()))
        try:
            checked = check_memories(given, k, self._texts, len(self._texts))
        except Exception as error:
            raise Failure(f"search: {error}") from None
        if is_strict and (faults := [fault for fault in checked.faults if fault != "markup"]):
            raise Failure(f"search({query[:30]!r}, {k}) has faults: {', '.join(map(_IN_WORDS.__getitem__, faults))}")
        return list(checked.memories)

    def found(self, user: MadeUpUser) -> list[list[Memory]]:
        """Return what is found for each fact of a user."""
        return [self.search(fact.question) for fact in user.facts]

    def close(self) -> None:
        """Let go of the system."""
        self._worker.close()


_IN_WORDS: Final[Mapping[str, str]] = {
    "surplus": "more than k memories",
    "too_long": "more text than the history has",
    "date": "a date that is no ISO date",
    "places": "message_indices of messages that the text does not repeat",
}


class Lab:
    """Where trials are made, and what is known of the system so far.

    Attributes:
        timeout: Seconds that one call may take.
        slowest: The seconds of the slowest call so far, and what it was.
        found: Which facts of the first user were found.
    """

    def __init__(self, spec: SystemSpec, timeout: float) -> None:
        self.spec = spec
        self.timeout = timeout
        self.slowest = (0.0, "nothing")
        self.found: set[int] = set()

    @contextmanager
    def trial(self, *sessions: Session) -> Iterator[Trial]:
        """Make a system that has been shown some sessions."""
        trial = Trial(self)
        try:
            trial.feed(sessions)
            yield trial
        finally:
            trial.close()

    def sure(self, good: str) -> str:
        """Return what is well, if the system finds anything at all: else it is no wonder that nothing comes back.

        Raises:
            Unclear: It finds nothing.
        """
        if not self.found:
            raise Unclear("nothing of what it was told comes back")
        return good

    def sure_of(self, place: int) -> bool:
        """Return True if the system finds this fact of the first user.

        Raises:
            Unclear: It does not.
        """
        if place not in self.found:
            raise Unclear("what it is asked for here it does not find elsewhere either")
        return True


@contextmanager
def temporary_files_in(folder: str) -> Iterator[None]:
    """Have temporary files, of this process and of those that it starts, made in a folder."""
    before, variable = tempfile.tempdir, os.environ.get("TMPDIR")
    tempfile.tempdir, os.environ["TMPDIR"] = folder, folder
    try:
        yield
    finally:
        tempfile.tempdir = before
        if variable is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = variable
