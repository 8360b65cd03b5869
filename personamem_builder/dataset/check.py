"""Is what the Parquet files of a split hold what they should? Asked before anything uses it.

A question may be wrong in ways that would otherwise surface as a crash far away, or not at all: an end index past its
context would be scored as if nothing were amiss. Contexts are checked without their texts, of which a large split has
gigabytes; these are looked at when they are read (see `contexts`).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from generation.errors import UserError
from generation.files import file_digest
from generation.records import QUESTION_TYPES
from personamem_builder.contexts import AGAIN, fits, reading_parquet
from personamem_builder.dataset.folder import contexts_path, questions_path, read_manifest
from personamem_builder.schema import (
    CONTEXT_SCHEMA,
    GENERATED_QUESTION_FIELDS,
    OPTIONAL_QUESTION_FIELDS,
    QUESTION_SCHEMA,
    has_labels,
    option_labels,
)

MAX_ROWS: Final = 1_000_000
"""Rows of a file: some hundred times those of the largest benchmark."""

MAX_VALUES: Final = 2**26
"""Values of a column in one row group, those in lists counted one by one."""

MAX_BYTES: Final = 2**29
"""Bytes of the questions of a split, unpacked."""

_MAX_OPTIONS: Final = 26  # as many as there are letters
_SHOWN: Final = 20
_LONGEST_VALUE: Final = 60
_ROLES: Final = ("system", "user", "assistant")
_SLACK: Final = 1e-6  # a fraction that was rounded to 32 bits
_COUNTS: Final = (
    "persona_id",
    "context_length_in_tokens",
    "context_length_in_letters",
    "distance_to_ref_in_blocks",
    "distance_to_ref_in_tokens",
    "num_irrelevant_tokens",
    "end_index_in_shared_context",
)
_TEXTS: Final = ("question_id", "shared_context_id", "user_question_or_message", "source_question_type")
_PER_OPTION: Final = ("option_states", "option_roles", "option_stereotypical")
_SESSIONS: Final = ("session_starts", "session_topics", "session_dates")


class ContextIndex(NamedTuple):
    """What the questions are held against.

    Attributes:
        ids: The ids of the shared contexts.
        personas: The persona of each.
        lengths: How many messages each has.
        faults: What is wrong with the file, in words; empty where nothing is.
    """

    ids: pa.Array
    personas: pa.Array
    lengths: pa.Array
    faults: tuple[str, ...]


class _Faults:
    """The faults of a file: some in words, and how many there are.

    Args:
        path: The file.
        table: Its rows.
        first: How many rows stand before these in the file.
    """

    def __init__(self, path: Path, table: pa.Table | None = None, first: int = 0) -> None:
        self._path = path
        self._table = table
        self._first = first
        self.lines: list[str] = []

    def of_file(self, problem: str) -> None:
        self.lines.append(f"{self._path}: {problem}")

    def place(self, row: int) -> str:
        return f"{self._path}, row {self._first + row + 1}"

    def where(self, column: str, wrong: Any, problem: str) -> None:
        """Note the rows of a mask; of a mask that does not say, null, a row is right."""
        assert self._table is not None
        rows = pc.indices_nonzero(pc.fill_null(wrong, False))
        for row in rows[: _SHOWN + 1].to_pylist():
            found = _short(self._table[column][row].as_py())
            self.lines.append(f"{self.place(row)}, column {column}: {found}: {problem}")
        if len(rows) > _SHOWN + 1:
            self.lines += ["" for _ in range(len(rows) - _SHOWN - 1)]


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
    more = len(lines) - _SHOWN
    shown = [f"  {line}" for line in lines if line][:_SHOWN] + ([f"  … and {more} more"] if more > 0 else [])
    raise UserError("\n".join([f"{len(lines)} faults in the data", *shown]), AGAIN)


def read_questions(folder: Path, split: str, *, contexts: bool = True, whole: bool = True) -> pa.Table:
    """Read the question table of a split, after checking it.

    Args:
        folder: A dataset folder.
        split: One of its splits.
        contexts: Whether to hold the questions against their contexts too, where these are on this machine.
        whole: Whether the bytes of the files must be those that the manifest speaks of.

    Raises:
        UserError: The file cannot be read, or what it holds is not what it should; all faults are counted.
    """
    path = folder / questions_path(split)
    if whole:
        names = [questions_path(split), *([contexts_path(split)] if contexts else [])]
        _check_digests(folder, [name for name in names if (folder / name).is_file()])
    table = _read(path, QUESTION_SCHEMA, {f.name: f for f in (*OPTIONAL_QUESTION_FIELDS, *GENERATED_QUESTION_FIELDS)})
    lines = _question_faults(path, table)
    source = folder / contexts_path(split)
    if contexts and source.is_file():
        index = context_index(source)
        lines += index.faults
        if not lines:
            lines = _reference_faults(path, table, index, source)
    raise_faults(lines)
    return table


def _check_digests(folder: Path, names: Sequence[str]) -> None:
    """Raise unless files are as the manifest says: on some damaged ones `pyarrow` ends the process."""
    files = read_manifest(folder)["files"]
    for name in names:
        stat = (folder / name).stat()
        found = _digest(folder / name, (stat.st_ino, stat.st_size, stat.st_mtime_ns))
        if name not in files or found != files[name]["sha256"]:
            raise UserError(f"{folder / name} cannot be read: it is not as the manifest says", AGAIN)


@functools.lru_cache(maxsize=64)
def _digest(path: Path, _file: tuple[int, int, int]) -> str:
    with reading_parquet(path):
        return file_digest(path)


def read_as_it_is(folder: Path, split: str) -> pa.Table:
    """Read the question table of a split, whatever its values: a version with faults must be comparable with others.

    Raises:
        UserError: The file cannot be read.
    """
    return _read(folder / questions_path(split), pa.schema([QUESTION_SCHEMA.field("question_id")]), {})


# --- a file


def _read(path: Path, schema: pa.Schema, optional: Mapping[str, pa.Field]) -> pa.Table:
    with reading_parquet(path):
        # Unlike `pq.read_table`, this does not import pandas.
        file = pq.ParquetFile(path, memory_map=True)
        _check_form(path, file, schema, optional)
        batches, size = [], 0
        for batch in map(_undictionaried, file.iter_batches(_batch_size(file.metadata))):
            size += batch.nbytes
            if size > MAX_BYTES:
                raise UserError(f"{path} has more than the limit of {MAX_BYTES // 2**20} MiB, unpacked", AGAIN)
            batches.append(batch)
        table = pa.Table.from_batches(batches).combine_chunks()
        table.validate(full=True)
    return table


def _undictionaried(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows with texts as such: a dictionary hides how long they are."""
    columns = [
        column.dictionary_decode() if pa.types.is_dictionary(column.type) else column for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _batch_size(metadata: Any) -> int:
    """Return how many rows to read at once: a value that is repeated is small in the file, and large when read."""
    largest = max(
        (
            metadata.row_group(group).column(column).total_uncompressed_size
            for group in range(metadata.num_row_groups)
            for column in range(metadata.num_columns)
        ),
        default=1,
    )
    return max(1, min(4096, 2**27 // max(1, largest)))


def _check_form(path: Path, file: pq.ParquetFile, schema: pa.Schema, optional: Mapping[str, pa.Field]) -> None:
    """Raise unless a file has the columns, and no more rows and values than can be meant."""
    found, faults = file.schema_arrow, _Faults(path)
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


# --- questions


def _question_faults(path: Path, table: pa.Table) -> list[str]:
    faults = _Faults(path, table)
    complete = _complete(faults, table, QUESTION_SCHEMA.names)
    for name in (*_PER_OPTION, "updates_spanned", "source_question_id"):
        if name in table.column_names and table[name].null_count < len(table):
            complete &= _complete(faults, table, [name])
    if not complete:
        return faults.lines  # what follows could not be told
    for name in (*_COUNTS, *(["updates_spanned"] if _has(table, "updates_spanned") else [])):
        faults.where(name, _outside(table[name], 0, 2**31 - 1), "must be a whole number from 0 up")
    for name in _TEXTS:
        faults.where(name, pc.equal(pc.utf8_trim_whitespace(_plain(table[name])), ""), "must not be empty")
    faults.where("question_id", _repeated(_plain(table["question_id"])), "stands in an earlier row too")
    known = pc.is_in(_plain(table["question_type"]), value_set=pa.array(QUESTION_TYPES))
    faults.where("question_type", pc.invert(known), f"must be one of {', '.join(QUESTION_TYPES)}")
    proportion = table["distance_to_ref_proportion_in_context"]
    within = pc.and_(pc.greater_equal(proportion, 0), pc.less_equal(proportion, 1 + _SLACK))  # false for NaN
    faults.where("distance_to_ref_proportion_in_context", pc.invert(within), "must be a number from 0 to 1")
    _check_options(faults, table)
    _check_evidence(faults, table)
    return faults.lines


def _check_options(faults: _Faults, table: pa.Table) -> None:
    counts = pc.list_value_length(table["all_options"])
    wrong = _outside(counts, 2, _MAX_OPTIONS)
    faults.where("all_options", wrong, f"must be 2 to {_MAX_OPTIONS} options")
    if pc.any(wrong).as_py():
        return
    answers = table["answer_index"]
    amiss = pc.or_(pc.less(answers, 0), pc.greater_equal(answers, counts))
    faults.where("answer_index", amiss, "is the index of no option")
    unlabelled, ungiven = [], []
    rows = zip(table["all_options"], table["correct_answer"], answers, amiss, strict=True)
    for options, gold, answer, no_option in ((o.as_py(), g.as_py(), a.as_py(), n.as_py()) for o, g, a, n in rows):
        unlabelled.append(not has_labels(options))
        ungiven.append(not no_option and gold != option_labels({"all_options": options})[answer])
    faults.where("all_options", pa.array(unlabelled), "must start with (a), (b), … in order, each with some text")
    faults.where("correct_answer", pa.array(ungiven), "is not the label of the option that answer_index names")
    for name in _PER_OPTION:
        if _has(table, name):
            faults.where(name, pc.not_equal(pc.list_value_length(table[name]), counts), "must have one entry an option")


def _check_evidence(faults: _Faults, table: pa.Table) -> None:
    indices = table["evidence_message_indices"]
    lengths = pc.list_value_length(indices)
    several = pc.not_equal(lengths, pc.list_value_length(table["evidence_event_ids"]))
    faults.where("evidence_message_indices", several, "must have as many entries as evidence_event_ids")
    rows = pc.list_parent_indices(indices)
    flat = pc.list_flatten(indices)
    ends = table["end_index_in_shared_context"].take(rows)
    outside = pc.or_(pc.less(flat, 0), pc.greater_equal(flat, ends))
    faults.where("evidence_message_indices", _rows(rows.filter(outside), len(table)), "lies outside the history")


def _reference_faults(path: Path, table: pa.Table, index: ContextIndex, source: Path) -> list[str]:
    faults = _Faults(path, table)
    places = pc.index_in(_plain(table["shared_context_id"]), value_set=index.ids)
    faults.where("shared_context_id", pc.is_null(places), f"{source.name} has no such context")
    past = pc.greater(table["end_index_in_shared_context"], index.lengths.take(_one_chunk(places)))
    faults.where("end_index_in_shared_context", past, "lies past the end of its context")
    other = pc.not_equal(table["persona_id"], index.personas.take(_one_chunk(places)))
    faults.where("persona_id", other, f"is not the persona of its context in {source.name}")
    return faults.lines


# --- contexts


def context_index(path: Path) -> ContextIndex:
    """Return what the shared contexts of a file are, without their texts.

    Raises:
        UserError: The file cannot be read, or lacks columns.
    """
    stat = path.stat()
    return _index(path, (stat.st_ino, stat.st_size, stat.st_mtime_ns))


@functools.lru_cache(maxsize=8)
def _index(path: Path, _file: tuple[int, int, int]) -> ContextIndex:
    with reading_parquet(path):
        with pq.ParquetFile(path, memory_map=True) as file:
            _check_form(path, file, CONTEXT_SCHEMA, {})
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
                        {"id": _plain(table["shared_context_id"]), "persona": table["persona_id"], "length": lengths}
                    )
                )
                first += len(table)
    whole = pa.concat_tables(parts).combine_chunks()
    faults = _Faults(path, whole.rename_columns(["shared_context_id", "persona_id", "messages"]))
    faults.where("shared_context_id", _repeated(whole["id"]), "stands in an earlier row too")
    ids, personas, lengths = map(_one_chunk, whole.columns)
    return ContextIndex(ids, personas, lengths, (*lines, *faults.lines))


def _has_no_nulls(group: Any, leaf: str) -> bool:
    """Say whether the writer counted no null in a column; where it did not count, nobody knows."""
    chunks = (group.column(i) for i in range(group.num_columns))
    statistics = next(chunk for chunk in chunks if chunk.path_in_schema == leaf).statistics
    return statistics is not None and statistics.has_null_count and statistics.null_count == 0


def _context_faults(path: Path, table: pa.Table, first: int) -> Iterator[str]:
    faults = _Faults(path, table, first)
    if _complete(faults, table, CONTEXT_SCHEMA.names):
        for name in ("persona_id", "num_tokens"):
            faults.where(name, _outside(table[name], 0, 2**31 - 1), "must be a whole number from 0 up")
        faults.where("shared_context_id", pc.equal(_plain(table["shared_context_id"]), ""), "must not be empty")
        messages = table["messages"]
        rows, flat = pc.list_parent_indices(messages), _one_chunk(pc.list_flatten(messages))
        unknown = pc.invert(pc.is_in(_plain(flat.field("role")), value_set=pa.array(_ROLES)))
        _where_messages(faults, rows.filter(unknown), f"has a role that is none of {', '.join(_ROLES)}")
        sessions = [pc.list_value_length(table[name]) for name in _SESSIONS]
        for name, lengths in zip(_SESSIONS[1:], sessions[1:], strict=True):
            faults.where(name, pc.not_equal(lengths, sessions[0]), "must have as many entries as session_starts")
        rows, starts = pc.list_parent_indices(table["session_starts"]), pc.list_flatten(table["session_starts"])
        outside = pc.or_(pc.less(starts, 0), pc.greater_equal(starts, pc.list_value_length(messages).take(rows)))
        faults.where("session_starts", _rows(rows.filter(outside), len(table)), "lies outside the messages")
        unsorted = [any(b <= a for a, b in pairwise(own)) for own in table["session_starts"].to_pylist()]
        faults.where("session_starts", pa.array(unsorted), "must rise")
    yield from faults.lines


def _where_messages(faults: _Faults, rows: Any, problem: str) -> None:
    """Note contexts by a fault of their messages, which are too long to show."""
    for row in pc.unique(rows).to_pylist()[:_SHOWN]:
        faults.lines.append(f"{faults.place(row)}, column messages: {problem}")


# --- columns


def _complete(faults: _Faults, table: pa.Table, names: Any) -> bool:
    """Note the rows that lack a value, also one within a list; say whether there is none."""
    before = len(faults.lines)
    for name in names:
        faults.where(name, _lacking(table[name]), "must not be empty, nor hold anything that is")
    return len(faults.lines) == before


def _lacking(column: Any) -> Any:
    """Return which rows are null or hold a null."""
    lacking = pc.is_null(column)
    kind = column.type
    if pa.types.is_struct(kind):
        array = _one_chunk(column)
        for i in range(kind.num_fields):
            lacking = pc.or_(lacking, _lacking(array.field(i)))
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        inner = _lacking(pc.list_flatten(column))
        if pc.any(inner).as_py():
            rows = pc.list_parent_indices(column).filter(inner)
            lacking = pc.or_(lacking, _rows(rows, len(column)))
    return lacking


def _rows(rows: Any, count: int) -> pa.Array:
    """Return the mask of some rows."""
    return pc.is_in(pa.array(range(count), rows.type), value_set=_one_chunk(rows))


def _outside(column: Any, low: int, high: int) -> Any:
    return pc.or_(pc.less(column, low), pc.greater(column, high))


def _repeated(column: Any) -> pa.Array:
    """Return which rows hold a value that an earlier one holds."""
    seen: set[int] = set()
    repeated = []
    for code in _one_chunk(column).dictionary_encode().indices.to_pylist():
        repeated.append(code in seen)
        seen.add(code)
    return pa.array(repeated, pa.bool_())


def _has(table: pa.Table, name: str) -> bool:
    return name in table.column_names and table[name].null_count < len(table)


def _plain(column: Any) -> Any:
    """Return texts as such, where they are read as a dictionary."""
    return column.cast(pa.string()) if column.type != pa.string() else column


def _one_chunk(column: Any) -> Any:
    if isinstance(column, pa.ChunkedArray):
        return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    return column
