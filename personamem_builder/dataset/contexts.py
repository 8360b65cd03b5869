"""Shared contexts of a dataset folder, read one at a time.

A row group of their files holds the contexts of some personas, each distinct text of them once, in a dictionary. Read
as a dictionary it takes the memory of these texts, however many contexts repeat them. The files may lie elsewhere, such
as on the Hub: of them, too, only the row groups in question are read.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from generation.errors import UserError
from personamem_builder.dataset.context_places import (
    ContextPlaces,
    Place,
    RemoteFile,
    open_contexts_file,
    read_ids,
)
from personamem_builder.dataset.folder import context_files, missing_files
from personamem_builder.dataset.parquet_reading import AGAIN, reading_parquet
from personamem_builder.manifest import read_manifest
from personamem_builder.schema import CONTEXT_SCHEMA, ContextRow, Message

_KEPT: Final = 2
"""Decoded contexts kept: questions come sorted by context, and a run may look at two of them in turn."""

GROUPS_KEPT: Final = 4
"""Row groups kept, of about 32 MiB of text at most (see `build.contexts_parquet`): shuffled questions are cheap too."""

_STARTS_KEPT: Final = 64
"""Row groups of which the starts of sessions are kept, some numbers each."""

MAX_CONTEXT_BYTES: Final = 256 * 2**20
"""Bytes of the texts of one context, repeats counted: some fifty times those of a million tokens."""


class ContextStore:
    """Resolves `(shared_context_id, end_index)` to messages, with the texts of a few row groups in memory.

    Args:
        folder: A dataset folder, whose files of shared contexts are searched by id and else not read.
        remote: Files to read in place of these.
    """

    def __init__(self, folder: Path, remote: Sequence[RemoteFile] = ()) -> None:
        self.folder = folder
        files = [] if remote else _all_files(folder)
        self._absent = [path for path in files if not path.is_file()]
        self.places = ContextPlaces(folder, remote or [path for path in files if path.is_file()])
        self._decoded = functools.lru_cache(maxsize=_KEPT)(self._decode)
        self._group = functools.lru_cache(maxsize=GROUPS_KEPT)(self._read_group)
        self._starts = functools.lru_cache(maxsize=_STARTS_KEPT)(self._read_group_starts)

    def groups_of(self, owners: Mapping[str, int]) -> set[tuple[int, int]]:
        """Return the row groups that hold some contexts, given with their personas; by file, and number in it.

        Raises:
            UserError: The files lack one of the contexts.
        """
        return {self._find(key, persona)[:2] for key, persona in owners.items()}

    def messages(self, shared_context_id: str, end_index: int) -> list[Message]:
        """Return `messages[:end_index]` of a context, as objects of the caller's own.

        Raises:
            UserError: The folder has no such context, it has fewer messages, or cannot be read.
        """
        return [message.copy() for message in _cut(self._decoded(shared_context_id), shared_context_id, end_index)]

    def session_starts(self, shared_context_id: str) -> list[int]:
        """Return the indices into the whole context at which a session starts.

        Raises:
            UserError: The folder has no such context.
        """
        file, group, row = self._find(shared_context_id)
        with self.places.reading(file):
            return self._starts(file, group)[row]

    def batch(self, keys: Sequence[tuple[str, int]]) -> list[list[Message]]:
        """Return the messages of several questions; those of one context share their message objects.

        A batch of a thousand questions would otherwise hold a thousand copies of a few histories.

        Raises:
            UserError: The folder lacks one of the contexts, it has fewer messages, or cannot be read.
        """
        decoded = {key: self._decode(key) for key in dict.fromkeys(key for key, _ in keys)}
        return [_cut(decoded[key], key, end) for key, end in keys]

    def _decode(self, shared_context_id: str) -> list[Message]:
        file, group, row = self._find(shared_context_id)
        with self.places.reading(file):
            return _messages(self._group(file, group), row)

    def _read_group(self, file: int, group: int) -> pa.ChunkedArray:
        return _read_messages(self.places.file(file), group)

    def _read_group_starts(self, file: int, group: int) -> list[list[int]]:
        return _read_starts(self.places.file(file), group)

    def _find(self, shared_context_id: str, persona: int | None = None) -> Place:
        if place := self.places.find(shared_context_id, persona):
            return place
        absent = f": {missing_files(self._absent)}" if self._absent else ""
        raise UserError(
            f"{self.folder} has no shared context {shared_context_id}{absent}",
            "the folder was changed after its questions were loaded, or lacks the contexts of a split: "
            "load the dataset again",
        )


def _cut(messages: list[Message], shared_context_id: str, end_index: int) -> list[Message]:
    if not 0 <= end_index <= len(messages):
        raise UserError(
            f"end index {end_index} lies outside the shared context {shared_context_id}, which has {len(messages)} "
            "messages",
            AGAIN,
        )
    return messages[:end_index]


def iter_contexts(*paths: Path, wanted: Collection[str] | None = None) -> Iterator[ContextRow]:
    """Yield the rows of files of shared contexts, in order.

    One context is decoded at a time; the distinct texts of one row group are in memory.

    Args:
        paths: The files.
        wanted: Ids of the contexts to read; all of them by default. Row groups without any of them are passed over.

    Raises:
        UserError: A file cannot be read, or its texts are damaged.
    """
    for path in paths:
        yield from _contexts_of(path, wanted)


def _contexts_of(path: Path, wanted: Collection[str] | None) -> Iterator[ContextRow]:
    with reading_parquet(path):
        file = open_contexts_file(path)
    for group in range(file.num_row_groups):
        with reading_parquet(path):
            if wanted is not None and not any(id_ in wanted for id_ in read_ids(file, group)):
                continue
            table = _validated(file.read_row_group(group))
        messages, rows = table.column("messages"), table.drop_columns(["messages"]).to_pylist()
        for i, other in enumerate(rows):
            if wanted is not None and other["shared_context_id"] not in wanted:
                continue
            with reading_parquet(path):
                # A row of its own: those of the group would hold the messages of all contexts before.
                row: ContextRow = other | {"messages": _messages(messages, i)}
                _refuse_nulls(row)
            yield row


def read_context(paths: Sequence[Path], shared_context_id: str) -> ContextRow:
    """Return one row of the files of shared contexts of a split.

    Raises:
        UserError: A file cannot be read, the texts are damaged, or the files lack the context.
    """
    for path in paths:
        with reading_parquet(path):
            file = open_contexts_file(path)
            for group in range(file.num_row_groups):
                ids = read_ids(file, group)
                if shared_context_id in ids:
                    table = _validated(file.read_row_group(group).slice(ids.index(shared_context_id), 1))
                    row: ContextRow = table.drop_columns(["messages"]).to_pylist()[0]
                    row["messages"] = _messages(table.column("messages"), 0)
                    _refuse_nulls(row)
                    return row
    more = f" and the {len(paths) - 1} files after it have" if len(paths) > 1 else " has"
    raise UserError(f"{paths[0]}{more} no context {shared_context_id}", AGAIN)


def _refuse_nulls(row: ContextRow) -> None:
    columns: Mapping[str, object] = row
    for name in CONTEXT_SCHEMA.names:
        value = columns[name]
        if value is None or (isinstance(value, list) and None in value):
            raise pa.ArrowInvalid(f"context {row['shared_context_id']!r} has no value in {name}")


def _validated(table: pa.Table) -> pa.Table:
    """Return a table whose texts are UTF-8."""
    table.validate(full=True)
    return table


def _read_messages(file: pq.ParquetFile, group: int) -> pa.ChunkedArray:
    return _validated(file.read_row_group(group, columns=["messages"])).column(0)


def _read_starts(file: pq.ParquetFile, group: int) -> list[list[int]]:
    starts: list[list[int]] = file.read_row_group(group, columns=["session_starts"]).column(0).to_pylist()
    return starts


def _messages(column: pa.ChunkedArray, row: int) -> list[Message]:
    values = column[row].values
    if values is None:
        raise pa.ArrowInvalid("a context has no messages")
    roles, contents = values.field("role"), values.field("content")
    if values.null_count or roles.null_count or contents.null_count:
        raise pa.ArrowInvalid("a message has no role or no content")
    return [
        {"role": role, "content": content} for role, content in zip(roles.to_pylist(), _texts(contents), strict=True)
    ]


def _texts(contents: pa.Array) -> list[str]:
    """Return the texts of messages; those that repeat are the same object."""
    if not pa.types.is_dictionary(contents.type):  # another writer named the parts of the column otherwise
        contents = contents.dictionary_encode()
    used = pc.unique(contents.indices)
    sizes = pc.binary_length(contents.dictionary)
    size = pc.sum(pc.cast(sizes.take(contents.indices), pa.int64())).as_py() or 0
    if size > MAX_CONTEXT_BYTES:
        raise pa.ArrowInvalid(
            f"a context has {size // 2**20:,} MiB of text, over the limit of {MAX_CONTEXT_BYTES // 2**20}"
        )
    texts = dict(zip(used.to_pylist(), contents.dictionary.take(used).to_pylist(), strict=True))
    return [texts[index] for index in contents.indices.to_pylist()]


def _all_files(folder: Path) -> list[Path]:
    """Return the files of a dataset that hold shared contexts; they need not be here."""
    return [path for split in read_manifest(folder)["splits"] for path in context_files(folder, split)]


def open_contexts(folder: Path, remote: tuple[RemoteFile, ...] = ()) -> ContextStore:
    """Return the store of a folder, or of `remote` files, opened once for as long as its files stay the same."""
    # Not those that the manifest names: this is asked row by row.
    stats = [] if remote else [path.stat() for path in sorted((folder / "data").glob("shared_contexts_*.parquet"))]
    return _open(folder, remote, tuple((s.st_ino, s.st_size, s.st_mtime_ns) for s in stats), os.getpid())


@functools.lru_cache(maxsize=4)
def _open(
    folder: Path, remote: tuple[RemoteFile, ...], _files: tuple[tuple[int, int, int], ...], _process: int
) -> ContextStore:
    # Keyed by process too: open files must not be shared with forked workers.
    return ContextStore(folder, remote)
