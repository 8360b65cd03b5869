"""The measures of a memory system as a table, and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from generation.records import TELLINGS
from personamem_builder.memory.comparison import MeasureDifference
from personamem_builder.memory.firewall import OPTIONS_SHOWN
from personamem_builder.memory.measures import (
    DISTANCES,
    Measure,
    Retrieval,
    by_slice,
    costs,
    distance_class,
    estimate,
    returns_everything,
)
from personamem_builder.memory.store import MemoryStore
from personamem_builder.schema import MIXED
from personamem_builder.text_table import text_table

ALL: Final = "all"
_SLICED: Final = (
    "evidence recall",
    "outdated only",
    "contradictory",
    "answers by rules",
    "own answers",
    "tokens per query",
)
"""What is told by question type, by telling and by distance too."""


def summarise(found: Sequence[Retrieval], measures: Sequence[Measure]) -> dict[str, Any]:
    """Return the measures over all questions, and by type, by how the evidence is told, and by distance.

    Returns:
        JSON: `questions`, `returns_everything` and `measures`, a list of `{measure, unit, slice, value, low, high, n}`.
        Shares are fractions, with 95 % intervals clustered by persona.
    """
    rows = {one.row["question_id"]: one.row for one in found}
    types = by_slice(rows.values(), lambda row: str(row["question_type"]))
    distances = by_slice(rows.values(), lambda row: distance_class(row["distance_to_ref_in_blocks"]))
    tellings = by_slice(rows.values(), lambda row: row.get("telling") or "")
    order = [distance_class(first) for first in DISTANCES]
    slices: dict[str, set[str] | None] = {ALL: None}
    slices |= {name: types[name] for name in sorted(types)}
    slices |= {f"told: {name}": tellings[name] for name in (*TELLINGS, MIXED) if name in tellings}
    slices |= {name: distances[name] for name in order if name in distances}
    lines = []
    for measure in measures:
        for name, ids in slices.items():
            value = estimate(measure, rows, ids) if ids is None or measure.name in _SLICED else None
            if value is not None:
                lines.append(
                    {
                        "measure": measure.name,
                        "unit": measure.unit,
                        "slice": name,
                        "value": value.value,
                        "low": value.low,
                        "high": value.high,
                        "n": value.n,
                    }
                )
    return {"questions": len(found), "returns_everything": returns_everything(measures), "measures": lines}


def of_store(store: MemoryStore) -> dict[str, Any]:
    """Return what a run took and what was wrong with what was given back, as JSON."""
    lines = list(store.questions.values())
    first = next((line["error"] for line in [*store.sessions, *lines] if line["error"]), None)
    return {
        **store.about,
        "store": str(store.folder),
        "digest": store.digest,
        "tainted": len(store.tainted),
        "taint": [[key, *taint] for key in store.tainted for taint in store.questions[key]["taint"]][:_SHOWN],
        "faults": dict(Counter(fault for line in lines for fault in line["faults"])),
        "failed_queries": sum(bool(line["error"]) for line in lines),
        "empty_queries": sum(not line["memories"] and not line["error"] for line in lines),
        "first_error": first,
        "failed_sessions": sum(bool(line["error"]) for line in store.sessions),
        "costs": costs(store),
    }


_SHOWN: Final = 20


def to_text(summary: Mapping[str, Any], width: int | None = None) -> str:
    """Return a summary as tables for a terminal, of so many columns if it has some."""
    shown = [line for line in summary["measures"] if line["slice"] == ALL]
    parts = [text_table([["measure", "value", "95 % interval", "n"], *map(_overall, shown)], "lr", ruled=True)]
    names = [line["measure"] for line in shown if line["measure"] in _SLICED]
    cells = {(line["slice"], line["measure"]): number(line["value"], line["unit"]) for line in summary["measures"]}
    counts: dict[str, int] = {}
    for line in summary["measures"]:
        counts[line["slice"]] = max(line["n"], counts.get(line["slice"], 0))
    slices = [name for name in counts if name != ALL]
    if slices:
        rows = [[s, *(cells.get((s, n), "") for n in names), str(counts[s])] for s in slices]
        parts.append(text_table([["", *names, "n"], *rows], "lr", ruled=True, width=width))
    return "\n\n".join([*parts, *_remarks(summary)])


def _remarks(summary: Mapping[str, Any]) -> list[str]:
    remarks = []
    if "costs" in summary:
        cost = summary["costs"]
        remarks += _costs(cost)
        if cost["failed"]:
            remarks.append(
                f"{cost['failed']} of {cost['pieces']} sessions FAILED to be taken in: {summary['first_error']}"
            )
    if summary.get("budget_tokens"):
        remarks.append(f"Of what was found, the best {summary['budget_tokens']:,} tokens count for each question.")
    if summary["returns_everything"]:
        remarks.append("It returns nearly all of the history: its recall says nothing about finding.")
    if summary.get("failed_queries"):
        remarks.append(f"{summary['failed_queries']} queries FAILED: {summary['first_error']}")
    if summary.get("empty_queries"):
        remarks.append(f"{summary['empty_queries']} queries found nothing")
    if summary.get("faults"):
        remarks.append("put right: " + ", ".join(f"{name} {count}" for name, count in summary["faults"].items()))
    if summary.get("tainted"):
        remarks.append(_taint(summary))
    return ["\n".join(remarks)] if remarks else []


def _costs(cost: Mapping[str, Any]) -> list[str]:
    used = "".join(f"; {key} {value:,.6g}" for key, value in cost["usage"].items())
    lines = [
        f"{cost['sessions']} sessions taken in, {cost['seconds_per_session']:.3g} s each; "
        f"{cost['tokens']:,} tokens shown; {cost['seconds']:,.3g} s in all{used}"
    ]
    if waits := cost["seconds_per_query"]:
        lines.append(f"a query took {waits['median']:.3g} s (median), {waits['p95']:.3g} s (95th percentile)")
    return lines


def _taint(summary: Mapping[str, Any]) -> str:
    question, kind, text = summary["taint"][0]
    if kind == OPTIONS_SHOWN:
        return f"TAINTED: the system was shown the options of {summary['tainted']} questions before it searched"
    return (
        f"TAINTED: the memories of {summary['tainted']} questions hold what the history does not and the key does, "
        f"such as, for question {question}, of its {kind}: {text!r}"
    )


def comparison_to_text(stores: tuple[MemoryStore, MemoryStore], lines: Sequence[MeasureDifference]) -> str:
    """Return a comparison of two systems, A and B, as a table for a terminal, with what each took."""
    rows = [
        [
            line.name,
            number(line.first, line.unit),
            number(line.second, line.unit),
            number(line.difference, line.unit, signed=True),
            _interval(line.low, line.high, line.unit, signed=True),
            str(line.n),
        ]
        for line in lines
    ]
    head = ["measure", "A", "B", "B - A", "95 % interval", "n"]
    names = [f"{letter}: {store.title}" for letter, store in zip("AB", stores, strict=True)]
    taken = [f"{letter}: {'; '.join(_costs(costs(store)))}" for letter, store in zip("AB", stores, strict=True)]
    return "\n".join([*names, "", text_table([head, *rows], "lr", ruled=True), "", *taken])


def _overall(line: Mapping[str, Any]) -> list[str]:
    unit = line["unit"]
    return [line["measure"], number(line["value"], unit), _interval(line["low"], line["high"], unit), str(line["n"])]


def number(value: float, unit: str, *, signed: bool = False) -> str:
    """Return a value of the unit `share`, `tokens`, `dollars`, `count` or `seconds` as it is shown."""
    sign = "+" if signed else ""
    if unit == "share":
        return f"{100 * value:{sign}.1f} %"
    if unit in ("dollars", "count"):
        return f"{value:{sign},.4g}{' dollars' if unit == 'dollars' else ''}"
    return f"{value:{sign},.0f}" if unit == "tokens" else f"{value:{sign}.4f} s"


def _interval(low: float | None, high: float | None, unit: str, *, signed: bool = False) -> str:
    if low is None or high is None:
        return ""
    return f"{number(low, unit, signed=signed)} to {number(high, unit, signed=signed)}"
