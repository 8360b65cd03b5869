"""Ways to damage a CSV file: cells, columns, rows."""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Callable, Mapping
from typing import Final

from fuzz.damage import TEXT, Damage, insert_one

_CELLS: Final = (
    "", "nan", "-1", "0", str(2**31), str(2**63), "9" * 5000, "inf", "1e400", "50%", "101.5%", "(z)", "a",
    "[", "['a']", "[1, 2, 3, 4]", "[" * 5000, "{}", "null", "no such type",
    "\x00", "\x1b[2J", "2021-13-45", "word " * 50_000, "__import__('os')",
)  # fmt: skip


def _of_csv(change: Callable[[list[list[str]], int, int, random.Random], None]) -> Damage:
    def of_csv(content: bytes, rng: random.Random) -> bytes:
        csv.field_size_limit(2**30)
        rows = list(csv.reader(io.StringIO(content.decode("utf-8"), newline="")))
        change(rows, rng.randrange(1, len(rows)), rng.randrange(len(rows[0])), rng)
        file = io.StringIO(newline="")
        csv.writer(file).writerows(rows)
        return file.getvalue().encode("utf-8", "surrogatepass")

    return of_csv


def _other_cell(rows: list[list[str]], row: int, column: int, rng: random.Random) -> None:
    rows[row][column] = rng.choice(_CELLS)


def _drop_column(rows: list[list[str]], row: int, column: int, rng: random.Random) -> None:
    for cells in rows:
        del cells[column]


CSV: Final[Mapping[str, Damage]] = {
    **TEXT,
    **{f"another cell, {number}": _of_csv(_other_cell) for number in range(12)},
    "column removed": _of_csv(_drop_column),
    "column renamed": _of_csv(lambda rows, r, c, rng: rows[0].__setitem__(c, "surprise")),
    "column twice": _of_csv(lambda rows, r, c, rng: rows[0].__setitem__(c, rows[0][c - 1])),
    "row removed": _of_csv(lambda rows, r, c, rng: rows.__delitem__(r)),
    "row twice": _of_csv(lambda rows, r, c, rng: rows.insert(r, list(rows[r]))),
    "cell too many": _of_csv(lambda rows, r, c, rng: rows[r].append("more")),
    "cell too few": _of_csv(lambda rows, r, c, rng: rows[r].__delitem__(c)),
    "header alone": _of_csv(lambda rows, r, c, rng: rows.__delitem__(slice(1, None))),
    "quote left open": insert_one(b'"', b',"'),
}
