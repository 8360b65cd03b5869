"""Reading the tables of a PERSONA-Bench folder, which may be damaged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from generation.errors import UserError
from personamem_builder.dataset.parquet_reading import reading_parquet

_AGAIN = "import the posts again: personamem persona-bench import FILE --out persona_bench"


def iter_rows(path: Path, schema: pa.Schema, columns: Sequence[str] | None = None) -> Iterator[Any]:
    """Yield the rows of a Parquet file, as the types in `records` have them; a few hundred are in memory at a time.

    Args:
        path: The file.
        schema: What it must hold; see `records`.
        columns: Those that are wanted; all by default.

    Raises:
        UserError: The file cannot be read, or has other columns.
    """
    with reading_parquet(path), pq.ParquetFile(path) as file:
        found = file.schema_arrow
        faults = [
            f"it has no column {field.name}"
            if field.name not in found.names
            else f"column {field.name} holds {found.field(field.name).type}, not {field.type}"
            for field in schema
            if found.names.count(field.name) != 1 or not found.field(field.name).type.equals(field.type)
        ]
        if faults:
            raise UserError(f"{path}: {'; '.join(faults)}", _AGAIN)
        for batch in file.iter_batches(batch_size=256, columns=None if columns is None else list(columns)):
            batch.validate(full=True)
            yield from batch.to_pylist()
