"""Replies that were paid for, kept so that they are never paid for twice."""

from __future__ import annotations

import sqlite3
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock

from generation.errors import UserError
from generation.interruption import is_stopping


def _locked(path: Path) -> FileLock:
    path.parent.stat()  # raises where there is no such folder, which a lock would make
    return FileLock(path.with_name(f".{path.name}.lock"))


class _PendingReply(NamedTuple):
    """A reply that waits to be written, and what to tell when it is on the disk."""

    key: str
    text: str
    done: Future[None]


class ReplyCache:
    """Replies by the key of their request, in one SQLite file; safe for several threads and processes of a machine.

    Args:
        path: The file; made if it is not there.
        what: What it is, for errors.

    Raises:
        UserError: The file is no such cache, or cannot be opened.
    """

    def __init__(self, path: Path, what: str = "a cache of replies") -> None:
        self._path, self._what = path, what
        self._waiting: deque[_PendingReply] = deque()
        self._soon: deque[Future[None]] = deque()
        self._closing: list[Callable[[], object]] = []
        # A thread that is no daemon: Python ends only when it has written what waits.
        self._later = ThreadPoolExecutor(1, thread_name_prefix=path.name)
        self._reading, self._writing = threading.Lock(), threading.Lock()
        # SQLite does not let processes that begin together wait for one another while its log is turned on.
        with self._named_errors(), _locked(path):
            if not path.exists():  # the user removed it, but not the log that a kill left
                for suffix in ("-wal", "-shm"):
                    path.with_name(path.name + suffix).unlink(missing_ok=True)
            # Two connections: with a log of changes (WAL), who reads does not wait for what is being written.
            self._reader, self._writer = self._connect(), self._connect()
            with self._writer:
                self._writer.execute("PRAGMA journal_mode=WAL")
                self._writer.execute("PRAGMA synchronous=FULL")
                self._writer.execute("CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, text TEXT NOT NULL)")

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=60, isolation_level="IMMEDIATE", check_same_thread=False)
        self._closing.append(weakref.finalize(self, connection.close))
        return connection

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            hint = "move it away, or free some space if the disk is full"
            raise UserError(f"{self._path} cannot be used as {self._what}: {error}", hint) from error

    def get(self, key: str) -> str | None:
        """Return the reply kept under a key, if there is one."""
        with self._reading, self._named_errors():
            rows = self._reader.execute("SELECT text FROM replies WHERE key = ?", (key,)).fetchall()
        return str(rows[0][0]) if rows else None

    def put(self, key: str, text: str) -> None:
        """Keep a reply; it is on the disk when this returns."""
        put = _PendingReply(key, text, Future())
        self._waiting.append(put)
        with self._writing:
            if not put.done.done():  # else a thread before this one wrote it along with its own
                self._write_waiting()
        put.done.result()

    def put_soon(self, key: str, text: str) -> None:
        """Keep a reply without waiting for the disk, which a thread writes to at once.

        Raises:
            UserError: An earlier reply could not be written.
        """
        put = _PendingReply(key, text, Future())
        self._waiting.append(put)
        self._soon.append(put.done)
        self._later.submit(self._write_if_any)
        while self._soon and self._soon[0].done():
            self._soon.popleft().result()

    def flush(self) -> None:
        """Return when all is on the disk."""
        while self._soon:
            self._soon.popleft().result()

    def __enter__(self) -> ReplyCache:
        return self

    def __exit__(self, *error: object) -> None:
        if not is_stopping():  # else a call under way may still have a reply to keep
            self.close()

    def close(self) -> None:
        """Write what waits, and let go of the file."""
        self._later.shutdown()
        for close in self._closing:
            close()

    def _write_if_any(self) -> None:
        with self._writing:
            if self._waiting:
                self._write_waiting()

    def _write_waiting(self) -> None:
        """Write all that waits at once: the disk takes as long for many replies as for one."""
        batch = [self._waiting.popleft() for _ in range(len(self._waiting))]
        try:
            with self._named_errors(), self._writer:
                rows = [(put.key, put.text) for put in batch]
                self._writer.executemany("INSERT OR REPLACE INTO replies VALUES (?, ?)", rows)
        except BaseException as error:
            for put in batch:
                put.done.set_exception(error)
        else:
            for put in batch:
                put.done.set_result(None)
