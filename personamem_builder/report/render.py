"""Write a report as text for a terminal, as GitHub Markdown, and as LaTeX."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from itertools import chain, groupby
from typing import TYPE_CHECKING, Final

from personamem_builder.report.columns import (
    PAIRS_LEGEND,
    Column,
    curve_columns,
    pair_columns,
    setting_columns,
    settings_title,
)
from personamem_builder.report.compare import Comparison, in_words
from personamem_builder.report.numbers import p_text, percent
from personamem_builder.report.one_model import SCORES
from personamem_builder.report.published import PublishedScore
from personamem_builder.report.rows import ScoreRow
from personamem_builder.report.table import ScoreTable
from personamem_builder.results.files import FLAG
from personamem_builder.schema import SHORT_TYPES

if TYPE_CHECKING:
    from rich.table import Table as Grid

    from personamem_builder.report.breakdown import Analysis
    from personamem_builder.report.one_model import ModelSettings

_NAME_WIDTH = 24
_GAP = 2
_UNITS = "Percent, with 95 % intervals clustered by persona."
_LOST: Final = {
    "failed": "Failed = questions to which no answer came: they count nowhere else, n leaves them out.",
    "cut": "Cut = answers that ended at the longest reply.",
    "refused": "Refused = answers that were declined, or withheld by a filter.",
}
_INVALID = "Invalid = whole answers from which no letter could be read."
_USAGE = (
    "Seconds = wall time of the request that brought the answer, waits and failed tries left out (median; p95 = 95th "
    "percentile). Tokens = means an answer, as the endpoint counts them; cached = those of the prompt from its cache."
)
_LEGEND = "; ".join(f"{short} = {name}" for name, short in SHORT_TYPES.items()) + "."
_CORRECTED = "Above chance = (a - c) / (1 - c), with c the score of a blind guess."
_EFFECTIVE = "n eff. = as many independent questions would tell as much."
_ORACLE = "To oracle = how much more the same model scores with the evidence alone."
_GAIN = "Context gain = (a - a0) / (1 - a0), with a0 the score of the same model without context."


def to_markdown(
    tables: Sequence[ScoreTable],
    comparisons: Sequence[Comparison] = (),
    curves: Sequence[Analysis] = (),
    settings: Sequence[ModelSettings] = (),
) -> str:
    """Return GitHub Markdown: a heading, a table, its legend and its notes for each table, then all that joins them."""
    parts = []
    for table in tables:
        parts += [
            f"### {_markdown(title(table))}",
            _markdown_table([*_names(table), *_summary(table), *_usage(table), *_by_type(table)]),
            legend(table),
        ]
        if notes := [*table.notes, *quoted_lines(table.quoted)]:
            parts.append("\n".join(f"- {_markdown(note)}" for note in notes))
    for curve in curves:
        parts += [f"### {_markdown(curve.title)}", _markdown_table(curve_columns(curve), left=1), curve.note]
    for model in settings:
        parts += [f"### {_markdown(settings_title(model))}", _markdown_table(setting_columns(model))]
        parts += [_markdown_table(pair_columns(model)), PAIRS_LEGEND]
    for comparison in comparisons:
        parts.append(f"### {_markdown(comparison_title(comparison))}")
        parts.append(_markdown(" ".join([*in_words(comparison), *comparison.notes])))
        parts.append(_markdown_table(comparison_columns(comparison), left=1))
    if comparisons:
        parts.append(COMPARISON_LEGEND)
    return "\n\n".join(parts)


def to_latex(
    tables: Sequence[ScoreTable],
    comparisons: Sequence[Comparison] = (),
    curves: Sequence[Analysis] = (),
    settings: Sequence[ModelSettings] = (),
) -> str:
    """Return LaTeX tables for the package booktabs, each after a comment that says what it is."""
    parts = []
    for table in tables:
        chosen = [*_names(table), *_summary(table)[:3], *_by_type(table)]
        lost = [column for column in _summary(table) if column.head in ("failed", "cut", "refused", "invalid")]
        chosen += [column for column in lost if any(row.shares[column.head] for row in table.rows)]
        chosen += (usage := _usage(table))
        parts.append(_latex_table(title(table), chosen, left=2))
        parts += [rf"\par{{\footnotesize {_latex(_USAGE)}}}"] if usage else []
        parts += [rf"\par{{\footnotesize {_latex(note)}}}" for note in table.notes if note.startswith(FLAG)]
    parts += [_latex_table(curve.title, curve_columns(curve), left=1) for curve in curves]
    for model in settings:
        parts += [_latex_table(settings_title(model), own(model), left=2) for own in (setting_columns, pair_columns)]
    parts += [_latex_table(comparison_title(one), comparison_columns(one), left=1) for one in comparisons]
    return "\n\n".join(parts)


def to_text(
    tables: Sequence[ScoreTable],
    width: int,
    comparisons: Sequence[Comparison] = (),
    curves: Sequence[Analysis] = (),
    settings: Sequence[ModelSettings] = (),
) -> str:
    """Return tables for a terminal, then what joins them, then comparisons.

    Args:
        tables: What to show.
        width: Columns of the terminal. Where a table is wider, the question types get a table of their
            own, and where that is wider still, intervals go below the values.
        comparisons: What to show at the end.
        curves: Accuracy over sessions.
        settings: Models in their settings.

    Returns:
        Plain text; lines may be folded where the terminal is very narrow.
    """
    from rich.console import Console

    out = io.StringIO()
    # Names of models are printed as they are: no markup, no `:emoji:`.
    console = Console(file=out, width=width, color_system=None, highlight=False, markup=False, emoji=False)
    for table in tables:
        names, parts = _names(table), [_summary(table), _usage(table), _by_type(table)]
        everything = [*names, *chain(*parts)]
        console.print(title(table))
        for chosen in [everything] if _width(everything) <= width else [[*names, *part] for part in parts if part]:
            console.print(_grid(chosen if _width(chosen) <= width else _stack(chosen)))
        console.print(legend(table))
        for note in [*table.notes, *quoted_lines(table.quoted)]:
            console.print(f"note: {note}")
        console.print()
    for curve in curves:
        console.print(curve.title)
        console.print(_grid(_fitting(curve_columns(curve), width)))
        console.print(curve.note)
        console.print()
    for model in settings:
        console.print(settings_title(model))
        for chosen in (setting_columns(model), pair_columns(model)):
            console.print(_grid(_fitting(chosen, width)))
        console.print(PAIRS_LEGEND)
        console.print()
    for comparison in comparisons:
        console.print(comparison_title(comparison))
        for sentence in [*in_words(comparison), *comparison.notes]:
            console.print(sentence)
        console.print(_grid(comparison_columns(comparison)))
    if comparisons:
        console.print(COMPARISON_LEGEND)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()).strip("\n")


def summary_columns(table: ScoreTable) -> list[Column]:
    """Return the columns of a table that are about all questions together, as text."""
    return [*_names(table), *_summary(table), *_usage(table)]


def type_columns(table: ScoreTable) -> list[Column]:
    """Return the columns of a table that are about a question type each, as text."""
    return [*_names(table), *_by_type(table)]


def quoted_columns(quoted: Sequence[PublishedScore]) -> list[Column]:
    """Return published scores, as text."""
    columns = [
        Column("system", [one.system for one in quoted]),
        Column("source", [one.source for one in quoted]),
        Column("overall", [f"{100 * one.score:.0f}" for one in quoted]),
    ]
    if any(one.types for one in quoted):
        columns += [
            Column(short, [f"{100 * one.types[name]:.0f}" if name in one.types else "-" for one in quoted])
            for name, short in SHORT_TYPES.items()
        ]
    return columns


def quoted_lines(quoted: Sequence[PublishedScore]) -> list[str]:
    """Return published scores in words, a line for each source."""
    return [
        f"Quoted ({source}), in per cent, not on these rows: "
        + ", ".join(f"{one.system} {100 * one.score:.0f}" for one in group)
        + "."
        for source, group in groupby(quoted, key=lambda one: one.source)
    ]


def comparison_title(comparison: Comparison) -> str:
    """Return what a comparison is of."""
    data = comparison.data_digest[:12] if comparison.data_digest else "unknown"
    return f"{comparison.first} against {comparison.second} on {comparison.task}, {comparison.score} (data {data})"


def comparison_columns(comparison: Comparison) -> list[Column]:
    """Return a comparison by question type, as text."""
    found = [(SHORT_TYPES[kind], one) for kind, one in comparison.types.items() if one is not None]
    return [
        Column("type", [name for name, _ in found]),
        Column("n", [str(one.difference.n) for _, one in found]),
        Column("difference", [percent(one.difference, "+") for _, one in found]),
        Column("wins", [str(one.mcnemar.better) for _, one in found]),
        Column("losses", [str(one.mcnemar.worse) for _, one in found]),
        Column("p", [p_text(one.mcnemar.p) for _, one in found]),
        Column("p (Holm)", [p_text(one.holm_p) for _, one in found]),
    ]


COMPARISON_LEGEND: Final = (
    "Differences in points, first minus second, with 95 % intervals clustered by persona, each for itself. p is of "
    "McNemar's exact test, two-sided; p (Holm) is corrected for the number of types."
)


def _markdown_table(chosen: Sequence[Column], left: int = 2) -> str:
    marks = ["---"] * left + ["---:"] * (len(chosen) - left)
    lines = [[column.head for column in chosen], marks]
    lines += [[_markdown(cell) for cell in cells] for cells in zip(*(column.cells for column in chosen), strict=True)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _markdown(text: str) -> str:
    """Return text that GitHub shows as it is. Brackets of intervals need no escape: no link follows them."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = re.sub(r"([\\`*|~!#])", r"\\\1", text)
    text = re.sub(r"\](?=[(\[:])", r"\\]", text)
    return re.sub(r"(?<!\w)_|_(?!\w)", r"\\_", text)


_LATEX: Final = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{char: f"\\{char}" for char in "&%$#_"},
}


def _latex_table(name: str, chosen: Sequence[Column], left: int) -> str:
    lines = [
        f"% {name}".replace("\n", " "),
        rf"\begin{{tabular}}{{{'l' * left}{'r' * (len(chosen) - left)}}}",
        r"\toprule",
        " & ".join(_latex(column.head) for column in chosen) + r" \\",
        r"\midrule",
        *(" & ".join(map(_latex, cells)) + r" \\" for cells in zip(*(column.cells for column in chosen), strict=True)),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines)


def _latex(text: str) -> str:
    return "".join(_LATEX.get(char, char) for char in text)


def _grid(columns: Sequence[Column]) -> Grid:
    from rich import box
    from rich.table import Table as Grid

    grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for index, column in enumerate(columns):
        grid.add_column(column.head, justify="left" if index == 0 else "right", overflow="fold")
    for cells in zip(*(column.cells for column in columns), strict=True):
        grid.add_row(*cells)
    return grid


def _width(columns: Sequence[Column]) -> int:
    """Return the width that columns need on one line a row, but for long model names, which may fold."""
    longest = [max(len(cell) for cell in [column.head, *column.cells]) for column in columns]
    return min(longest[0], _NAME_WIDTH) + sum(longest[1:]) + _GAP * len(columns)


def _stack(columns: Sequence[Column]) -> list[Column]:
    """Make columns narrower: scores go below the models, intervals below the values."""
    models, scores, *rest = columns
    labels = ["\n".join(pair) for pair in zip(models.cells, scores.cells, strict=True)]
    below = [Column(head, [cell.replace(" [", "\n[") for cell in cells]) for head, cells in rest]
    return [Column(f"{models.head}\n{scores.head}", labels), *below]


def _fitting(columns: list[Column], width: int) -> list[Column]:
    """Return columns with intervals below the values where they are wider than the terminal."""
    if _width(columns) <= width:
        return columns
    return [Column(head, [cell.replace(" [", "\n[") for cell in cells]) for head, cells in columns]


def _names(table: ScoreTable) -> list[Column]:
    return [
        Column("model", [f"{row.label} {FLAG}" if row.flags else row.label for row in table.rows]),
        Column("score", [row.score or "-" for row in table.rows]),
    ]


def _summary(table: ScoreTable) -> list[Column]:
    rows = table.rows
    columns = [
        Column("n", [str(row.n) for row in rows]),
        Column("overall", [percent(row.overall) for row in rows]),
        Column("macro", [percent(row.macro) for row in rows]),
        Column("above chance", [percent(row.chance_corrected) for row in rows]),
    ]
    if any(row.context_gain is not None for row in rows):
        columns.append(Column("context gain", [percent(row.context_gain) for row in rows]))
    if any(row.oracle_gap is not None for row in rows):
        columns.append(Column("to oracle", [percent(row.oracle_gap) for row in rows]))
    if table.hard is not None:
        columns.append(Column("hard", [percent(row.hard) for row in rows]))
    for name in ("failed", "cut", "refused"):
        if any(row.shares[name] for row in rows):
            columns.append(Column(name, [_share(row, row.shares[name], of_all=name == "failed") for row in rows]))
    columns.append(Column("invalid", [_share(row, row.invalid_rate) for row in rows]))
    columns.append(Column("skipped", [_share(row, row.skipped_rate) for row in rows]))
    if any(row.truncated_rate for row in rows):
        columns.append(Column("truncated", [_share(row, row.truncated_rate) for row in rows]))
    columns.append(Column("n eff.", ["-" if row.effective_n is None else f"{row.effective_n:.0f}" for row in rows]))
    return columns


def _usage(table: ScoreTable) -> list[Column]:
    """Return what answers took, where that is known of some row."""
    taken = [row.usage for row in table.rows]
    seconds = [one and one.seconds for one in taken]
    columns = []
    if any(seconds):
        columns += [
            Column("seconds", [f"{one.median:.2f}" if one else "-" for one in seconds]),
            Column("p95", [f"{one.p95:.2f}" if one else "-" for one in seconds]),
        ]
    for kind in ("prompt", "reply", "cached"):
        tokens = [one and getattr(one, f"{kind}_tokens") for one in taken]
        if any(tokens):
            columns.append(Column(f"{kind} tokens", [f"{one.mean:,.0f}" if one else "-" for one in tokens]))
    return columns


def _share(row: ScoreRow, share: float, *, of_all: bool = False) -> str:
    """Return a share in per cent, a dash where there is no answer to take it of."""
    return f"{share * 100:.1f}" if row.n or of_all else "-"


def _by_type(table: ScoreTable) -> list[Column]:
    return [Column(short, [percent(row.types[name]) for row in table.rows]) for name, short in SHORT_TYPES.items()]


def title(table: ScoreTable) -> str:
    """Return what a table is of."""
    part = f", {table.subset.size} questions of {table.subset.file}" if table.subset else ""
    part += f", partial: {table.limit} questions" if table.limit is not None else ""
    return f"{table.task} (data {table.data_digest[:12] if table.data_digest else 'unknown'}{part})"


def legend(table: ScoreTable) -> str:
    """Return what the columns of a table are."""
    has_gain = any(row.context_gain is not None for row in table.rows)
    hard = f"Hard = on the {len(table.hard.ids)} questions of {table.hard.file}." if table.hard else ""
    oracle = _ORACLE if any(row.oracle_gap is not None for row in table.rows) else ""
    lost = [text for name, text in _LOST.items() if any(row.shares[name] for row in table.rows)]
    lost += [_INVALID] if lost else []
    gain = _GAIN if has_gain else ""
    named = dict.fromkeys(row.score for row in table.rows if row.score in SCORES)
    scores = "; ".join(SCORES[name] for name in named if name) + "." if len(named) > 1 else ""
    usage = _USAGE if _usage(table) else ""
    described = [_UNITS, scores, _CORRECTED, gain, oracle, hard, *lost, _EFFECTIVE, usage]
    parts = [*described, f"Question types: {_LEGEND}"]
    return " ".join(part for part in parts if part)
