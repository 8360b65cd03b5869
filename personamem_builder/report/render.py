"""Write a report as text for a terminal, as GitHub Markdown, and as LaTeX."""

from __future__ import annotations

import re
from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Final

from personamem_builder.report.columns import (
    COMPARISON_LEGEND,
    PAIRS_LEGEND,
    USAGE_LEGEND,
    Column,
    by_type_columns,
    comparison_columns,
    comparison_title,
    curve_columns,
    legend,
    name_columns,
    pair_columns,
    quoted_lines,
    quoted_type_columns,
    score_columns,
    setting_columns,
    settings_title,
    summary_columns,
    title,
    usage_columns,
    usage_table,
)
from personamem_builder.report.compare import Comparison, in_words
from personamem_builder.report.table import ScoreTable
from personamem_builder.results.files import FLAG
from personamem_builder.text_table import text_table

if TYPE_CHECKING:
    from personamem_builder.report.breakdown import Analysis
    from personamem_builder.report.one_model import ModelSettings

_NAME_WIDTH = 32
_GAP = 2


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
            _markdown_table([*summary_columns(table), *by_type_columns(table)]),
            legend(table),
        ]
        if notes := [*table.notes, *quoted_lines(table.quoted)]:
            parts.append("\n".join(f"- {_markdown(note)}" for note in notes))
        if quoted := quoted_type_columns(table.quoted):
            parts.append(_markdown_table(quoted, left=1))
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
        chosen = [*name_columns(table), *score_columns(table)[:3], *by_type_columns(table)]
        lost = [column for column in score_columns(table) if column.head in ("failed", "cut", "refused", "invalid")]
        chosen += [column for column in lost if any(row.shares[column.head] for row in table.rows)]
        chosen += (usage := usage_columns(table))
        parts.append(_latex_table(title(table), chosen, left=2))
        parts += [rf"\par{{\footnotesize {_latex(USAGE_LEGEND)}}}"] if usage else []
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
            own, and where that is wider still, intervals go below the values; what is wider even then becomes several.
        comparisons: What to show at the end.
        curves: Accuracy over sessions.
        settings: Models in their settings.

    Returns:
        Plain text; a line is longer only where one word, or one column, is.
    """
    parts: list[str] = []
    for table in tables:
        names, scores, types = name_columns(table), score_columns(table), by_type_columns(table)
        everything = [*names, *scores, *usage_columns(table), *types]
        fits = _width(everything) <= width
        parts += [title(table), ""]
        for chosen in [everything] if fits else [[*names, *scores], [*names, *types]]:
            parts += [_text_table(chosen if _width(chosen) <= width else _stack(chosen), width), ""]
        if usage_columns(table) and not fits:
            parts += [_text_table(usage_table(table), width), ""]
        parts += [_filled(legend(table), width)]
        parts += [_filled(f"note: {note}", width) for note in [*table.notes, *quoted_lines(table.quoted)]]
        if quoted := quoted_type_columns(table.quoted):
            parts += ["", _text_table(quoted, width)]
        parts.append("")
    for curve in curves:
        parts += [_filled(curve.title, width), "", _text_table(_fitting(curve_columns(curve), width), width), ""]
        parts += [_filled(curve.note, width), ""]
    for model in settings:
        parts += [_filled(settings_title(model), width), ""]
        for chosen in (setting_columns(model), pair_columns(model)):
            parts += [_text_table(_fitting(chosen, width), width), ""]
        parts += [_filled(PAIRS_LEGEND, width), ""]
    for comparison in comparisons:
        parts += [_filled(comparison_title(comparison), width)]
        parts += [_filled(sentence, width) for sentence in [*in_words(comparison), *comparison.notes]]
        parts += ["", _text_table(comparison_columns(comparison), width), ""]
    if comparisons:
        parts.append(_filled(COMPARISON_LEGEND, width))
    return "\n".join(parts).strip("\n")


def _filled(text: str, width: int) -> str:
    """Return a paragraph in lines of at most a width, broken between words."""
    return "\n".join(fill(line, width, break_long_words=False, break_on_hyphens=False) for line in text.split("\n"))


def markdown_part(name: str, chosen: Sequence[Column], below: Sequence[str]) -> str:
    """Return a heading, a table whose first column has names, and paragraphs."""
    return "\n\n".join([f"### {_markdown(name)}", _markdown_table(chosen, left=1), *map(_markdown, below)])


def latex_part(name: str, chosen: Sequence[Column]) -> str:
    """Return a table whose first column has names, after a comment that says what it is."""
    return _latex_table(name, chosen, left=1)


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


def _text_table(columns: Sequence[Column], width: int) -> str:
    """Return columns as a table, or as several where they are wider; names stand at the left, in lines of their own."""
    names, *others = columns
    if _width(columns) > width or max(map(len, names.cells), default=0) > width // 2:
        names = Column(names.head, ["\n".join(map(_folded, cell.split("\n"))) for cell in names.cells])
    rows = [[column.head for column in (names, *others)]]
    rows += map(list, zip(*(column.cells for column in (names, *others)), strict=True))
    return text_table(rows, "lr", ruled=True, width=width)


def _folded(name: str) -> str:
    """Return a name in lines: broken between words, else after a slash; other words stay whole, however long."""
    if any(len(word) > _NAME_WIDTH for word in name.split()):
        name = name.replace("/", "/\0 ")
    lines = fill(name, _NAME_WIDTH, break_long_words=False, break_on_hyphens=False)
    return lines.replace("\0 ", "").replace("\0", "")


def _width(columns: Sequence[Column]) -> int:
    """Return the width that columns need on one line a row."""
    longest = [
        max(len(line) for cell in [column.head, *column.cells] for line in cell.split("\n")) for column in columns
    ]
    return sum(longest) + _GAP * (len(columns) - 1)


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
