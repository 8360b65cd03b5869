"""A split written out in full: each question with its whole context."""

from __future__ import annotations

import os
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from generation.files import replacing
from personamem_builder.dataset.check import check_questions, iter_questions
from personamem_builder.dataset.load import with_contexts
from personamem_builder.dataset.locate import resolve_data, split_folder
from personamem_builder.schema import CONTEXT_SCHEMA

_DICTIONARY_LIMIT: Final = 64 * 2**20
"""Bytes of distinct text that a column's dictionary may hold: enough for one context, whose messages repeat."""


def materialise(
    split: str,
    out: str | os.PathLike[str],
    *,
    data: str | os.PathLike[str] | None = None,
    revision: str | None = None,
    limit: int | None = None,
) -> Path:
    """Write one Parquet file whose rows hold their whole context, for tools that cannot join.

    Rows of one context form a row group, whose dictionary keeps each message text once: the file stays near the
    size of the shared contexts. A reader that decodes everything at once still needs memory for every copy.

    Args:
        split: Name of the split.
        out: The file to write.
        data: As in `load_dataset`.
        revision: As in `load_dataset`.
        limit: Write only the first rows.

    Returns:
        The path of the file.

    Raises:
        UserError: There is no such dataset or split.
    """
    folder = split_folder(resolve_data(data, revision, splits=[split]), split)
    check_questions(folder, split)
    tables = iter_questions(folder, split)
    first = next(tables)
    schema = first.schema.append(CONTEXT_SCHEMA.field("messages").with_name("context"))
    rows = islice(with_contexts(folder, chain([first], tables)), limit)
    out = Path(out)
    with (
        replacing(out) as part,
        pq.ParquetWriter(part, schema, compression="zstd", dictionary_pagesize_limit=_DICTIONARY_LIMIT) as writer,
    ):
        for _, group in groupby(rows, key=lambda row: row["shared_context_id"]):
            writer.write_table(pa.Table.from_pylist(list(group), schema=schema))
    return out
