"""Loading a dataset: lazily through `datasets`, or as a plain stream."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from personamem_builder.dataset.check import check_questions, iter_questions
from personamem_builder.dataset.contexts import ContextStore
from personamem_builder.dataset.folder import splits_in
from personamem_builder.dataset.locate import resolve_data, split_folder
from personamem_builder.manifest import read_manifest
from personamem_builder.schema import QuestionRow


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
    splits = splits_in(None if "name" in kwargs else split, read_manifest(source.folder)["splits"])
    if source.hub is not None:
        from personamem_builder.hub.download import download_contexts

        download_contexts(source.hub.repo_id, source.hub.commit, splits)
    for name in splits:
        check_questions(source.folder, name)
    return datasets.load_dataset(str(source.folder), split=split, **kwargs)


def iter_examples(
    split: str, *, data: str | os.PathLike[str] | None = None, revision: str | None = None
) -> Iterator[QuestionRow]:
    """Yield the question rows of a split in file order, each with its `context`.

    Needs no cache on disk, and memory for some questions and about one context.

    Args:
        split: Name of the split.
        data: As in `load_dataset`.
        revision: As in `load_dataset`.

    Raises:
        UserError: There is no such dataset or split.
    """
    folder = split_folder(resolve_data(data, revision, splits=[split]), split)
    check_questions(folder, split)
    yield from with_contexts(folder, iter_questions(folder, split))


def with_contexts(folder: Path, tables: Iterable[pa.Table]) -> Iterator[QuestionRow]:
    """Yield the rows of question tables of a dataset folder, each with its `context`."""
    store = ContextStore(folder)
    for table in tables:
        for row in table.to_pylist():
            row["context"] = store.messages(row["shared_context_id"], row["end_index_in_shared_context"])
            yield row
