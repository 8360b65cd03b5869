"""Shared contexts of a dataset folder, read one at a time.

A row group of their file holds the contexts of some personas, each distinct text of them once, in a dictionary. Read as
a dictionary it takes the memory of these texts, however many contexts repeat them. The file may lie elsewhere, such as
on the Hub: of it, too, only the row groups in question are read.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from threading import Lock
from typing import BinaryIO, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from generation.errors import UserError
from personamem_builder.schema import CONTEXT_SCHEMA, ContextRow, Message

_KEPT: Final = 2
"""Decoded contexts kept: questions come sorted by context, and a run may look at two of them in turn."""

GROUPS_KEPT: Final = 4
"""Row groups kept, of about 32 MiB of text at most (see `build.contexts_parquet`): shuffled questions are cheap too."""

_TEXTS: Final = ("messages.list.element.content",)

MAX_CONTEXT_BYTES: Final = 256 * 2**20
"""Bytes of the texts of one context, repeats counted: some fifty times those of a million tokens."""

AGAIN: Final = "build, import or download the dataset again"
"""What to do about damaged data."""

_UNREADABLE: Final = (OSError, pa.ArrowException, UnicodeDecodeError, OverflowError)
"""What `pyarrow` raises on bytes that are no Parquet, or no UTF-8."""


@contextmanager
def reading_parquet(name: object) -> Iterator[None]:
    """Name the file that cannot be read in the block.

    Raises:
        UserError: It cannot.
    """
    try:
        yield
    except _UNREADABLE as error:
        reason = (getattr(error, "strerror", None) or str(error) or type(error).__name__).strip().splitlines()[0]
        raise UserError(f"{name} cannot be read: {reason}", AGAIN) from error


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
        with self._reading():
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
            UserError: The folder has no such context, it has fewer messages, or cannot be read.
        """
        return [message.copy() for message in _cut(self._decoded(shared_context_id), shared_context_id, end_index)]

    def session_starts(self, shared_context_id: str) -> list[int]:
        """Return the indices into the whole context at which a session starts.

        Raises:
            UserError: The folder has no such context.
        """
        file, group, row = self._find(shared_context_id)
        with self._reading():
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
        with self._reading():
            return _messages(self._group(file, group), row)

    def _reading(self) -> AbstractContextManager[None]:
        return reading_parquet(f"{self.folder}: the file of shared contexts")

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
                with self._reading():
                    ids = file.read_row_group(group, columns=["shared_context_id"]).column(0).to_pylist()
                self._place |= {key: (file, group, row) for row, key in enumerate(ids)}
            return self._place[shared_context_id]


def _cut(messages: list[Message], shared_context_id: str, end_index: int) -> list[Message]:
    if not 0 <= end_index <= len(messages):
        raise UserError(
            f"end index {end_index} lies outside the shared context {shared_context_id}, which has {len(messages)} "
            "messages",
            AGAIN,
        )
    return messages[:end_index]


def iter_contexts(path: Path) -> Iterator[ContextRow]:
    """Yield the rows of a file of shared contexts.

    One context is decoded at a time; the distinct texts of one row group are in memory.

    Raises:
        UserError: It cannot be read, or its texts are damaged.
    """
    with reading_parquet(path):
        file = _open_file(path)
    for group in range(file.num_row_groups):
        with reading_parquet(path):
            table = _validated(file.read_row_group(group))
        messages, rows = table.column("messages"), table.drop_columns(["messages"]).to_pylist()
        for i, other in enumerate(rows):
            with reading_parquet(path):
                # A row of its own: those of the group would hold the messages of all contexts before.
                row: ContextRow = other | {"messages": _messages(messages, i)}
                _refuse_nulls(row)
            yield row


def read_context(path: Path, shared_context_id: str) -> ContextRow:
    """Return one row of a file of shared contexts.

    Raises:
        UserError: The file cannot be read, its texts are damaged, or it lacks the context.
    """
    with reading_parquet(path):
        file = _open_file(path)
        for group in range(file.num_row_groups):
            ids = file.read_row_group(group, columns=["shared_context_id"]).column(0).to_pylist()
            if shared_context_id in ids:
                table = _validated(file.read_row_group(group).slice(ids.index(shared_context_id), 1))
                row: ContextRow = table.drop_columns(["messages"]).to_pylist()[0]
                row["messages"] = _messages(table.column("messages"), 0)
                _refuse_nulls(row)
                return row
    raise UserError(f"{path} has no context {shared_context_id}", AGAIN)


def _open_file(source: Path | BinaryIO) -> pq.ParquetFile:
    plain = pq.ParquetFile(source, memory_map=True)
    found = plain.schema_arrow
    for field in CONTEXT_SCHEMA:
        if found.names.count(field.name) != 1:
            raise pa.ArrowInvalid(f"it has {'two columns' if field.name in found.names else 'no column'} {field.name}")
        if not fits(kind := found.field(field.name).type, field.type):
            raise pa.ArrowInvalid(f"column {field.name} holds {kind}, not {field.type}")
    return pq.ParquetFile(source, metadata=plain.metadata, memory_map=True, read_dictionary=_TEXTS)


def fits(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Say whether a type of Parquet holds the values of a schema's; how many bits it takes is left to the writer."""
    types = pa.types
    if types.is_list(wanted):
        is_list = types.is_list(found) or types.is_large_list(found)
        return is_list and not types.is_dictionary(found.value_type) and fits(found.value_type, wanted.value_type)
    if types.is_struct(wanted):
        inner = {field.name: field.type for field in found} if types.is_struct(found) else {}
        return all(field.name in inner and fits(inner[field.name], field.type) for field in wanted)
    if types.is_string(wanted):
        if types.is_dictionary(found):
            found = found.value_type
        return bool(types.is_string(found) or types.is_large_string(found))
    kinds: tuple[Callable[[pa.DataType], bool], ...] = (types.is_integer, types.is_floating, types.is_boolean)
    return any(is_kind(found) and is_kind(wanted) for is_kind in kinds)


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


def context_files(folder: Path) -> list[Path]:
    """Return the Parquet files of a dataset folder that hold shared contexts."""
    return sorted((folder / "data").glob("shared_contexts_*.parquet"))


def open_contexts(folder: Path, remote: RemoteFile | None = None) -> ContextStore:
    """Return the store of a folder, or of a `remote` file, opened once for as long as its files stay the same."""
    stats = [] if remote else [path.stat() for path in context_files(folder)]
    return _open(folder, remote, tuple((s.st_ino, s.st_size, s.st_mtime_ns) for s in stats), os.getpid())


@functools.lru_cache(maxsize=4)
def _open(
    folder: Path, remote: RemoteFile | None, _files: tuple[tuple[int, int, int], ...], _process: int
) -> ContextStore:
    # Keyed by process too: open files must not be shared with forked workers.
    return ContextStore(folder, remote)
