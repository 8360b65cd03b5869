"""The `datasets` builder behind `load_dataset("personamem")`: Parquet, plus a lazy `context` on question rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from datasets import Dataset, DatasetDict, IterableDataset, IterableDatasetDict
from datasets.formatting import PythonFormatter, _register_formatter
from datasets.packaged_modules.parquet.parquet import Parquet

from personamem_builder.contexts import Message, open_contexts

FORMAT_TYPE: Final = "personamem"
_KEY: Final = ("shared_context_id", "end_index_in_shared_context")


class ContextFormatter(PythonFormatter):
    """Formats rows as Python objects and adds `context`, the history up to the question.

    Args:
        folder: The dataset folder that holds the shared contexts.
        **kwargs: As `datasets` gives them.
    """

    def __init__(self, folder: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._folder = Path(folder)

    def format_row(self, pa_table: pa.Table) -> Mapping[str, Any]:
        """Format one row."""
        row = super().format_row(pa_table)
        if "context" not in row and all(name in row for name in _KEY):
            row["context"] = open_contexts(self._folder).messages(*(row[name] for name in _KEY))
        return row  # type: ignore[no-any-return]

    def format_batch(self, pa_table: pa.Table) -> Mapping[str, Any]:
        """Format several rows."""
        batch = super().format_batch(pa_table)
        if "context" not in batch and all(name in batch for name in _KEY):
            batch["context"] = open_contexts(self._folder).batch(
                list(zip(*(batch[name] for name in _KEY), strict=True))
            )
        return batch  # type: ignore[no-any-return]


_register_formatter(ContextFormatter, FORMAT_TYPE)


class FolderName(str):
    """The folder as a format argument: unpickled in a new process, it imports this package and so the format."""


def with_context(dataset: Any, folder: Path) -> Any:
    """Return a dataset (or a dict of them) of question rows whose rows have `context`."""
    if isinstance(dataset, Dataset | DatasetDict):
        return dataset.with_format(FORMAT_TYPE, folder=FolderName(folder))
    return dataset.map(_Join(folder))


class _Join:
    """The same for a stream, whose rows cannot be formatted."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, row: dict[str, Any]) -> dict[str, list[Message]]:
        return {"context": open_contexts(self._folder).messages(*(row[name] for name in _KEY))}


class PersonaMem(Parquet):
    """Reads the Parquet files of a dataset folder."""

    def as_dataset(self, *args: Any, **kwargs: Any) -> Dataset | DatasetDict:
        """Return the questions with `context`; the shared contexts as they are."""
        dataset = super().as_dataset(*args, **kwargs)
        return with_context(dataset, Path(self.base_path)) if self.config.name == "benchmark" else dataset

    def as_streaming_dataset(self, *args: Any, **kwargs: Any) -> IterableDataset | IterableDatasetDict:
        """Return the same as a stream."""
        dataset = super().as_streaming_dataset(*args, **kwargs)
        return with_context(dataset, Path(self.base_path)) if self.config.name == "benchmark" else dataset
