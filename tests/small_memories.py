"""Memory systems that tests name as `small_memories:CLASS`."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path

from personamem_builder.memory.system import Memory, Session

CALLS: list[tuple[str, object]] = []
"""What was called, with what; tests empty it."""

KEY: dict[str, str] = {}
"""For each question's text something of its key, for the cheat; tests fill it."""


class Last:
    """It remembers the last messages."""

    def __init__(self) -> None:
        self.told: list[Memory] = []

    def reset(self) -> None:
        CALLS.append(("reset", None))
        self.told = []

    def add_session(self, session: Session) -> None:
        CALLS.append(("add_session", session))
        self.told += [
            Memory(message["content"], session.date, (i,))
            for i, message in enumerate(session.messages, session.first_index)
        ]

    def search(self, query: str, k: int) -> Sequence[Memory]:
        CALLS.append(("search", query))
        return self.told[-k:]


class Snapshots(Last):
    """It can be put away and taken up again."""

    def snapshot(self) -> bytes:
        return json.dumps(self.told).encode()

    def restore(self, content: bytes) -> None:
        CALLS.append(("restore", None))
        self.told = [Memory(text, date, tuple(places)) for text, date, places in json.loads(content)]


class Interrupted(Last):
    """The run that it is in is ended by Ctrl-C at its tenth call in all; another one goes on."""

    def add_session(self, session: Session) -> None:
        if len(CALLS) == STOP:
            raise KeyboardInterrupt
        super().add_session(session)

    def search(self, query: str, k: int) -> Sequence[Memory]:
        if len(CALLS) == STOP:
            raise KeyboardInterrupt
        return super().search(query, k)


STOP = 10


class InterruptedSnapshots(Interrupted, Snapshots):
    """The same, and it can be put away."""


class Foresees(Last):
    """It claims messages that it has not been shown."""

    def search(self, query: str, k: int) -> Sequence[Memory]:
        return [Memory("They like tea.", "", (0, 10_000))]


class Cheats(Last):
    """It has the key, and gives it away."""

    def search(self, query: str, k: int) -> Sequence[Memory]:
        return [Memory(KEY[query])] if query in KEY else super().search(query, k)


class Answers(Last):
    """It answers itself, always with the first option."""

    def answer(self, query: str, options: Sequence[str]) -> int:
        CALLS.append(("answer", (query, list(options))))
        return 0

    def usage(self) -> dict[str, float]:
        return {"calls": float(len(CALLS)), "dollars": 0.25 * len(CALLS)}


class WithoutSearch:
    """It lacks a method."""

    def reset(self) -> None: ...

    def add_session(self, session: Session) -> None: ...


class OtherArguments(Last):
    """Its search knows no k."""

    def search(self, query: str) -> Sequence[Memory]:  # type: ignore[override]
        return self.told


class NeedsMore(Last):
    """It needs a library that is not installed."""

    def __init__(self) -> None:
        import no_such_library  # noqa: F401


BROKEN: set[str] = set()
"""The methods at which `Flaky` fails, and the number of a session at which it does; tests fill it."""


class Flaky(Last):
    """It fails as its server does."""

    def add_session(self, session: Session) -> None:
        if {"add_session", str(session.number)} & BROKEN:
            raise ConnectionError("the server is down")
        super().add_session(session)

    def search(self, query: str, k: int) -> Sequence[Memory]:
        if "search" in BROKEN:
            raise OSError("the server is down")
        return super().search(query, k)


# ---- in processes of their own


class SlowAt(Last):
    """It takes long over the history that has a text; what it uses grows with what it is shown."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
        self.shown = 0

    def add_session(self, session: Session) -> None:
        if any(self.text in message["content"] for message in session.messages):
            time.sleep(0.3)
        self.shown += len(session.messages)
        super().add_session(session)

    def usage(self) -> dict[str, float]:
        return {"dollars": 0.1 * self.shown}


EVER_TOLD: list[Memory] = []
"""What `Reckless` keeps outside of itself."""


class Reckless(Last):
    """It forgets nothing at a reset, and takes its process down at the history that has a text, while a file is there.

    The number of its process stands before each memory.
    """

    def __init__(self, text: str, file: str) -> None:
        super().__init__()
        self.text, self.file = text, Path(file)

    def add_session(self, session: Session) -> None:
        if self.file.exists() and any(self.text in message["content"] for message in session.messages):
            os._exit(3)
        super().add_session(session)
        EVER_TOLD.extend(self.told[-len(session.messages) :])

    def search(self, query: str, k: int) -> Sequence[Memory]:
        return [Memory(f"{os.getpid()}: {memory.text}") for memory in EVER_TOLD]


class Single(Last):
    """There is one of it, wherever it is made."""

    parallel = False


class Undecided(Last):
    """It says nothing of use."""

    parallel = "perhaps"
