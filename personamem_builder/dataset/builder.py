"""The `datasets` builder behind `load_dataset("personamem")`: Parquet, plus a lazy `context` on question rows."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from datasets import Dataset, DatasetDict, IterableDataset, IterableDatasetDict
from datasets.formatting import PythonFormatter, _register_formatter
from datasets.packaged_modules.parquet.parquet import Parquet

from generation.errors import UserError
from personamem_builder.dataset.contexts import ContextStore, open_contexts
from personamem_builder.dataset.folder import splits_in
from personamem_builder.dataset.locate import remote_contexts
from personamem_builder.hub.download import HubFile, download_contexts
from personamem_builder.schema import Message

FORMAT_TYPE: Final = "personamem"
_HUB: Final = re.compile(r"hf://datasets/(?P<repo_id>[^/]+/[^/@]+)@(?P<commit>[^/]+)")
_KEY: Final = ("shared_context_id", "end_index_in_shared_context")


class ContextFormatter(PythonFormatter):
    """Formats rows as Python objects and adds `context`, the history up to the question.

    Args:
        folder: The dataset folder that holds the shared contexts, or its place on the Hub.
        splits: The splits that the rows may be from: on the Hub their contexts are fetched when a row is first read.
        **kwargs: As `datasets` gives them.
    """

    def __init__(self, folder: str, splits: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._place = (folder, tuple(splits))

    def format_row(self, pa_table: pa.Table) -> Mapping[str, Any]:
        """Format one row."""
        row = super().format_row(pa_table)
        if "context" not in row and all(name in row for name in _KEY):
            row["context"] = _contexts(*self._place).messages(*(row[name] for name in _KEY))
        return row  # type: ignore[no-any-return]

    def format_batch(self, pa_table: pa.Table) -> Mapping[str, Any]:
        """Format several rows."""
        batch = super().format_batch(pa_table)
        if "context" not in batch and all(name in batch for name in _KEY):
            batch["context"] = _contexts(*self._place).batch(list(zip(*(batch[name] for name in _KEY), strict=True)))
        return batch  # type: ignore[no-any-return]


_register_formatter(ContextFormatter, FORMAT_TYPE)


def _contexts(folder: str, splits: tuple[str, ...]) -> ContextStore:
    place = _HUB.match(folder)
    return open_contexts(_fetched(place["repo_id"], place["commit"], splits) if place else Path(folder))


@functools.cache
def _fetched(repo_id: str, commit: str, splits: tuple[str, ...]) -> Path:
    return download_contexts(repo_id, commit, splits)


class FolderName(str):
    """The folder as a format argument: unpickled in a new process, it imports this package and so the format."""


def _formatted(dataset: Dataset, folder: str, splits: Iterable[str]) -> Dataset:
    splits = list(splits) if _HUB.match(folder) else []
    return dataset.with_format(FORMAT_TYPE, folder=FolderName(folder), splits=splits)


class _Join:
    """Adds the context to the rows of a stream, which cannot be formatted.

    On the Hub the contexts of the split are read in part for as long as few are needed.
    """

    def __init__(self, folder: str, split: str) -> None:
        self._folder = folder
        self._split = split
        self._seen: dict[str, int] = {}
        self._remote: tuple[HubFile, ...] = ()

    def __call__(self, row: dict[str, Any]) -> dict[str, list[Message]]:
        return {"context": self._store(row).messages(*(row[name] for name in _KEY))}

    def _store(self, row: Mapping[str, Any]) -> ContextStore:
        place = _HUB.match(self._folder)
        if place is None:
            return open_contexts(Path(self._folder))
        if row["shared_context_id"] not in self._seen:
            self._seen[row["shared_context_id"]] = row["persona_id"]
            self._remote = remote_contexts(place["repo_id"], place["commit"], self._split, self._seen)
        return open_contexts(_fetched(place["repo_id"], place["commit"], ()), self._remote)


@contextmanager
def _caching(cache: str | None) -> Iterator[None]:
    """Say in our words that the cache of `datasets` cannot be written."""
    try:
        yield
    except OSError as error:
        if error.errno is None:  # such as a file of the data that is not there
            raise
        from datasets import config

        raise UserError(
            f"datasets cannot write its cache, {cache or config.HF_DATASETS_CACHE}: {error.strerror}",
            "set HF_HOME, or cache_dir=, to a writable folder; or use personamem_builder.iter_examples, "
            "which needs none",
        ) from error


class PersonaMem(Parquet):
    """Reads the Parquet files of a dataset folder, or of its place on the Hub."""

    def __init__(self, cache_dir: str | None = None, *args: Any, **kwargs: Any) -> None:
        with _caching(cache_dir):
            super().__init__(cache_dir, *args, **kwargs)

    def download_and_prepare(self, *args: Any, **kwargs: Any) -> None:
        """Write the rows into the cache of `datasets`."""
        with _caching(self._cache_dir_root):
            super().download_and_prepare(*args, **kwargs)

    def as_dataset(self, split: Any = None, *args: Any, **kwargs: Any) -> Dataset | DatasetDict:
        """Return the questions with `context`; the shared contexts as they are."""
        dataset = super().as_dataset(split, *args, **kwargs)
        if self.config.name != "benchmark":
            return dataset
        if isinstance(dataset, DatasetDict):
            return DatasetDict({name: _formatted(rows, self.base_path, [name]) for name, rows in dataset.items()})
        return _formatted(dataset, self.base_path, splits_in(str(split), self.info.splits))

    def as_streaming_dataset(
        self, split: Any = None, *args: Any, **kwargs: Any
    ) -> IterableDataset | IterableDatasetDict:
        """Return the same as a stream."""
        dataset = super().as_streaming_dataset(split, *args, **kwargs)
        if self.config.name != "benchmark":
            return dataset
        if isinstance(dataset, IterableDatasetDict):
            return IterableDatasetDict(
                {name: rows.map(_Join(self.base_path, str(name))) for name, rows in dataset.items()}
            )
        return dataset.map(_Join(self.base_path, str(split)))
