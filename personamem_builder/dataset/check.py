"""The questions of a split, read and checked before anything uses them.

A question may be wrong in ways that would otherwise surface as a crash far away, or not at all: an end index past its
context would be scored as if nothing were amiss.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from generation.errors import UserError
from generation.files import file_digest
from generation.records import QUESTION_TYPES
from personamem_builder.dataset.context_index import ContextIndex, context_index
from personamem_builder.dataset.folder import context_files, question_files
from personamem_builder.dataset.parquet_reading import AGAIN, reading_parquet
from personamem_builder.dataset.tables import (
    TableFaults,
    check_form,
    has_values,
    one_chunk,
    out_of_range,
    plain,
    raise_faults,
    repeated,
    rows_mask,
)
from personamem_builder.manifest import read_manifest
from personamem_builder.schema import (
    COUNT_COLUMNS,
    GENERATED_QUESTION_FIELDS,
    OPTIONAL_QUESTION_FIELDS,
    QUESTION_SCHEMA,
    has_labels,
    option_label,
)
from personamem_builder.table_files import contexts_path, table_pattern

MAX_BYTES: Final = 2**29
"""Bytes of a file of questions, unpacked, or of a larger file `MAX_RATIO` times its own."""

MAX_RATIO: Final = 100

_PIECE: Final = 2**21
"""Bytes of questions to look at together."""

_AT_ONCE: Final = 256

_MAX_OPTIONS: Final = 26  # as many as there are letters
_SLACK: Final = 1e-6  # a fraction that was rounded to 32 bits
_TEXTS: Final = ("question_id", "shared_context_id", "user_question_or_message", "source_question_type")
_KEYS: Final = ("question_id", "shared_context_id", "persona_id", "end_index_in_shared_context")
_OPTIONAL: Final = {field.name: field for field in (*OPTIONAL_QUESTION_FIELDS, *GENERATED_QUESTION_FIELDS)}
_PER_OPTION: Final = ("option_states", "option_roles", "option_stereotypical")


def read_questions(folder: Path, split: str, *, contexts: bool = True, whole: bool = True) -> pa.Table:
    """Read the question table of a split, after checking it.

    Args:
        folder: A dataset folder.
        split: One of its splits.
        contexts: Whether to hold the questions against their contexts too, where these are on this machine.
        whole: Whether the bytes of the files must be those that the manifest speaks of.

    Raises:
        UserError: A file cannot be read, or what it holds is not what it should; all faults are counted.
    """
    pieces: list[pa.Table] = []
    _check(folder, split, contexts=contexts, whole=whole, keep=pieces.append)
    return pa.concat_tables(pieces).combine_chunks()


def check_questions(folder: Path, split: str) -> None:
    """Check what `read_questions` does, with only ids and places of the questions in memory.

    Raises:
        UserError: As `read_questions`.
    """
    _check(folder, split, contexts=True, whole=True, keep=lambda _: None)


def iter_questions(folder: Path, split: str) -> Iterator[pa.Table]:
    """Yield the questions of a split, in which `check_questions` found no fault, a few at a time.

    Raises:
        UserError: A file cannot be read.
    """
    for path in question_files(folder, split):
        for piece in _pieces(path, QUESTION_SCHEMA, _OPTIONAL):
            # As Python objects they are ten times as large.
            yield from map(pa.Table.from_batches, zip(piece.to_batches(max_chunksize=_AT_ONCE)))


def _check(folder: Path, split: str, *, contexts: bool, whole: bool, keep: Callable[[pa.Table], None]) -> None:
    paths = question_files(folder, split)
    sources = context_files(folder, split) if contexts else []
    if not all(path.is_file() for path in sources):
        sources = []  # on the Hub, or half of them there
    if whole:
        _check_digests(folder, [path for path in (*paths, *sources) if path.is_file()])
    lines: list[str] = []
    keys, complete = [], True
    for path in paths:
        own, first = [], 0
        for piece in _pieces(path, QUESTION_SCHEMA, _OPTIONAL):
            keep(piece)
            found = _question_faults(path, piece, first)
            complete &= found.complete
            lines += found.lines
            own.append(piece.select(_KEYS))
            first += len(piece)
        keys.append(pa.concat_tables(own).combine_chunks())
    if complete:
        lines += _repeated_ids(paths, keys)
    if sources:
        index = context_index(sources)
        lines += index.faults
        if not lines:
            where = Path(table_pattern(contexts_path(split), len(sources))).name
            lines = [
                line
                for path, own in zip(paths, keys, strict=True)
                for line in _reference_faults(path, own, index, where)
            ]
    raise_faults(lines)


def _check_digests(folder: Path, paths: Sequence[Path]) -> None:
    """Raise unless files are as the manifest says: on some damaged ones `pyarrow` ends the process."""
    files = read_manifest(folder)["files"]
    for path in paths:
        stat = path.stat()
        found = _digest(path, (stat.st_ino, stat.st_size, stat.st_mtime_ns))
        if found != files[path.relative_to(folder).as_posix()]["sha256"]:
            raise UserError(f"{path} cannot be read: it is not as the manifest says", AGAIN)


@functools.lru_cache(maxsize=4096)
def _digest(path: Path, _file: tuple[int, int, int]) -> str:
    with reading_parquet(path):
        return file_digest(path)


def read_as_it_is(folder: Path, split: str) -> pa.Table:
    """Read the question table of a split, whatever its values: a version with faults must be comparable with others.

    Raises:
        UserError: The file cannot be read.
    """
    schema = pa.schema([QUESTION_SCHEMA.field("question_id")])
    pieces = [piece for path in question_files(folder, split) for piece in _pieces(path, schema, {})]
    return pa.concat_tables(pieces).combine_chunks()


def _pieces(path: Path, schema: pa.Schema, optional: Mapping[str, pa.Field]) -> Iterator[pa.Table]:
    """Yield the rows of a file in pieces."""
    with reading_parquet(path):
        # Unlike `pq.read_table`, this does not import pandas.
        file = pq.ParquetFile(path, memory_map=True)
        check_form(path, file, schema, optional)
        limit = max(MAX_BYTES, MAX_RATIO * path.stat().st_size)
        size, held, gathered = 0, 0, list[pa.RecordBatch]()
        for batch in map(_undictionaried, file.iter_batches(_batch_size(file.metadata))):
            size += batch.nbytes
            if size > limit:
                raise UserError(f"{path} has more than the limit of {limit // 2**20} MiB, unpacked", AGAIN)
            gathered.append(batch)
            held += batch.nbytes
            if held >= _PIECE:
                yield _piece(gathered)
                gathered, held = [], 0
        if gathered:
            yield _piece(gathered)


def _piece(batches: Sequence[pa.RecordBatch]) -> pa.Table:
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


class _Found(NamedTuple):
    """Faults of some rows, and whether none of them lacks a value."""

    lines: list[str]
    complete: bool


def _question_faults(path: Path, table: pa.Table, first: int) -> _Found:
    faults = TableFaults(path, table, first)
    complete = faults.complete(QUESTION_SCHEMA.names)
    for name in (*_PER_OPTION, "updates_spanned", "source_question_id"):
        if has_values(table, name):
            complete &= faults.complete([name])
    if not complete:
        return _Found(faults.lines, complete=False)  # what follows could not be told
    for name in (*COUNT_COLUMNS, *(["updates_spanned"] if has_values(table, "updates_spanned") else [])):
        faults.where(name, out_of_range(table[name], 0, 2**31 - 1), "must be a whole number from 0 up")
    for name in _TEXTS:
        faults.where(name, pc.equal(pc.utf8_trim_whitespace(plain(table[name])), ""), "must not be empty")
    known = pc.is_in(plain(table["question_type"]), value_set=pa.array(QUESTION_TYPES))
    faults.where("question_type", pc.invert(known), f"must be one of {', '.join(QUESTION_TYPES)}")
    proportion = table["distance_to_ref_proportion_in_context"]
    within = pc.and_(pc.greater_equal(proportion, 0), pc.less_equal(proportion, 1 + _SLACK))  # false for NaN
    faults.where("distance_to_ref_proportion_in_context", pc.invert(within), "must be a number from 0 to 1")
    _check_options(faults, table)
    _check_evidence(faults, table)
    return _Found(faults.lines, complete=True)


def _repeated_ids(paths: Sequence[Path], keys: Sequence[pa.Table]) -> list[str]:
    again = repeated(pa.chunked_array([plain(one_chunk(own["question_id"])) for own in keys]))
    lines, first = [], 0
    for path, own in zip(paths, keys, strict=True):
        faults = TableFaults(path, own)
        faults.where("question_id", again.slice(first, len(own)), "stands in an earlier row too")
        lines += faults.lines
        first += len(own)
    return lines


def _check_options(faults: TableFaults, table: pa.Table) -> None:
    counts = pc.list_value_length(table["all_options"])
    wrong = out_of_range(counts, 2, _MAX_OPTIONS)
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
        ungiven.append(not no_option and gold != option_label(answer))
    faults.where("all_options", pa.array(unlabelled), "must start with (a), (b), … in order, each with some text")
    faults.where("correct_answer", pa.array(ungiven), "is not the label of the option that answer_index names")
    for name in _PER_OPTION:
        if has_values(table, name):
            faults.where(name, pc.not_equal(pc.list_value_length(table[name]), counts), "must have one entry an option")


def _check_evidence(faults: TableFaults, table: pa.Table) -> None:
    indices = table["evidence_message_indices"]
    lengths = pc.list_value_length(indices)
    several = pc.not_equal(lengths, pc.list_value_length(table["evidence_event_ids"]))
    faults.where("evidence_message_indices", several, "must have as many entries as evidence_event_ids")
    rows = pc.list_parent_indices(indices)
    flat = pc.list_flatten(indices)
    ends = table["end_index_in_shared_context"].take(rows)
    outside = pc.or_(pc.less(flat, 0), pc.greater_equal(flat, ends))
    faults.where("evidence_message_indices", rows_mask(rows.filter(outside), len(table)), "lies outside the history")


def _reference_faults(path: Path, table: pa.Table, index: ContextIndex, source: str) -> list[str]:
    faults = TableFaults(path, table)
    places = pc.index_in(plain(table["shared_context_id"]), value_set=index.ids)
    faults.where("shared_context_id", pc.is_null(places), f"{source} has no such context")
    past = pc.greater(table["end_index_in_shared_context"], index.lengths.take(one_chunk(places)))
    faults.where("end_index_in_shared_context", past, "lies past the end of its context")
    other = pc.not_equal(table["persona_id"], index.personas.take(one_chunk(places)))
    faults.where("persona_id", other, f"is not the persona of its context in {source}")
    return faults.lines
