"""Writing a table as one Parquet file, or as several where it is large."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from personamem_builder.table_files import part_name

FILE_LIMIT: Final = 500 * 10**6
"""Bytes after which a file ends; it may be larger by one row group."""


class PartWriter:
    """Writes a table row group by row group; once a file has reached the limit, the next row group begins another.

    How many files there are is known at the end: they get their names when the writer is closed.

    Args:
        path: Where the table lies if it is one file; see `table_files.part_name` for several.
        schema: The columns.
        metadata: Key-value metadata of each file.
        limit: Bytes after which a file ends.
        **options: Of `pyarrow.parquet.ParquetWriter`.
    """

    def __init__(
        self,
        path: Path,
        schema: pa.Schema,
        metadata: Mapping[str, str] | None = None,
        limit: int = FILE_LIMIT,
        **options: Any,
    ) -> None:
        self._path = path
        self._schema = schema
        self._metadata = dict(metadata or {})
        self._limit = limit
        self._options = options
        self._written: list[Path] = []
        self._has_rows = False
        self._begin()

    def write(self, row_group: pa.Table) -> None:
        """Add a row group."""
        if self._has_rows and self._sink.tell() >= self._limit:
            self._end()
            self._begin()
        self._writer.write_table(row_group, row_group_size=max(1, row_group.num_rows))
        self._has_rows = True

    def close(self) -> None:
        """End the last file, and give all of them their names."""
        self._end()
        if len(self._written) == 1:
            return
        for number, path in enumerate(self._written):
            path.rename(self._path.with_name(part_name(self._path.name, number, len(self._written))))

    def abandon(self) -> None:
        """End the last file without giving names to any."""
        self._end()

    def _begin(self) -> None:
        number = len(self._written)
        path = self._path.with_name(f"{self._path.name}.{number}") if number else self._path
        self._sink = pa.OSFile(str(path), "wb")
        self._writer = pq.ParquetWriter(self._sink, self._schema, **self._options)
        self._written.append(path)
        self._has_rows = False

    def _end(self) -> None:
        try:
            if self._metadata:
                self._writer.add_key_value_metadata(self._metadata)
            self._writer.close()
        finally:
            self._sink.close()
