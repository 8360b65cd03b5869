"""Replies that were paid for, kept so that they are never paid for twice."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from generation.errors import UserError


class ReplyCache:
    """Replies by the key of their request, in one SQLite file; safe for several threads and processes.

    Args:
        path: The file; made if it is not there.

    Raises:
        UserError: The file is no such cache, or cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._connect() as connection:
            # The lock first: several processes that begin together wait for one another only for a lock taken at once.
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, text TEXT NOT NULL)")

    @contextmanager
    def _connect(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self._path, timeout=60)) as connection, connection:
                yield connection
        except sqlite3.Error as error:
            hint = "move it away, or free some space if the disk is full"
            raise UserError(f"{self._path} cannot be used as a cache of replies: {error}", hint) from error

    def get(self, key: str) -> str | None:
        """Return the reply kept under a key, if there is one."""
        with self._connect() as connection:
            row = connection.execute("SELECT text FROM replies WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def put(self, key: str, text: str) -> None:
        """Keep a reply; it is on the disk when this returns."""
        with self._connect() as connection:
            connection.execute("INSERT OR REPLACE INTO replies VALUES (?, ?)", (key, text))
