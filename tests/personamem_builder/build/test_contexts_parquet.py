"""The file of a split's shared contexts: texts once, rows as they were, a digest that does not depend on the file."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from personamem_builder.build import contexts_parquet
from personamem_builder.build.contexts_parquet import ContextDigest, ContextWriter
from personamem_builder.dataset.contexts import iter_contexts
from personamem_builder.dataset.folder import content_digest
from personamem_builder.schema import CONTEXT_SCHEMA

MESSAGES = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["system", "user", "assistant"]),
        # Few texts, so that they repeat, and any.
        "content": st.sampled_from(["", "Yes.", "Ça \u201cva\u201d \U0001f600"]) | st.text(max_size=20),
    }
)


def row(key: str, messages: list[dict[str, str]], persona_id: int = 0) -> dict[str, Any]:
    return {
        "shared_context_id": key,
        "persona_id": persona_id,
        "messages": messages,
        "session_starts": [0],
        "session_topics": ["books"],
        "session_dates": ["2026-01-31"],
        "num_tokens": 7,
    }


def write(path: Path, rows: list[dict[str, Any]]) -> ContextWriter:
    with ContextWriter(path) as writer:
        for context in rows:
            writer.write(context)
    return writer


def random_text(rng: random.Random, letters: int) -> str:
    return "".join(rng.choices("abcdefghijklmnopqrstuvwxyz ", k=letters))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    contexts=st.lists(st.lists(MESSAGES, min_size=1, max_size=6), max_size=5), limit=st.sampled_from([1, 200, 10**9])
)
def test_rows_come_back_and_their_digest_is_that_of_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, contexts: list[list[dict[str, str]]], limit: int
) -> None:
    monkeypatch.setattr(contexts_parquet, "_DISTINCT", limit)  # so that there are several row groups
    path = tmp_path / "contexts.parquet"
    rows = [row(f"c{i}", messages, i) for i, messages in enumerate(contexts)]
    writer = write(path, rows)
    assert list(iter_contexts(path)) == rows
    plain = pq.read_table(path)
    assert plain.to_pylist() == rows
    assert plain.schema == CONTEXT_SCHEMA
    assert writer.count == len(rows)
    digest = ContextDigest()
    assert digest.update(rows) == len(rows)
    assert writer.digest.hexdigest() == digest.hexdigest() == content_digest(pa.Table.from_pylist(rows, CONTEXT_SCHEMA))


def test_a_text_that_many_contexts_hold_is_written_once(tmp_path: Path) -> None:
    rng = random.Random(0)
    messages = [{"role": "user", "content": random_text(rng, 2000)} for _ in range(100)]
    write(tmp_path / "one", [row("c", messages)])
    write(tmp_path / "many", [row(f"c{i}", rng.sample(messages, 100), i) for i in range(20)])
    one, many = ((tmp_path / name).stat().st_size for name in ("one", "many"))
    assert many < 1.1 * one
    [group] = [pq.ParquetFile(tmp_path / "many").metadata.row_group(0)]
    assert group.num_rows == 20
    assert {group.column(i).compression for i in range(group.num_columns)} == {"ZSTD"}


def test_a_row_group_ends_when_it_holds_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(0)
    texts = [[{"role": "user", "content": random_text(rng, 1000)}] for _ in range(6)]

    def groups(rows: list[dict[str, Any]]) -> list[int]:
        write(tmp_path / "contexts", rows)
        metadata = pq.ParquetFile(tmp_path / "contexts").metadata
        return [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]

    different = [row(f"c{i}", messages) for i, messages in enumerate(texts)]
    same = [row(f"c{i}", texts[0]) for i in range(6)]
    assert (groups(different), groups(same)) == ([6], [6])
    monkeypatch.setattr(contexts_parquet, "_DISTINCT", 1500)
    assert (groups(different), groups(same)) == ([2, 2, 2], [6])
    monkeypatch.setattr(contexts_parquet, "_WHOLE", 3500)
    assert groups(same) == [4, 2]
