"""Plain text tables, as wide as their cells: no line is folded, nothing in a cell is taken for markup."""

from __future__ import annotations

from collections.abc import Sequence


def text_table(rows: Sequence[Sequence[str]], align: str = "l", *, ruled: bool = False) -> str:
    """Return rows as lines, with two spaces between columns.

    Args:
        rows: The head, then the others; all have the same number of cells.
        align: A letter for each column, `l` for left or `r` for right; the last one is for all that follow.
        ruled: Whether a line of dashes follows the head.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = align.ljust(len(widths), align[-1])
    lines = [rows[0], ["-" * width for width in widths], *rows[1:]] if ruled else rows
    return "\n".join(
        "  ".join(
            cell.ljust(width) if side == "l" else cell.rjust(width)
            for cell, width, side in zip(line, widths, sides, strict=True)
        ).rstrip()
        for line in lines
    )
