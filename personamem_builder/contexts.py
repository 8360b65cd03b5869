"""Shared contexts of a dataset folder, read one at a time.

A row group of their file holds the contexts of some personas, each distinct text of them once, in a dictionary. Read as
a dictionary it takes the memory of these texts, however many contexts repeat them. The file may lie elsewhere, such as
on the Hub: of it, too, only the row groups in question are read.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO, Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from generation.errors import UserError

Message = dict[str, str]

_KEPT: Final = 2
"""Decoded contexts kept: questions come sorted by context, and a run may look at two of them in turn."""

GROUPS_KEPT: Final = 4
"""Row groups kept, of about 32 MiB of text at most (see `dataset.context_file`): shuffled questions are cheap too."""

_TEXTS: Final = ("messages.list.element.content",)


class RemoteFile(Protocol):
    """A file of shared contexts that is not on this machine, equal to those with the same content."""

    def __hash__(self) -> int:
        """Return the same for equal ones."""

    def open(self) -> BinaryIO:
        """Open the file."""


class ContextStore:
    """Resolves `(shared_context_id, end_index)` to messages, with the texts of a few row groups in memory.

    Args:
        folder: A dataset folder, whose `data/shared_contexts_*.parquet` are searched by id and else not read.
        remote: A file to read in place of these.
    """

    def __init__(self, folder: Path, remote: RemoteFile | None = None) -> None:
        self.folder = folder
        sources = [remote.open()] if remote else context_files(folder)
        self._files = [_open_file(source) for source in sources]
        self._place: dict[str, tuple[pq.ParquetFile, int, int]] = {}
        self._unsearched = iter([(file, group) for file in self._files for group in range(file.num_row_groups)])
        self._lock = Lock()
        self._decoded = functools.lru_cache(maxsize=_KEPT)(self._decode)
        self._group = functools.lru_cache(maxsize=GROUPS_KEPT)(_read_messages)
        self._starts = functools.cache(_read_starts)

    @property
    def num_groups(self) -> int:
        """How many row groups there are."""
        return sum(file.num_row_groups for file in self._files)

    def count_groups(self, shared_context_ids: Iterable[str]) -> int:
        """Return in how many row groups some contexts are.

        Raises:
            UserError: The folder lacks one of the contexts.
        """
        return len({self._find(key)[:2] for key in shared_context_ids})

    def messages(self, shared_context_id: str, end_index: int) -> list[Message]:
        """Return `messages[:end_index]` of a context, as objects of the caller's own.

        Raises:
            UserError: The folder has no such context.
        """
        return [message.copy() for message in self._decoded(shared_context_id)[:end_index]]

    def session_starts(self, shared_context_id: str) -> list[int]:
        """Return the indices into the whole context at which a session starts.

        Raises:
            UserError: The folder has no such context.
        """
        file, group, row = self._find(shared_context_id)
        return self._starts(file, group)[row]

    def batch(self, keys: Sequence[tuple[str, int]]) -> list[list[Message]]:
        """Return the messages of several questions; those of one context share their message objects.

        A batch of a thousand questions would otherwise hold a thousand copies of a few histories.

        Raises:
            UserError: The folder lacks one of the contexts.
        """
        decoded = {key: self._decode(key) for key in dict.fromkeys(key for key, _ in keys)}
        return [decoded[key][:end] for key, end in keys]

    def _decode(self, shared_context_id: str) -> list[Message]:
        file, group, row = self._find(shared_context_id)
        return _messages(self._group(file, group), row)

    def _find(self, shared_context_id: str) -> tuple[pq.ParquetFile, int, int]:
        with self._lock:
            while shared_context_id not in self._place:
                file, group = next(self._unsearched, (None, 0))
                if file is None:
                    raise UserError(
                        f"{self.folder} has no shared context {shared_context_id}",
                        "the folder was changed after its questions were loaded, or lacks the contexts of a split: "
                        "load the dataset again",
                    )
                ids = file.read_row_group(group, columns=["shared_context_id"]).column(0).to_pylist()
                self._place |= {key: (file, group, row) for row, key in enumerate(ids)}
            return self._place[shared_context_id]


def iter_contexts(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file of shared contexts, with the columns of `schema.CONTEXT_SCHEMA`.

    One context is decoded at a time; the distinct texts of one row group are in memory.

    Args:
        path: The file.
    """
    file = _open_file(path)
    for group in range(file.num_row_groups):
        yield from _rows(file.read_row_group(group))


def read_context(path: Path, shared_context_id: str) -> dict[str, Any] | None:
    """Return one row of a file of shared contexts, None if it is not there."""
    file = _open_file(path)
    for group in range(file.num_row_groups):
        ids = file.read_row_group(group, columns=["shared_context_id"]).column(0).to_pylist()
        if shared_context_id in ids:
            return next(_rows(file.read_row_group(group).slice(ids.index(shared_context_id), 1)))
    return None


def _open_file(source: Path | BinaryIO) -> pq.ParquetFile:
    return pq.ParquetFile(source, memory_map=True, read_dictionary=_TEXTS)


def _read_messages(file: pq.ParquetFile, group: int) -> pa.ChunkedArray:
    return file.read_row_group(group, columns=["messages"]).column(0)


def _read_starts(file: pq.ParquetFile, group: int) -> list[list[int]]:
    starts: list[list[int]] = file.read_row_group(group, columns=["session_starts"]).column(0).to_pylist()
    return starts


def _rows(table: pa.Table) -> Iterator[dict[str, Any]]:
    messages = table.column("messages")
    for i, row in enumerate(table.drop_columns(["messages"]).to_pylist()):
        yield {**row, "messages": _messages(messages, i)}


def _messages(column: pa.ChunkedArray, row: int) -> list[Message]:
    values = column[row].values
    roles, contents = values.field("role").to_pylist(), values.field("content").dictionary_decode().to_pylist()
    return [{"role": role, "content": content} for role, content in zip(roles, contents, strict=True)]


def context_files(folder: Path) -> list[Path]:
    """Return the Parquet files of a dataset folder that hold shared contexts."""
    return sorted((folder / "data").glob("shared_contexts_*.parquet"))


def open_contexts(folder: Path, remote: RemoteFile | None = None) -> ContextStore:
    """Return the store of a folder, opened once for as long as its files stay the same.

    Args:
        folder: The dataset folder.
        remote: A file to read in place of those of the folder.
    """
    stats = [] if remote else [path.stat() for path in context_files(folder)]
    return _open(folder, remote, tuple((s.st_ino, s.st_size, s.st_mtime_ns) for s in stats), os.getpid())


@functools.lru_cache(maxsize=4)
def _open(
    folder: Path, remote: RemoteFile | None, _files: tuple[tuple[int, int, int], ...], _process: int
) -> ContextStore:
    # Keyed by process too: open files must not be shared with forked workers.
    return ContextStore(folder, remote)
