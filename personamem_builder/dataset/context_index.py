"""What the shared contexts of a split are, without their texts, of which a large split has gigabytes.

The texts are looked at when they are read, see `contexts`.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from personamem_builder.dataset.parquet_reading import reading_parquet
from personamem_builder.dataset.tables import (
    SHOWN,
    TableFaults,
    check_form,
    one_chunk,
    out_of_range,
    plain,
    repeated,
    rows_mask,
)
from personamem_builder.schema import CONTEXT_SCHEMA, ROLES

_SESSIONS: Final = ("session_starts", "session_topics", "session_dates")


class ContextIndex(NamedTuple):
    """What the questions are held against: id, persona and number of messages of each context.

    `faults` says in words what is wrong with the files.
    """

    ids: pa.Array
    personas: pa.Array
    lengths: pa.Array
    faults: tuple[str, ...]


def context_index(paths: Sequence[Path]) -> ContextIndex:
    """Return what the shared contexts of a split are, given its files, without their texts.

    Raises:
        UserError: A file cannot be read, or lacks columns.
    """
    stats = [path.stat() for path in paths]
    return _index(tuple(paths), tuple((stat.st_ino, stat.st_size, stat.st_mtime_ns) for stat in stats))


@functools.lru_cache(maxsize=8)
def _index(paths: tuple[Path, ...], _files: tuple[tuple[int, int, int], ...]) -> ContextIndex:
    read = [_read(path) for path in paths]
    whole = pa.concat_tables([table for table, _ in read]).combine_chunks()
    lines = [line for _, faults in read for line in faults]
    again, first = repeated(whole["shared_context_id"]), 0
    for path, (table, _) in zip(paths, read, strict=True):
        faults = TableFaults(path, table)
        faults.where("shared_context_id", again.slice(first, len(table)), "stands in an earlier row too")
        lines += faults.lines
        first += len(table)
    ids, personas, lengths = map(one_chunk, whole.columns)
    return ContextIndex(ids, personas, lengths, tuple(lines))


def _read(path: Path) -> tuple[pa.Table, list[str]]:
    """Return id, persona and number of messages of the contexts of a file, and its faults."""
    with reading_parquet(path):
        with pq.ParquetFile(path, memory_map=True) as file:
            check_form(path, file, CONTEXT_SCHEMA, {})
            leaves = [file.schema.column(i).path for i in range(len(file.schema))]
        roles, contents = (
            next(leaf for leaf in leaves if leaf.startswith("messages.") and leaf.endswith(f".{name}"))
            for name in ("role", "content")
        )
        parts, lines, first = [], list[str](), 0
        with pq.ParquetFile(path, memory_map=True, read_dictionary=[roles, contents]) as file:
            for group in range(file.num_row_groups):
                columns = [name for name in CONTEXT_SCHEMA.names if name != "messages"]
                read = (
                    [*columns, roles]
                    if _has_no_nulls(file.metadata.row_group(group), contents)
                    else [*columns, "messages"]
                )
                table = file.read_row_group(group, columns=read).combine_chunks()
                table.select(columns).validate(full=True)
                lines += _context_faults(path, table, first)
                lengths = pc.list_value_length(table["messages"])
                parts.append(
                    pa.table(
                        {
                            "shared_context_id": plain(table["shared_context_id"]),
                            "persona_id": table["persona_id"],
                            "messages": lengths,
                        }
                    )
                )
                first += len(table)
    return pa.concat_tables(parts), lines


def _has_no_nulls(group: Any, leaf: str) -> bool:
    """Say whether the writer counted no null in a column; where it did not count, nobody knows."""
    chunks = (group.column(i) for i in range(group.num_columns))
    statistics = next(chunk for chunk in chunks if chunk.path_in_schema == leaf).statistics
    return statistics is not None and statistics.has_null_count and statistics.null_count == 0


def _context_faults(path: Path, table: pa.Table, first: int) -> list[str]:
    faults = TableFaults(path, table, first)
    if faults.complete(CONTEXT_SCHEMA.names):
        for name in ("persona_id", "num_tokens"):
            faults.where(name, out_of_range(table[name], 0, 2**31 - 1), "must be a whole number from 0 up")
        faults.where("shared_context_id", pc.equal(plain(table["shared_context_id"]), ""), "must not be empty")
        messages = table["messages"]
        rows, flat = pc.list_parent_indices(messages), one_chunk(pc.list_flatten(messages))
        unknown = pc.invert(pc.is_in(plain(flat.field("role")), value_set=pa.array(ROLES)))
        _where_messages(faults, rows.filter(unknown), f"has a role that is none of {', '.join(ROLES)}")
        sessions = [pc.list_value_length(table[name]) for name in _SESSIONS]
        for name, lengths in zip(_SESSIONS[1:], sessions[1:], strict=True):
            faults.where(name, pc.not_equal(lengths, sessions[0]), "must have as many entries as session_starts")
        rows, starts = pc.list_parent_indices(table["session_starts"]), pc.list_flatten(table["session_starts"])
        outside = pc.or_(pc.less(starts, 0), pc.greater_equal(starts, pc.list_value_length(messages).take(rows)))
        faults.where("session_starts", rows_mask(rows.filter(outside), len(table)), "lies outside the messages")
        unsorted = [any(b <= a for a, b in pairwise(own)) for own in table["session_starts"].to_pylist()]
        faults.where("session_starts", pa.array(unsorted), "must rise")
    return faults.lines


def _where_messages(faults: TableFaults, rows: Any, problem: str) -> None:
    """Note contexts by a fault of their messages, which are too long to show."""
    for row in pc.unique(rows).to_pylist()[:SHOWN]:
        faults.lines.append(f"{faults.place(row)}, column messages: {problem}")
