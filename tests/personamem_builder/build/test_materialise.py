from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

import personamem_builder
from personamem_builder.schema import QUESTION_SCHEMA


def test_materialise_writes_the_same_rows(dataset_folder: Path, tmp_path: Path) -> None:
    out = personamem_builder.materialise("32k", tmp_path / "whole.parquet", data=dataset_folder)
    rows = list(personamem_builder.iter_examples("32k", data=dataset_folder))
    assert pq.read_table(out).to_pylist() == rows
    assert pq.read_table(out).schema.names == [*QUESTION_SCHEMA.names, "context"]
    assert pq.ParquetFile(out).num_row_groups == 2, "one for each shared context"

    # 17 copies of two histories, which share most of their texts, in a file not much larger than two histories.
    contexts = dataset_folder / "data" / "shared_contexts_32k.parquet"
    assert out.stat().st_size < 3 * contexts.stat().st_size

    some = personamem_builder.materialise("32k", tmp_path / "some.parquet", data=dataset_folder, limit=3)
    assert pq.read_table(some).to_pylist() == rows[:3]
