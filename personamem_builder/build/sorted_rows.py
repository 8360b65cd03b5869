"""Questions that come user by user, and are wanted in the order of their contexts."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from types import TracebackType

import pyarrow as pa

from personamem_builder.schema import QuestionRow, table_order


class SortedRows:
    """Sorts question rows; they lie in a nameless file meanwhile, and those of one context are in memory at a time.

    Args:
        folder: Where that file is made.
    """

    def __init__(self, folder: Path) -> None:
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 (closed in `__exit__`)
        self._places: dict[str, list[tuple[int, int]]] = {}

    def add(self, rows: Sequence[QuestionRow]) -> None:
        """Add rows."""
        for key, own in groupby(sorted(rows, key=table_order), key=lambda row: row["shared_context_id"]):
            text = json.dumps(list(own)).encode()
            self._places.setdefault(key, []).append((self._file.tell(), len(text)))
            self._file.write(text)

    def tables(self, schema: pa.Schema) -> Iterator[pa.Table]:
        """Yield all rows in order, a table for each context."""
        for _, places in sorted(self._places.items()):
            rows: list[QuestionRow] = []
            for start, length in places:
                self._file.seek(start)
                rows += json.loads(self._file.read(length))
            yield pa.Table.from_pylist(sorted(rows, key=table_order), schema=schema)

    def __enter__(self) -> SortedRows:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._file.close()
