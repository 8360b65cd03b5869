"""Writing the questions of a split."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa

from generation.errors import UserError
from personamem_builder.build.parts import FILE_LIMIT, PartWriter
from personamem_builder.dataset.folder import ContentDigest
from personamem_builder.stats.figures import SplitFigures, SplitTally

_ROW_GROUP: Final = 32 * 2**20
"""Bytes of rows after which a row group ends: what the writer has in memory."""

_AT_ONCE: Final = 1000


class WrittenQuestions(NamedTuple):
    """What was written of a split: its digest, its figures, and its size as Arrow has it in memory."""

    schema: pa.Schema
    digest: str
    figures: SplitFigures
    num_bytes: int


def write_questions(
    path: Path,
    split: str,
    tables: Iterable[pa.Table],
    metadata: Mapping[str, str] | None = None,
    limit: int = FILE_LIMIT,
) -> WrittenQuestions:
    """Write the questions of a split, a row group of them in memory at a time.

    Args:
        path: Where they lie if they are one file.
        split: Its name.
        tables: The questions in order, in pieces of any size.
        metadata: Key-value metadata of each file.
        limit: Bytes after which a file ends.

    Raises:
        UserError: There are no questions.
    """
    digest, tally, num_bytes = ContentDigest(), SplitTally(split), 0
    writer: PartWriter | None = None
    for row_group in _row_groups(tables, min(_ROW_GROUP, limit)):
        writer = writer or PartWriter(path, row_group.schema, metadata, limit, compression="zstd")
        writer.write(row_group)
        num_bytes += row_group.nbytes
        for batch in row_group.to_batches(max_chunksize=_AT_ONCE):
            rows = batch.to_pylist()
            digest.update(rows)
            tally.update(rows)
        schema = row_group.schema
    if writer is None:
        raise UserError(f"the split {split} has no questions", "leave it out, or give it some")
    writer.close()
    return WrittenQuestions(schema, digest.hexdigest(), tally.figures(), num_bytes)


def _row_groups(tables: Iterable[pa.Table], limit: int) -> Iterable[pa.Table]:
    """Put pieces of a table together, or cut them, to row groups of about `limit` bytes."""
    gathered: list[pa.Table] = []
    size = 0
    for table in tables:
        step = max(1, table.num_rows * limit // max(1, table.nbytes))
        for start in range(0, table.num_rows, step):
            piece = table.slice(start, step)
            gathered.append(piece)
            size += piece.nbytes
            if size >= limit:
                yield pa.concat_tables(gathered).combine_chunks()
                gathered, size = [], 0
    if gathered:
        yield pa.concat_tables(gathered).combine_chunks()
