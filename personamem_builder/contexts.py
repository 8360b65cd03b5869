"""Shared contexts of a dataset folder, read one at a time.

A row group of their file holds the contexts of some personas, each distinct text of them once, in a dictionary. Read as
a dictionary it takes the memory of these texts, however many contexts repeat them.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from generation.errors import UserError

Message = dict[str, str]

_KEPT: Final = 2
"""Decoded contexts kept: questions come sorted by context, and a run may look at two of them in turn."""

_GROUPS_KEPT: Final = 4
"""Row groups kept, of about 32 MiB of text at most (see `dataset.context_file`): shuffled questions are cheap too."""

_TEXTS: Final = ("messages.list.element.content",)


class ContextStore:
    """Resolves `(shared_context_id, end_index)` to messages, with the texts of a few row groups in memory.

    Args:
        folder: A dataset folder; its `data/shared_contexts_*.parquet` are indexed by id, not read.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._place: dict[str, tuple[pq.ParquetFile, int, int]] = {}
        self._starts: dict[str, list[int]] = {}
        for path in context_files(folder):
            file = _open_file(path)
            for group in range(file.num_row_groups):
                rows = file.read_row_group(group, columns=["shared_context_id", "session_starts"]).to_pylist()
                self._place |= {row["shared_context_id"]: (file, group, i) for i, row in enumerate(rows)}
                self._starts |= {row["shared_context_id"]: row["session_starts"] for row in rows}
        self._decoded = functools.lru_cache(maxsize=_KEPT)(self._decode)
        self._group = functools.lru_cache(maxsize=_GROUPS_KEPT)(_read_messages)

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
        self._find(shared_context_id)
        return self._starts[shared_context_id]

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
        try:
            return self._place[shared_context_id]
        except KeyError:
            raise UserError(
                f"{self.folder} has no shared context {shared_context_id}",
                "the folder was changed after its questions were loaded: load the dataset again",
            ) from None


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


def _open_file(path: Path) -> pq.ParquetFile:
    return pq.ParquetFile(path, memory_map=True, read_dictionary=_TEXTS)


def _read_messages(file: pq.ParquetFile, group: int) -> pa.ChunkedArray:
    return file.read_row_group(group, columns=["messages"]).column(0)


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


def open_contexts(folder: Path) -> ContextStore:
    """Return the store of a folder, opened once for as long as its files stay the same."""
    stats = [path.stat() for path in context_files(folder)]
    return _open(folder, tuple((s.st_ino, s.st_size, s.st_mtime_ns) for s in stats), os.getpid())


@functools.lru_cache(maxsize=4)
def _open(folder: Path, _files: tuple[tuple[int, int, int], ...], _process: int) -> ContextStore:
    # Keyed by process too: open files must not be shared with forked workers.
    return ContextStore(folder)
