"""Rows in little memory are the rows that were packed."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from personamem_builder.audit.packed_rows import PackedRows, pack
from personamem_builder.audit.records import AuditedSplit


def rows(count: int) -> list[Any]:
    return [
        {"question_id": f"q{i}", "persona_id": i // 10, "all_options": [f"({c}) {i}" for c in "abcd"]}
        for i in range(count)
    ]


@pytest.mark.parametrize("count", [0, 1, 256, 1000])
def test_they_are_read_as_from_a_list(count: int) -> None:
    plain, packed = rows(count), PackedRows(rows(count))
    assert len(packed) == count
    assert list(packed) == plain
    assert [packed[i] for i in reversed(range(count))] == plain[::-1]
    assert packed[::7] == plain[::7]
    if count:
        assert packed[-1] == plain[-1]
    with pytest.raises(IndexError):
        packed[count]


def test_only_many_are_packed() -> None:
    assert pack(iter(rows(300)), plain=300) == rows(300)
    packed = pack(iter(rows(301)), plain=300)
    assert isinstance(packed, PackedRows)
    assert list(packed) == rows(301)


def test_columns_of_a_split_are_those_of_its_rows() -> None:
    split = AuditedSplit("32k", PackedRows(rows(600)))
    assert split.question_ids == [row["question_id"] for row in rows(600)]
    assert split.personas == [row["persona_id"] for row in rows(600)]
    assert set(split.chances) == {0.25}
    assert split.part([5, 599]).rows == [rows(600)[5], rows(600)[599]]


def test_they_take_a_fraction_of_the_memory() -> None:
    def size(make: Any) -> int:
        tracemalloc.start()
        kept = make()
        found = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        assert len(kept) == 5000
        return found

    assert size(lambda: PackedRows(row for i in range(5) for row in rows(1000))) < size(lambda: rows(5000)) / 4
