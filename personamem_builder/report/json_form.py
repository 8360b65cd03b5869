"""The JSON form of a report, for machines.

It has `schema_version` 1; all numbers are fractions, not percentages:

    {"schema_version": 1,
     "tables": [{"task": str, "data_digest": str | null,
                 "subset": {"file": str, "size": int, "sha256": str} | null, "limit": int | null,
                 "rows": [{"model": str, "memory": str, "score": str | null, "floor": bool, "context": bool,
                           "computed": bool, "n": int, "overall": ESTIMATE | null, "macro": ESTIMATE | null,
                           "types": {QUESTION_TYPE: ESTIMATE | null},
                           "chance_corrected": ESTIMATE | null,
                           "context_gain": ESTIMATE | null, "paired_difference": ESTIMATE | null,
                           "oracle_gap": ESTIMATE | null, "hard": ESTIMATE | null, "effective_n": float | null,
                           "failed_rate": float, "cut_rate": float, "refused_rate": float,
                           "invalid_rate": float, "skipped_rate": float, "truncated_rate": float,
                           "flags": ["failed" | "cut" | "refused" | "invalid"],
                           "usage": {"seconds": {"median": float, "p95": float, "n": int} | null,
                                     "prompt_tokens": TOKENS | null, "reply_tokens": TOKENS | null,
                                     "cached_tokens": TOKENS | null} | null}],
                 "hard_file": str | null,
                 "quoted": [{"system": str, "score": float, "source": str, "types": {QUESTION_TYPE: float}}],
                 "notes": [str],
                 "analyses": [ANALYSIS],
                 "left_out": [{"name": str, "title": str, "reason": str}]}],
     "curves": [ANALYSIS],
     "settings": [{"model": str, "split": str, "data_digest": str | null,
                   "settings": [{"name": str, "score": str, "overall": ESTIMATE,
                                 "types": {QUESTION_TYPE: ESTIMATE | null}}],
                   "pairs": [{"first": str, "second": str, "difference": ESTIMATE, "wins": int, "losses": int,
                              "mcnemar_p": float, "holm_p": float}]}],
     "comparisons": [{"task": str, "data_digest": str | null, "score": str, "first": str, "second": str,
                      "difference": ESTIMATE, "wins": int, "losses": int, "ties": int,
                      "mcnemar_p": float, "notes": [str],
                      "types": {QUESTION_TYPE: {"difference": ESTIMATE, "wins": int, "losses": int,
                                                "mcnemar_p": float, "holm_p": float} | null}}],
     "errors": ERRORS,
     "unreadable": [str]}
    ANALYSIS = {"name": str, "title": str, "unit": str, "bins": [str],
                "series": [{"model": str, "floor": bool, "values": [ESTIMATE | null]}],
                "expected": [float | null], "expects": str, "note": str, "remarks": [str]}
    ESTIMATE = {"value": float, "low": float | null, "high": float | null, "n": int, "clusters": int}
    TOKENS = {"mean": float, "n": int}

`memory` is what was shown of conversations: `full`, another value of `--metadata memory=…`, or a system. `limit` is
the number of questions of partial runs, null for whole ones. `types` has all seven types, null for one without
questions. `low` and `high` are the 95 % interval, null for one persona and for chance, whose row comes first (`model`
"chance", `score` null, `floor` true). `computed` rows are in no results file. A series of an analysis has a
value for each bin; `curves` are accuracy over
sessions, a bin for each number of them, and `settings` the models that were run in several; `comparisons` are there
where they were asked for, and so is `errors`, whose form `report.error_labels` defines. `failed_rate` is
the share of the questions asked to which no answer came: they count nowhere else, and where all failed there is no
`overall`. `cut_rate`, `refused_rate` and `invalid_rate` are shares of the answers; `flags` names those of the four
above 5 %. `usage` is what the answers took, see `personamem_builder.usage`, each figure over the `n` answers of which
it is known; null where nothing is, as of local models. `unreadable` is there where results could not be read: what is
wrong with them. A breaking change raises the version.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from personamem_builder.report import error_labels
from personamem_builder.report.breakdown import Analysis, LeftOut
from personamem_builder.report.compare import Comparison, TypeDifference
from personamem_builder.report.one_model import ModelSettings
from personamem_builder.report.report import Report
from personamem_builder.report.rows import ScoreRow
from personamem_builder.report.table import ScoreTable
from personamem_builder.statistics import Estimate

JSON_SCHEMA_VERSION: Final = 1
"""Version of the JSON form in the module docstring."""

_COMPARED: Final = ("chance_corrected", "context_gain", "oracle_gap", "paired_difference", "hard")
_SHARES: Final = ("failed", "cut", "refused", "invalid", "skipped", "truncated")


def to_json(report: Report, *, with_comparisons: bool = False) -> dict[str, Any]:
    """Return the JSON form that the module docstring defines."""
    form: dict[str, Any] = {"schema_version": JSON_SCHEMA_VERSION, "tables": []}
    for section in report.sections:
        made = [result for result in section.results if isinstance(result, Analysis)]
        form["tables"].append(
            _table_to_json(section.table)
            | {
                "analyses": [_analysis_to_json(analysis, section.floors) for analysis in made],
                "left_out": [result._asdict() for result in section.results if isinstance(result, LeftOut)],
            }
        )
    form["curves"] = [_analysis_to_json(curve, report.floors) for curve in report.curves]
    form["settings"] = [_settings_to_json(model) for model in report.settings]
    if with_comparisons:
        form["comparisons"] = [_comparison_to_json(comparison) for comparison in report.comparisons]
    if report.errors:
        form["errors"] = error_labels.to_json(report.errors)
    return form


def _table_to_json(table: ScoreTable) -> dict[str, Any]:
    return {
        "task": table.task,
        "data_digest": table.data_digest,
        "subset": None if table.subset is None else table.subset._asdict(),
        "limit": table.limit,
        "rows": [_row_to_json(row) for row in table.rows],
        "hard_file": None if table.hard is None else table.hard.file,
        "quoted": [{**one._asdict(), "types": dict(one.types)} for one in table.quoted],
        "notes": table.notes,
    }


def _analysis_to_json(analysis: Analysis, floors: frozenset[str]) -> dict[str, Any]:
    return {
        **{name: getattr(analysis, name) for name in ("name", "title", "unit")},
        "bins": list(analysis.bins),
        "series": [
            {"model": label, "floor": label in floors, "values": [_estimate_to_json(value) for value in values]}
            for label, values in analysis.series.items()
        ],
        "expected": list(analysis.expected),
        **{name: getattr(analysis, name) for name in ("expects", "note")},
        "remarks": list(analysis.remarks),
    }


def _settings_to_json(model: ModelSettings) -> dict[str, Any]:
    return {
        **{name: getattr(model, name) for name in ("model", "split", "data_digest")},
        "settings": [
            {
                "name": one.name,
                "score": one.score,
                "overall": one.overall._asdict(),
                "types": {kind: _estimate_to_json(value) for kind, value in one.types.items()},
            }
            for one in model.settings
        ],
        "pairs": [
            {
                "first": pair.first,
                "second": pair.second,
                "difference": pair.difference._asdict(),
                "wins": pair.mcnemar.better,
                "losses": pair.mcnemar.worse,
                "mcnemar_p": pair.mcnemar.p,
                "holm_p": pair.holm_p,
            }
            for pair in model.pairs
        ],
    }


def _comparison_to_json(comparison: Comparison) -> dict[str, Any]:
    return {
        **{name: getattr(comparison, name) for name in ("task", "data_digest", "score", "first", "second")},
        "difference": comparison.difference._asdict(),
        "wins": comparison.mcnemar.better,
        "losses": comparison.mcnemar.worse,
        "ties": comparison.ties,
        "mcnemar_p": comparison.mcnemar.p,
        "notes": list(comparison.notes),
        "types": _types_to_json(comparison.types),
    }


def _types_to_json(types: Mapping[str, TypeDifference | None]) -> dict[str, Any]:
    return {
        kind: one
        and {
            "difference": one.difference._asdict(),
            "wins": one.mcnemar.better,
            "losses": one.mcnemar.worse,
            "mcnemar_p": one.mcnemar.p,
            "holm_p": one.holm_p,
        }
        for kind, one in types.items()
    }


def _row_to_json(row: ScoreRow) -> dict[str, Any]:
    return {
        "model": row.model,
        "memory": row.memory,
        "score": row.score,
        "floor": row.is_floor,
        "context": row.has_context,
        "computed": row.is_computed,
        "n": row.n,
        "overall": _estimate_to_json(row.overall),
        "macro": _estimate_to_json(row.macro),
        "types": {name: _estimate_to_json(estimate) for name, estimate in row.types.items()},
        **{name: _estimate_to_json(getattr(row, name)) for name in _COMPARED},
        "effective_n": row.effective_n,
        **{f"{name}_rate": getattr(row, f"{name}_rate") for name in _SHARES},
        "flags": row.flags,
        "usage": row.usage and row.usage.to_json(),
    }


def _estimate_to_json(estimate: Estimate | None) -> dict[str, Any] | None:
    return None if estimate is None else estimate._asdict()
