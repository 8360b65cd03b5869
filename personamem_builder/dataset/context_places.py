"""Where shared contexts are: in which file, row group and row."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from threading import Lock
from typing import BinaryIO, Final, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from personamem_builder.dataset.parquet_reading import fits, reading_parquet
from personamem_builder.schema import CONTEXT_SCHEMA

_FILES_OPEN: Final = 16

_TEXTS: Final = ("messages.list.element.content",)


class RemoteFile(Protocol):
    """A file of shared contexts that is not on this machine, equal to those with the same content."""

    @property
    def personas(self) -> tuple[int, ...]:
        """The least and the greatest persona whose contexts it holds; empty if that is not known."""

    def __hash__(self) -> int:
        """Return the same for equal ones."""

    def open(self) -> BinaryIO:
        """Open the file."""


class Place(NamedTuple):
    """Where a context is: the numbers of the file, of the row group in it, and of the row in that."""

    file: int
    group: int
    row: int


class ContextPlaces:
    """Finds contexts by id in files of which no more is read than that takes.

    Args:
        folder: The dataset folder, for messages.
        sources: The files.
    """

    def __init__(self, folder: Path, sources: Sequence[Path | RemoteFile]) -> None:
        self._folder = folder
        self._sources = sources
        self._known: dict[str, Place] = {}
        self._searched: set[tuple[int, int]] = set()
        self._unsearched = 0
        self._lock = Lock()
        self.file = functools.lru_cache(maxsize=_FILES_OPEN)(self._open)

    def find(self, shared_context_id: str, persona: int | None = None) -> Place | None:
        """Return where a context is, None if it is nowhere; where its persona is known, little has to be searched.

        Raises:
            UserError: A file cannot be read.
        """
        with self._lock:
            if shared_context_id not in self._known and persona is not None:
                self._search(shared_context_id, self._likely(persona))
            while shared_context_id not in self._known and self._unsearched < len(self._sources):
                number = self._unsearched
                self._search(shared_context_id, ((number, group) for group in self._groups(number)))
                self._unsearched += shared_context_id not in self._known
            return self._known.get(shared_context_id)

    def has_more_groups_than(self, count: int) -> bool:
        """Say whether there are more row groups than so many; no more files are opened than it takes to tell."""
        found = 0
        for number in range(len(self._sources)):
            if found + len(self._sources) - number > count:  # there is one in each at least
                return True
            found += len(self._groups(number))
        return found > count

    def reading(self, number: int) -> AbstractContextManager[None]:
        """Name a file, should it not be readable in the block."""
        source = self._sources[number]
        return reading_parquet(source if isinstance(source, Path) else f"{self._folder}: a file of shared contexts")

    def _open(self, number: int) -> pq.ParquetFile:
        source = self._sources[number]
        with self.reading(number):
            return open_contexts_file(source if isinstance(source, Path) else source.open())

    def _groups(self, number: int) -> range:
        return range(self.file(number).num_row_groups)

    def _likely(self, persona: int) -> Iterator[tuple[int, int]]:
        """Yield the row groups that can hold contexts of a persona."""
        for number, source in enumerate(self._sources):
            if not isinstance(source, Path) and source.personas and not _is_within(persona, source.personas):
                continue
            metadata = self.file(number).metadata
            for group in self._groups(number):
                span = persona_span(metadata.row_group(group))
                if span is None or _is_within(persona, span):
                    yield number, group

    def _search(self, shared_context_id: str, groups: Iterable[tuple[int, int]]) -> None:
        """Look into row groups until the context is known."""
        for number, group in groups:
            if (number, group) not in self._searched:
                with self.reading(number):
                    ids = read_ids(self.file(number), group)
                self._known |= {key: Place(number, group, row) for row, key in enumerate(ids)}
                self._searched.add((number, group))
                if shared_context_id in self._known:
                    return


def persona_span(row_group: pq.RowGroupMetaData) -> tuple[int, int] | None:
    """Return the least and the greatest persona of a row group; None where its writer did not say."""
    chunks = (row_group.column(i) for i in range(row_group.num_columns))
    known = next(chunk.statistics for chunk in chunks if chunk.path_in_schema == "persona_id")
    return (known.min, known.max) if known is not None and known.has_min_max else None


def _is_within(number: int, ends: Sequence[int]) -> bool:
    return ends[0] <= number <= ends[1]


def open_contexts_file(source: Path | BinaryIO) -> pq.ParquetFile:
    """Open a file of shared contexts, whose texts are then read as a dictionary.

    Raises:
        pyarrow.ArrowInvalid: It lacks columns, or they hold something else.
    """
    plain = pq.ParquetFile(source, memory_map=True)
    found = plain.schema_arrow
    for field in CONTEXT_SCHEMA:
        if found.names.count(field.name) != 1:
            raise pa.ArrowInvalid(f"it has {'two columns' if field.name in found.names else 'no column'} {field.name}")
        if not fits(kind := found.field(field.name).type, field.type):
            raise pa.ArrowInvalid(f"column {field.name} holds {kind}, not {field.type}")
    return pq.ParquetFile(source, metadata=plain.metadata, memory_map=True, read_dictionary=_TEXTS)


def read_ids(file: pq.ParquetFile, group: int) -> list[str]:
    """Return the ids of the contexts of a row group."""
    ids: list[str] = file.read_row_group(group, columns=["shared_context_id"]).column(0).to_pylist()
    return ids
