"""lm-eval's table of results for terminals that are narrower than it."""

from __future__ import annotations

from collections.abc import Iterator

from personamem_builder.text_table import text_table

_LEFT_OUT = "(version and n-shot are left out: they need {} columns, and are in the results)"


def fitted(table: str, width: int) -> str:
    """Return a table of lm-eval (GitHub Markdown), without some columns where the terminal is narrower.

    The name of a task gets a line of its own, above its metrics.
    """
    needed = max(map(len, table.splitlines()), default=0)
    if needed <= width:
        return table
    head, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in _lines(table))
    lines = [[head[0], "", "Value", "", "Stderr"]]
    for task, _, filter_, _, metric, better, value, sign, error in rows:
        if task:
            lines.append([task, "", "", "", ""])
        name = metric if filter_ in ("", "none") else f"{metric} ({filter_})"
        lines.append([f"  {name}", better, value, sign, error])
    return f"{text_table(lines, 'llrlr')}\n{_LEFT_OUT.format(needed)}"


def _lines(table: str) -> Iterator[str]:
    """Yield the lines of a table, but for the one below the head."""
    yield from (line for line in table.splitlines() if line.startswith("|") and set(line) - set("|-: "))
