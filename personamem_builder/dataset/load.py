"""Loading a dataset: lazily through `datasets`, as a plain stream, or written out in full."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import groupby, islice
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from generation.files import replacing
from personamem_builder.contexts import ContextStore
from personamem_builder.dataset.check import read_questions as read_questions
from personamem_builder.dataset.folder import contexts_path, read_manifest, splits_in
from personamem_builder.dataset.locate import resolve_data, split_folder
from personamem_builder.schema import CONTEXT_SCHEMA

_DICTIONARY_LIMIT: Final = 64 * 2**20
"""Bytes of distinct text that a column's dictionary may hold: enough for one context, whose messages repeat."""


def load_dataset(
    split: str | None = None,
    *,
    data: str | os.PathLike[str] | None = None,
    revision: str | None = None,
    **kwargs: Any,
) -> Any:
    """Load the questions, each row with its `context`, resolved when the row is read.

    Args:
        split: As in `datasets`, e.g. `"128k"` or `"128k[:10]"`; all splits by default.
        data: A dataset folder, or `ORG/NAME` on the Hub; by default `PERSONAMEM_DATA`, then `./personamem`.
        revision: Branch, tag or commit on the Hub.
        **kwargs: Passed to `datasets.load_dataset`.

    Returns:
        What `datasets.load_dataset` returns.

    Raises:
        UserError: There is no such dataset.
    """
    import datasets

    source = resolve_data(data, revision, contexts=False)
    # Of a config other than the questions `datasets` reads all splits.
    splits = splits_in(None if "name" in kwargs else split, read_manifest(source.folder))
    if source.hub is not None:
        from personamem_builder.official.hub import download_files

        download_files(source.hub.repo_id, source.hub.commit, map(contexts_path, splits))
    for name in splits:
        read_questions(source.folder, name)
    return datasets.load_dataset(str(source.folder), split=split, **kwargs)


def iter_examples(
    split: str, *, data: str | os.PathLike[str] | None = None, revision: str | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the question rows of a split in file order, each with its `context`.

    Needs no cache on disk, and memory for the questions and about one context.

    Args:
        split: Name of the split.
        data: As in `load_dataset`.
        revision: As in `load_dataset`.

    Raises:
        UserError: There is no such dataset or split.
    """
    folder = split_folder(resolve_data(data, revision, splits=[split]), split)
    store = ContextStore(folder)
    for row in read_questions(folder, split).to_pylist():
        yield {**row, "context": store.messages(row["shared_context_id"], row["end_index_in_shared_context"])}


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
    schema = read_questions(folder, split).schema.append(CONTEXT_SCHEMA.field("messages").with_name("context"))
    rows = islice(iter_examples(split, data=folder), limit)
    out = Path(out)
    with (
        replacing(out) as part,
        pq.ParquetWriter(part, schema, compression="zstd", dictionary_pagesize_limit=_DICTIONARY_LIMIT) as writer,
    ):
        for _, group in groupby(rows, key=lambda row: row["shared_context_id"]):
            writer.write_table(pa.Table.from_pylist(list(group), schema=schema))
    return out
