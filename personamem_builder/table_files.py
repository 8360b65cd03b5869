"""How the files of a dataset's tables are called: one for each table of a split, or several where it is large.

data/questions_128k.parquet
data/questions_128k-00000-of-00002.parquet, data/questions_128k-00001-of-00002.parquet
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal

ConfigName = Literal["benchmark", "shared_contexts"]
"""What `datasets` calls the two tables of a dataset: questions and shared contexts."""

_PART: Final = re.compile(r"-(\d{5,})-of-(\d{5,})")
_SHOWN: Final = 3


def questions_path(split: str) -> str:
    """Return where the questions of a split lie if they are one file, relative to the dataset folder."""
    return f"data/questions_{split}.parquet"


def contexts_path(split: str) -> str:
    """Return where the shared contexts of a split lie if they are one file, relative to the dataset folder."""
    return f"data/shared_contexts_{split}.parquet"


CONFIGS: Final[Mapping[ConfigName, Callable[[str], str]]] = {
    "benchmark": questions_path,
    "shared_contexts": contexts_path,
}
"""The two tables, the default one first, and where the file of a split lies if it is one."""


def part_name(whole: str, number: int, count: int) -> str:
    """Return what a table's file number `number`, from 0, of `count` is called; `whole` is the name of a single one."""
    return whole if count == 1 else f"{whole.removesuffix('.parquet')}-{number:05}-of-{count:05}.parquet"


def table_pattern(whole: str, count: int) -> str:
    """Return the glob pattern of a table's files: it matches those of no other split, and no other number of them."""
    return whole if count == 1 else f"{whole.removesuffix('.parquet')}-*-of-{count:05}.parquet"


def is_table_pattern(path: str, whole: str) -> bool:
    """Say whether `path` is what `table_pattern` returns for some number of files."""
    count = path.removeprefix(f"{whole.removesuffix('.parquet')}-*-of-").removesuffix(".parquet")
    return path == whole or (count.isdecimal() and path == table_pattern(whole, int(count)))


def table_files(names: Iterable[str], config: ConfigName, split: str) -> list[str]:
    """Return those of some files that hold a table of a split, in order.

    Raises:
        ValueError: There is none, one of several is missing, or they are of two ways of cutting the table.
    """
    whole = CONFIGS[config](split)
    stem = whole.removesuffix(".parquet")
    parts: dict[int, dict[int, str]] = {}
    for name in names:
        if name == whole:
            parts.setdefault(1, {})[0] = name
        elif name.startswith(f"{stem}-") and (match := _PART.fullmatch(name[len(stem) :].removesuffix(".parquet"))):
            parts.setdefault(int(match[2]), {})[int(match[1])] = name
    if not parts:
        raise ValueError(f"{whole} is missing, which the splits need")
    if len(parts) > 1:
        found = " and ".join(next(iter(own.values())) for own in parts.values())
        raise ValueError(f"{found} are of two ways of cutting the same table")
    [(count, own)] = parts.items()
    if len(own) != count or [*sorted(own)] != [*range(count)]:
        lacking = [part_name(whole, number, count) for number in range(min(count, len(own) + _SHOWN))]
        lacking = [name for name in lacking if name not in own.values()]
        more = ", …" if count - len(own) > _SHOWN else ""
        raise ValueError(f"{', '.join(lacking[:_SHOWN])}{more} is missing of {count} files")
    return [own[number] for number in range(count)]


def data_files(names: Iterable[str], splits: Iterable[str]) -> list[str]:
    """Return those of some files that hold the tables of some splits: questions and shared contexts of each.

    Raises:
        ValueError: As `table_files`.
    """
    names = list(names)
    return [name for split in splits for config in CONFIGS for name in table_files(names, config, split)]
