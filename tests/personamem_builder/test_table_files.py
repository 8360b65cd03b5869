from __future__ import annotations

import random
import re

import pytest

from personamem_builder.table_files import data_files, is_table_pattern, part_name, table_files, table_pattern

WHOLE = "data/questions_128k.parquet"


@pytest.mark.parametrize("count", [1, 2, 12, 100_001])
def test_the_files_of_a_table_are_found_in_order(count: int) -> None:
    names = [part_name(WHOLE, number, count) for number in range(count)]
    assert names[0] == (WHOLE if count == 1 else f"data/questions_128k-00000-of-{count:05}.parquet")
    others = ["data/questions_1M.parquet", "data/shared_contexts_128k.parquet", "data/questions_128k-notes.parquet"]
    shuffled = random.Random(0).sample([*names, *others], count + 3)
    assert table_files(shuffled, "benchmark", "128k") == names


def test_the_files_of_some_splits() -> None:
    names = [
        "data/questions_32k.parquet",
        "data/questions_128k.parquet",
        "data/shared_contexts_128k-00001-of-00002.parquet",
        "data/shared_contexts_128k-00000-of-00002.parquet",
        "data/shared_contexts_32k.parquet",
    ]
    assert data_files(names, ["128k"]) == [names[1], names[3], names[2]]


@pytest.mark.parametrize(
    ("names", "fault"),
    [
        ([], f"{WHOLE} is missing, which the splits need"),
        ([part_name(WHOLE, 0, 3), part_name(WHOLE, 2, 3)], f"{part_name(WHOLE, 1, 3)} is missing of 3 files"),
        ([part_name(WHOLE, 1, 2)], f"{part_name(WHOLE, 0, 2)} is missing of 2 files"),
        ([part_name(WHOLE, 0, 10**11)], f"{part_name(WHOLE, 3, 10**11)}, … is missing of 100000000000 files"),
        ([part_name(WHOLE, 0, 2), part_name(WHOLE, 1, 2), part_name(WHOLE, 2, 2)], "2 files"),
        (
            [part_name(WHOLE, 0, 2), part_name(WHOLE, 1, 2), part_name(WHOLE, 1, 3)],
            "are of two ways of cutting the same",
        ),
        ([WHOLE, part_name(WHOLE, 0, 2), part_name(WHOLE, 1, 2)], "are of two ways of cutting the same"),
    ],
)
def test_a_set_that_is_not_whole_is_one_error(names: list[str], fault: str) -> None:
    with pytest.raises(ValueError, match=re.escape(fault)):
        table_files(names, "benchmark", "128k")


def test_a_pattern_is_known_again() -> None:
    for count in (1, 2, 12_345, 123_456):
        assert is_table_pattern(table_pattern(WHOLE, count), WHOLE)
    for other in ("data/questions_128k-*.parquet", "data/questions_1M.parquet", "data/questions_1M-*-of-00002.parquet"):
        assert not is_table_pattern(other, WHOLE)
