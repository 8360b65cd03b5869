"""Columns of what a report says beside its tables: accuracy over sessions, and a model's settings."""

from __future__ import annotations

from typing import Final, NamedTuple

from personamem_builder.report.breakdown import Analysis
from personamem_builder.report.numbers import p_text, percent
from personamem_builder.report.one_model import ModelSettings
from personamem_builder.schema import SHORT_TYPES


class Column(NamedTuple):
    """A column of a table as text: what stands over it, and what it says of each row."""

    head: str
    cells: list[str]


PAIRS_LEGEND: Final = (
    "Differences in points, first minus second, over the questions that both settings answered, with 95 % intervals "
    "clustered by persona. p is of McNemar's exact test, two-sided; p (Holm) is corrected for the number of pairs."
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
