"""Plain text tables: no cell is folded but where it has lines of its own, and nothing in one is taken for markup."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Final

PIPED_WIDTH: Final = 120
"""Columns where there is no terminal."""

_GAP: Final = "  "


def terminal_width() -> int:
    """Return the columns of the terminal, or what the variable COLUMNS says, or `PIPED_WIDTH` without either."""
    return shutil.get_terminal_size((PIPED_WIDTH, 24)).columns


def text_table(
    rows: Sequence[Sequence[str]], align: str = "l", *, ruled: bool = False, width: int | None = None
) -> str:
    """Return rows as lines, with two spaces between columns.

    Args:
        rows: The head, then the others; all have the same number of cells, and a cell may have several lines.
        align: A letter for each column, `l` for left or `r` for right; the last one is for all that follow.
        ruled: Whether a line of dashes follows the head.
        width: The most characters of a line. A wider table becomes several, one below the other, each with the first
            column and some of the others; a column that is wider by itself stays whole.
    """
    columns = list(zip(*rows, strict=True))
    sides = align.ljust(len(columns), align[-1])
    widths = [max(len(line) for cell in column for line in cell.split("\n")) for column in columns]
    parts = _parts(widths, width) if width is not None else [range(len(columns))]
    return "\n\n".join(
        _table([[row[i] for i in part] for row in rows], [widths[i] for i in part], [sides[i] for i in part], ruled)
        for part in parts
    )


def _parts(widths: Sequence[int], width: int) -> Iterator[Sequence[int]]:
    """Yield the columns of each table that the width has room for."""
    rest = list(range(1, len(widths)))
    while True:
        count = 1
        while count < len(rest) and _sum([widths[0], *(widths[i] for i in rest[: count + 1])]) <= width:
            count += 1
        yield [0, *rest[:count]]
        rest = rest[count:]
        if not rest:
            return


def _sum(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _table(rows: Sequence[Sequence[str]], widths: Sequence[int], sides: Sequence[str], ruled: bool) -> str:
    lines = [rows[0], ["-" * width for width in widths], *rows[1:]] if ruled else rows
    return "\n".join(
        _GAP.join(
            text.ljust(width) if side == "l" else text.rjust(width)
            for text, width, side in zip(texts, widths, sides, strict=True)
        ).rstrip()
        for row in lines
        for texts in zip_longest(*(cell.split("\n") for cell in row), fillvalue="")
    )
