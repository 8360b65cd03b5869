"""Write tables as text for a terminal, as GitHub Markdown, and as JSON.

The JSON form, for machines, has `schema_version` 1; all numbers are fractions, not percentages:

    {"schema_version": 1,
     "tables": [{"task": str, "data_digest": str | null,
                 "subset": {"file": str, "size": int, "sha256": str} | null, "history": str,
                 "rows": [{"model": str, "score": str | null, "floor": bool, "context": bool, "n": int,
                           "overall": ESTIMATE, "macro": ESTIMATE, "types": {QUESTION_TYPE: ESTIMATE | null},
                           "context_gain": ESTIMATE | null, "paired_difference": ESTIMATE | null,
                           "invalid_rate": float, "skipped_rate": float, "truncated_rate": float}],
                 "notes": [str]}]}
    ESTIMATE = {"value": float, "low": float | null, "high": float | null, "n": int, "clusters": int}

`history` is what was shown of conversations: `full`, `wrong_user` or `evidence`. `types` has all seven types, null for
one without questions. `low` and `high` are the 95 % interval, null for one persona and for chance, whose row comes
first (`model` "chance", `score` null, `floor` true). A breaking change raises the version.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from personamem_builder.report.runs import FULL
from personamem_builder.report.table import Row, Table
from personamem_builder.schema import SHORT_TYPES
from personamem_builder.statistics import Estimate

if TYPE_CHECKING:
    from rich.table import Table as Grid

JSON_SCHEMA_VERSION: Final = 1
"""Version of the JSON form in the module docstring."""

_NAME_WIDTH = 24
_GAP = 2
_UNITS = "Percent, with 95 % intervals clustered by persona."
_LEGEND = "; ".join(f"{short} = {name}" for name, short in SHORT_TYPES.items()) + "."
_GAIN = "Context gain = (a - a0) / (1 - a0), with a0 the score of the same model without context."


class _Column(NamedTuple):
    head: str
    cells: list[str]


def to_json(tables: Sequence[Table]) -> dict[str, Any]:
    """Return the JSON form that the module docstring defines."""
    return {
        "schema_version": JSON_SCHEMA_VERSION,
        "tables": [
            {
                "task": table.task,
                "data_digest": table.data_digest,
                "subset": None if table.subset is None else table.subset._asdict(),
                "history": table.history,
                "rows": [_row_to_json(row) for row in table.rows],
                "notes": table.notes,
            }
            for table in tables
        ],
    }


def to_markdown(tables: Sequence[Table]) -> str:
    """Return GitHub Markdown: a heading, a table, its legend and its notes for each table."""
    parts = []
    for table in tables:
        columns = [*_names(table), *_summary(table), *_by_type(table)]
        lines = [[column.head for column in columns], ["---", "---", *["---:"] * (len(columns) - 2)]]
        lines += [list(cells) for cells in zip(*(column.cells for column in columns), strict=True)]
        rows = ["| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines]
        parts += [f"### {_title(table)}", "\n".join(rows), _legend(table)]
        if table.notes:
            parts.append("\n".join(f"- {note}" for note in table.notes))
    return "\n\n".join(parts)


def to_text(tables: Sequence[Table], width: int) -> str:
    """Return tables for a terminal.

    Args:
        tables: What to show.
        width: Columns of the terminal. Where a table is wider, the question types get a table of their
            own, and where that is wider still, intervals go below the values.

    Returns:
        Plain text; lines may be folded where the terminal is very narrow.
    """
    from rich.console import Console

    out = io.StringIO()
    # Names of models are printed as they are: no markup, no `:emoji:`.
    console = Console(file=out, width=width, color_system=None, highlight=False, markup=False, emoji=False)
    for table in tables:
        names, summary, by_type = _names(table), _summary(table), _by_type(table)
        everything = [*names, *summary, *by_type]
        console.print(_title(table))
        for columns in [everything] if _width(everything) <= width else [[*names, *summary], [*names, *by_type]]:
            console.print(_grid(columns if _width(columns) <= width else _stack(columns)))
        console.print(_legend(table))
        for note in table.notes:
            console.print(f"note: {note}")
        console.print()
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()).strip("\n")


def _grid(columns: Sequence[_Column]) -> Grid:
    from rich import box
    from rich.table import Table as Grid

    grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for index, column in enumerate(columns):
        grid.add_column(column.head, justify="left" if index == 0 else "right", overflow="fold")
    for cells in zip(*(column.cells for column in columns), strict=True):
        grid.add_row(*cells)
    return grid


def _width(columns: Sequence[_Column]) -> int:
    """Return the width that columns need on one line a row, but for long model names, which may fold."""
    longest = [max(len(cell) for cell in [column.head, *column.cells]) for column in columns]
    return min(longest[0], _NAME_WIDTH) + sum(longest[1:]) + _GAP * len(columns)


def _stack(columns: Sequence[_Column]) -> list[_Column]:
    """Make columns narrower: scores go below the models, intervals below the values."""
    models, scores, *rest = columns
    labels = ["\n".join(pair) for pair in zip(models.cells, scores.cells, strict=True)]
    below = [_Column(head, [cell.replace(" [", "\n[") for cell in cells]) for head, cells in rest]
    return [_Column(f"{models.head}\n{scores.head}", labels), *below]


def _names(table: Table) -> list[_Column]:
    return [
        _Column("model", [row.label for row in table.rows]),
        _Column("score", [row.score or "-" for row in table.rows]),
    ]


def _summary(table: Table) -> list[_Column]:
    rows = table.rows
    columns = [
        _Column("n", [str(row.n) for row in rows]),
        _Column("overall", [_percent(row.overall) for row in rows]),
        _Column("macro", [_percent(row.macro) for row in rows]),
    ]
    if any(row.context_gain is not None for row in rows):
        columns.append(_Column("context gain", [_percent(row.context_gain) for row in rows]))
    columns.append(_Column("invalid", [f"{row.invalid_rate * 100:.1f}" for row in rows]))
    columns.append(_Column("skipped", [f"{row.skipped_rate * 100:.1f}" for row in rows]))
    if any(row.truncated_rate for row in rows):
        columns.append(_Column("truncated", [f"{row.truncated_rate * 100:.1f}" for row in rows]))
    return columns


def _by_type(table: Table) -> list[_Column]:
    return [_Column(short, [_percent(row.types[name]) for row in table.rows]) for name, short in SHORT_TYPES.items()]


def _percent(estimate: Estimate | None) -> str:
    if estimate is None:
        return "-"
    # Adding 0.0 makes 0.0 of -0.0.
    value, *ends = (
        f"{round(number * 100, 1) + 0.0:.1f}"
        for number in (estimate.value, estimate.low, estimate.high)
        if number is not None
    )
    return f"{value} [{', '.join(ends)}]" if ends else value


def _title(table: Table) -> str:
    part = f", {table.subset.size} questions of {table.subset.file}" if table.subset else ""
    part += f", history {table.history}" if table.history != FULL else ""
    return f"{table.task} (data {table.data_digest[:12] if table.data_digest else 'unknown'}{part})"


def _legend(table: Table) -> str:
    has_gain = any(row.context_gain is not None for row in table.rows)
    return " ".join([_UNITS, *([_GAIN] if has_gain else []), f"Question types: {_LEGEND}"])


def _row_to_json(row: Row) -> dict[str, Any]:
    return {
        "model": row.model,
        "score": row.score,
        "floor": row.is_floor,
        "context": row.has_context,
        "n": row.n,
        "overall": row.overall._asdict(),
        "macro": row.macro._asdict(),
        "types": {name: _estimate_to_json(estimate) for name, estimate in row.types.items()},
        "context_gain": _estimate_to_json(row.context_gain),
        "paired_difference": _estimate_to_json(row.paired_difference),
        "invalid_rate": row.invalid_rate,
        "skipped_rate": row.skipped_rate,
        "truncated_rate": row.truncated_rate,
    }


def _estimate_to_json(estimate: Estimate | None) -> dict[str, Any] | None:
    return None if estimate is None else estimate._asdict()
