"""Tables of a dataset: whether a Parquet file has the form that it should, and which of its rows are wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from generation.errors import UserError
from personamem_builder.dataset.parquet_reading import AGAIN, fits

MAX_ROWS: Final = 10_000_000
"""Rows of a file: more than one of half a gigabyte has."""

MAX_VALUES: Final = 2**26
"""Values of a column in one row group, those in lists counted one by one."""

SHOWN: Final = 20
"""Faults that a message names."""

_LONGEST_VALUE: Final = 60


class TableFaults:
    """The faults of a file in words; `first` rows stand in it before those of `table`."""

    def __init__(self, path: Path, table: pa.Table | None = None, first: int = 0) -> None:
        self._path = path
        self._table = table
        self._first = first
        self.lines: list[str] = []

    def of_file(self, problem: str) -> None:
        """Note a fault that no row has."""
        self.lines.append(f"{self._path}: {problem}")

    def place(self, row: int) -> str:
        """Return a row in words, numbered as in the file."""
        return f"{self._path}, row {self._first + row + 1}"

    def where(self, column: str, wrong: Any, problem: str) -> None:
        """Note the rows of a mask; of a mask that does not say, null, a row is right."""
        assert self._table is not None
        rows = pc.indices_nonzero(pc.fill_null(wrong, False))
        for row in rows[: SHOWN + 1].to_pylist():
            found = _short(self._table[column][row].as_py())
            self.lines.append(f"{self.place(row)}, column {column}: {found}: {problem}")
        if len(rows) > SHOWN + 1:
            self.lines += ["" for _ in range(len(rows) - SHOWN - 1)]

    def complete(self, names: Iterable[str]) -> bool:
        """Note the rows that lack a value, also one within a list; say whether there is none."""
        assert self._table is not None
        before = len(self.lines)
        for name in names:
            self.where(name, _lacking(self._table[name]), "must not be empty, nor hold anything that is")
        return len(self.lines) == before


def _short(value: object) -> str:
    text = repr(value[:_LONGEST_VALUE] if isinstance(value, str | list) else value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"


def raise_faults(lines: list[str]) -> None:
    """Raise one error with the faults of a split.

    Raises:
        UserError: There is at least one.
    """
    if not lines:
        return
    if len(lines) == 1:
        raise UserError(lines[0], AGAIN)
    more = len(lines) - SHOWN
    shown = [f"  {line}" for line in lines if line][:SHOWN] + ([f"  … and {more} more"] if more > 0 else [])
    raise UserError("\n".join([f"{len(lines)} faults in the data", *shown]), AGAIN)


def check_form(path: Path, file: pq.ParquetFile, schema: pa.Schema, optional: Mapping[str, pa.Field]) -> None:
    """Raise unless a file has the columns, and no more rows and values than can be meant."""
    found, faults = file.schema_arrow, TableFaults(path)
    for field in [*schema, *(field for name, field in optional.items() if name in found.names)]:
        places = found.get_all_field_indices(field.name)
        if len(places) != 1:
            faults.of_file(f"has {'no' if not places else 'more than one'} column {field.name}")
        elif not fits(kind := found.field(places[0]).type, field.type):
            faults.of_file(f"column {field.name} holds {kind}, not {field.type}")
    metadata = file.metadata
    if not 0 < metadata.num_rows <= MAX_ROWS:
        faults.of_file(f"has {metadata.num_rows:,} rows; it must have 1 to {MAX_ROWS:,}")
    for group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(column)
            if not 0 <= chunk.num_values <= MAX_VALUES:
                name = chunk.path_in_schema.partition(".")[0]
                faults.of_file(f"column {name} has {chunk.num_values:,} values; the limit is {MAX_VALUES:,}")
    raise_faults(faults.lines)


def _lacking(column: Any) -> Any:
    """Return which rows are null or hold a null."""
    lacking = pc.is_null(column)
    kind = column.type
    if pa.types.is_struct(kind):
        array = one_chunk(column)
        for i in range(kind.num_fields):
            lacking = pc.or_(lacking, _lacking(array.field(i)))
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        inner = _lacking(pc.list_flatten(column))
        if pc.any(inner).as_py():
            rows = pc.list_parent_indices(column).filter(inner)
            lacking = pc.or_(lacking, rows_mask(rows, len(column)))
    return lacking


def rows_mask(rows: Any, count: int) -> pa.Array:
    """Return the mask of some rows."""
    return pc.is_in(pa.array(range(count), rows.type), value_set=one_chunk(rows))


def out_of_range(column: Any, low: int, high: int) -> Any:
    """Return which rows hold a number below `low` or above `high`."""
    return pc.or_(pc.less(column, low), pc.greater(column, high))


def repeated(column: Any) -> pa.Array:
    """Return which rows hold a value that an earlier one holds."""
    seen: set[int] = set()
    mask = []
    for code in one_chunk(column).dictionary_encode().indices.to_pylist():
        mask.append(code in seen)
        seen.add(code)
    return pa.array(mask, pa.bool_())


def has_values(table: pa.Table, name: str) -> bool:
    """Say whether a table has a column, and not only nulls in it."""
    return name in table.column_names and table[name].null_count < len(table)


def plain(column: Any) -> Any:
    """Return texts as such, where they are read as a dictionary."""
    return column.cast(pa.string()) if column.type != pa.string() else column


def one_chunk(column: Any) -> Any:
    """Return a column as one array; `take` and the like want one."""
    if isinstance(column, pa.ChunkedArray):
        return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    return column
