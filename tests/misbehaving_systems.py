"""Memory systems that each break one promise, by name: `misbehaving_systems:NAME`; `Good` breaks none."""

from __future__ import annotations

import itertools
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from personamem_builder.memory.system import Memory, Session


def words(text: str) -> set[str]:
    return {word.strip("?.,:").lower() for word in text.split()}


class Good:
    """Finds messages that share words with the query; it can be put away."""

    def __init__(self) -> None:
        self.told: list[Memory] = []

    def reset(self) -> None:
        self.told = []

    def add_session(self, session: Session) -> None:
        for index, message in enumerate(session.messages, session.first_index):
            if message["role"] == "user":
                self.told.append(Memory(message["content"], session.date, (index,)))

    def search(self, query: str, k: int) -> Sequence[Memory]:
        asked = words(query)
        scored = sorted(enumerate(self.told), key=lambda one: (-len(asked & words(one[1].text)), -one[0]))
        return [memory for _, memory in scored][:k]

    def snapshot(self) -> bytes:
        return json.dumps(self.told).encode()

    def restore(self, content: bytes) -> None:
        self.told = [Memory(text, date, tuple(places)) for text, date, places in json.loads(content)]

    def usage(self) -> dict[str, float]:
        return {"messages": len(self.told)}


class Forgetful(Good):
    """Finds nothing."""

    def search(self, query: str, k: int) -> Sequence[Memory]:
        return []


class Surplus(Good):
    def search(self, query: str, k: int) -> Sequence[Memory]:
        return super().search(query, k + 1)


class Prophet(Good):
    """Remembers something before it is told anything."""

    def search(self, query: str, k: int) -> Sequence[Memory]:
        return super().search(query, k) or [Memory("The user likes tea.")]


class Conservative(Good):
    """Once told what the user likes, it lets nothing change that."""

    def add_session(self, session: Session) -> None:
        super().add_session(session)
        self.told = [memory for memory in self.told if "gone off" not in memory.text]


class OfToday(Good):
    """Dates everything on one day."""

    def search(self, query: str, k: int) -> Sequence[Memory]:
        return [memory._replace(date="2026-11-29") for memory in super().search(query, k)]


class LosesPieces(Good):
    """Keeps sessions by their number."""

    def add_session(self, session: Session) -> None:
        self.told = [memory for memory in self.told if memory.date != session.date]
        super().add_session(session)


class Notebook(Good):
    """Writes down what it is asked."""

    def search(self, query: str, k: int) -> Sequence[Memory]:
        found = super().search(query, k)
        self.told.append(Memory(query))
        return found


class Moody(Good):
    """Each search begins elsewhere."""

    count = itertools.count()

    def search(self, query: str, k: int) -> Sequence[Memory]:
        found = list(super().search(query, k))
        place = next(self.count) % max(1, len(found))
        return found[place:] + found[:place]


class Shared(Good):
    """Keeps what everybody says in one place."""

    kept: ClassVar[list[Memory]] = []

    def reset(self) -> None:
        self.told = self.kept


class SideBySide(Good):
    """Keeps one user at a time, wherever it is made, and does not say so."""

    kept: ClassVar[list[Memory]] = []

    def __init__(self) -> None:
        self.told = self.kept

    def reset(self) -> None:
        self.kept.clear()


class Single(SideBySide):
    """Keeps one user at a time, and says so."""

    parallel = False


class Files(Good):
    """Leaves a file of all that it was told."""

    def __init__(self) -> None:
        super().__init__()
        self.path = Path(tempfile.mkdtemp()) / "log.txt"

    def add_session(self, session: Session) -> None:
        super().add_session(session)
        with self.path.open("a", encoding="utf-8", errors="replace") as file:
            file.writelines(memory.text for memory in self.told)


class HalfSnapshots(Good):
    def restore(self, content: bytes) -> None:
        super().restore(content)
        del self.told[::2]


class Locked(Good):
    """Leaves a lock behind where its process dies."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self.lock = Path(folder) / "lock"
        if self.lock.exists():
            raise RuntimeError("somebody else is at it")

    def reset(self) -> None:
        super().reset()
        self.lock.unlink(missing_ok=True)

    def add_session(self, session: Session) -> None:
        self.lock.touch()
        super().add_session(session)

    def search(self, query: str, k: int) -> Sequence[Memory]:
        self.lock.unlink(missing_ok=True)
        return super().search(query, k)


class Fragile(Good):
    """Takes in what UTF-8 can hold."""

    def add_session(self, session: Session) -> None:
        for message in session.messages:
            message["content"].encode()
        super().add_session(session)


class Refunds(Good):
    """What it used grows less."""

    def usage(self) -> dict[str, float]:
        return {"cost": -float(len(self.told))}


class Slow(Good):
    def search(self, query: str, k: int) -> Sequence[Memory]:
        time.sleep(0.6)
        return super().search(query, k)


class Broken(Good):
    def add_session(self, session: Session) -> None:
        raise ValueError("no space left")


class NoMemories(Good):
    def search(self, query: str, k: int) -> Any:
        return ["what the user said"]
