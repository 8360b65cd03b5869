"""What a report says, as columns of text: tables of scores, curves, settings, comparisons; with what they mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final, NamedTuple

from personamem_builder.report.breakdown import Analysis
from personamem_builder.report.compare import Comparison
from personamem_builder.report.numbers import p_text, percent
from personamem_builder.report.one_model import SCORES, ModelSettings
from personamem_builder.report.published import PublishedScore
from personamem_builder.report.rows import ScoreRow
from personamem_builder.report.table import ScoreTable
from personamem_builder.results.files import FLAG
from personamem_builder.schema import SHORT_TYPES

_UNITS = "Percent, with 95 % intervals clustered by persona."
_LOST: Final = {
    "failed": "Failed = questions to which no answer came: they count nowhere else, n leaves them out.",
    "cut": "Cut = answers that ended at the longest reply.",
    "refused": "Refused = answers that were declined, or withheld by a filter.",
}
_INVALID = "Invalid = whole answers from which no letter could be read."
USAGE_LEGEND = (
    "Seconds = wall time of the request that brought the answer, waits and failed tries left out (median; p95 = 95th "
    "percentile). Tokens = means an answer, as the endpoint counts them; cached = those of the prompt from its cache."
)
_LEGEND = "; ".join(f"{short} = {name}" for name, short in SHORT_TYPES.items()) + "."
_CORRECTED = "Above chance = (a - c) / (1 - c), with c the score of a blind guess."
_EFFECTIVE = "n eff. = as many independent questions would tell as much."
_ORACLE = "To oracle = how much more the same model scores with the evidence alone."
_GAIN = "Context gain = (a - a0) / (1 - a0), with a0 the score of the same model without context."


class Column(NamedTuple):
    """A column of a table as text: what stands over it, and what it says of each row."""

    head: str
    cells: list[str]


PAIRS_LEGEND: Final = (
    "Differences in points, first minus second, over the questions that both settings answered, with 95 % intervals "
    "clustered by persona. p is of McNemar's exact test, two-sided; p (Holm) is corrected for the number of pairs."
)


def name_columns(table: ScoreTable) -> list[Column]:
    """Return what the rows of a table are called."""
    return [
        Column("model", [f"{row.label} {FLAG}" if row.flags else row.label for row in table.rows]),
        Column("score", [row.score or "-" for row in table.rows]),
    ]


def score_columns(table: ScoreTable) -> list[Column]:
    """Return the columns about all questions together, without what answers took."""
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


def usage_columns(table: ScoreTable) -> list[Column]:
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


def usage_table(table: ScoreTable) -> list[Column]:
    """Return what answers took as a table of its own: a row for each run of which it is known, whatever its scores."""
    known = {row.label: row for row in table.rows if row.usage is not None}
    part = replace(table, rows=list(known.values()))
    return [name_columns(part)[0], Column("answers", [str(row.n) for row in part.rows]), *usage_columns(part)]


def _share(row: ScoreRow, share: float, *, of_all: bool = False) -> str:
    """Return a share in per cent, a dash where there is no answer to take it of."""
    return f"{share * 100:.1f}" if row.n or of_all else "-"


def by_type_columns(table: ScoreTable) -> list[Column]:
    """Return a column for each question type."""
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
    usage = USAGE_LEGEND if usage_columns(table) else ""
    described = [_UNITS, scores, _CORRECTED, gain, oracle, hard, *lost, _EFFECTIVE, usage]
    parts = [*described, f"Question types: {_LEGEND}"]
    return " ".join(part for part in parts if part)


def summary_columns(table: ScoreTable) -> list[Column]:
    """Return the columns of a table that are about all questions together, as text."""
    return [*name_columns(table), *score_columns(table), *usage_columns(table)]


def type_columns(table: ScoreTable) -> list[Column]:
    """Return the columns of a table that are about a question type each, as text."""
    return [*name_columns(table), *by_type_columns(table)]


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


def quoted_type_columns(quoted: Sequence[PublishedScore]) -> list[Column]:
    """Return those published scores that are known by question type; no columns where there are none."""
    told = [one for one in quoted if one.types]
    system, _, overall, *types = quoted_columns(told)
    return [Column("quoted", system.cells), overall, *types] if told else []


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


def curve_columns(curve: Analysis) -> list[Column]:
    """Return accuracy over sessions, a row for each model and one for a blind guess."""
    labels = [*curve.series, curve.expects]
    columns = [Column("sessions", labels)]
    for i, name in enumerate(curve.bins):
        chance = curve.expected[i]
        cells = [percent(values[i]) for values in curve.series.values()]
        columns.append(Column(name, [*cells, "-" if chance is None else f"{100 * chance:.1f}"]))
    return columns


def settings_title(model: ModelSettings) -> str:
    """Return what a table of settings is of."""
    data = model.data_digest[:12] if model.data_digest else "unknown"
    return f"{model.model} in {len(model.settings)} settings on {model.split} (data {data})"


def setting_columns(model: ModelSettings) -> list[Column]:
    """Return the scores of a model by setting."""
    settings = model.settings
    return [
        Column("setting", [one.name for one in settings]),
        Column("score", [one.score for one in settings]),
        Column("n", [str(one.overall.n) for one in settings]),
        Column("overall", [percent(one.overall) for one in settings]),
        *(Column(short, [percent(one.types[kind]) for one in settings]) for kind, short in SHORT_TYPES.items()),
    ]


def pair_columns(model: ModelSettings) -> list[Column]:
    """Return the pairs of a model's settings."""
    pairs = model.pairs
    return [
        Column("first", [one.first for one in pairs]),
        Column("second", [one.second for one in pairs]),
        Column("n", [str(one.difference.n) for one in pairs]),
        Column("difference", [percent(one.difference, "+") for one in pairs]),
        Column("wins", [str(one.mcnemar.better) for one in pairs]),
        Column("losses", [str(one.mcnemar.worse) for one in pairs]),
        Column("p", [p_text(one.mcnemar.p) for one in pairs]),
        Column("p (Holm)", [p_text(one.holm_p) for one in pairs]),
    ]
