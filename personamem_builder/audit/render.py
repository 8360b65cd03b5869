"""Write an audit as text for a terminal and as JSON.

The JSON form has `schema_version` 1; rates and ends of intervals are fractions, rounded to six decimals:

    {"format": "personamem-audit", "schema_version": 1, "source": str, "digest": str, "passed": bool,
     "splits": [{"split": str, "questions": int, "personas": int, "sampled": int,
                 "detectable": {group: {slice: float | null}},
                 "findings": [{"check": str, "slice": str, "value": float | null, "low": float | null,
                               "high": float | null, "n": int, "clusters": int, "chance": float | null,
                               "limit": str, "verdict": "pass" | "FAIL" | "", "detectable": float | null,
                               "examples": [str], "note": str, "needs": str}]}]}

`slice` is `all`, a question type, or a way in which evidence is told. `digest` is that of a dataset folder, empty for
anything else. `sampled` is there only where probes were trained and tested on a part of the questions, and says on how
many. A check that could not be made has null for its value and says what it `needs`. `detectable` is by how much an
accuracy has to be above chance for the test against chance to find it nine times in ten; that of a group of checks,
such as `probe`, is the largest of its checks, null where one of them could find nothing. A breaking change raises the
version.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any, Final

from personamem_builder.audit.gates import Judged, tally
from personamem_builder.audit.records import ALL, Finding
from personamem_builder.schema import SHORT_TYPES
from personamem_builder.text_table import text_table

if TYPE_CHECKING:
    from personamem_builder.audit.audit import Audit

FORMAT: Final = "personamem-audit"
JSON_SCHEMA_VERSION: Final = 1
"""Version of the JSON form in the module docstring."""

_DECIMALS: Final = 6
_EXAMPLES: Final = 2
_HEADS: Final = ("check", "of", "value", "95 %", "chance", "limit", "verdict")


def to_json(audit: Audit) -> dict[str, Any]:
    """Return the JSON form that the module docstring defines."""
    return {
        "format": FORMAT,
        "schema_version": JSON_SCHEMA_VERSION,
        "source": audit.source,
        "digest": audit.digest,
        "passed": not audit.failed,
        "splits": [
            {
                "split": split.name,
                "questions": len(split.rows),
                "personas": len(set(split.personas)),
                **({} if (sampled := audit.sampled(split)) is None else {"sampled": sampled}),
                "detectable": {
                    group: {slice_: _rounded(excess) for slice_, excess in slices.items()}
                    for group, slices in detectable(
                        [one for one in audit.judged if one.finding.split == split.name]
                    ).items()
                },
                "findings": [_to_json(one) for one in audit.judged if one.finding.split == split.name],
            }
            for split in audit.splits
        ],
    }


def _to_json(one: Judged) -> dict[str, Any]:
    finding = one.finding
    return {
        "check": finding.check,
        "slice": finding.slice,
        "value": _rounded(finding.value),
        "low": _rounded(finding.low),
        "high": _rounded(finding.high),
        "n": finding.n,
        "clusters": finding.clusters,
        "chance": _rounded(finding.chance),
        "limit": one.limit,
        "verdict": one.verdict,
        "detectable": _rounded(one.detectable),
        "examples": list(finding.examples),
        "note": finding.note,
        "needs": finding.needs,
    }


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, _DECIMALS)


def to_text(audit: Audit, width: int | None = None) -> str:
    """Return the tables of an audit: every check over all questions, and of its types those that miss their limit.

    Args:
        audit: What to show.
        width: Columns of the terminal, if it has some. Where a table is wider, limits are left out; a line says so.
    """
    parts = []
    for split in audit.splits:
        own = [one for one in audit.judged if one.finding.split == split.name]
        size = f"{_count(len(split.rows), 'question')} of {_count(len(set(split.personas)), 'persona')}"
        if (sampled := audit.sampled(split)) is not None:
            size += f"; probes: of {_count(len(split.rows), 'question')}, a sample of {sampled:,}"
        lines = [*_notes(own), *_lacking(own), *_could_find(own), f"{split.name}: {_summary(own)}"]
        lines = [_filled(line, width) for line in lines] if width is not None else lines
        parts.append("\n".join([f"{split.name}: {size}", "", _table(own, width), *lines]))
    return "\n\n".join(parts)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _filled(line: str, width: int) -> str:
    """Return a line in lines of at most a width, the others two spaces further in than the first."""
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    return fill(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _table(judged: Sequence[Judged], width: int | None) -> str:
    rows: list[Sequence[str]] = [_HEADS]
    for one in judged:
        finding = one.finding
        if finding.value is not None and (finding.slice == ALL or one.verdict == "FAIL"):
            kind = SHORT_TYPES.get(finding.slice, finding.slice)
            rows.append([finding.check, kind, *_cells(finding), one.limit, one.verdict])
    table = text_table(rows, "llrrrl")
    needed = max(map(len, table.split("\n")))
    if width is None or needed <= width:
        return table
    limit = _HEADS.index("limit")
    rows = [[*row[:limit], *row[limit + 1 :]] for row in rows]
    table = text_table(rows, "llrrrl", width=width)
    left_out = f"(limits are left out: they need {needed} columns; --html and --json have them)"
    return f"{table}\n{_filled(left_out, width)}"


def _cells(finding: Finding) -> tuple[str, str, str]:
    value, interval, chance = numbers(finding)
    if not interval and finding.low is not None and finding.high is not None:
        interval = f"{finding.low:.3g} to {finding.high:.3g}"  # of a difference: there is nothing like chance for it
    return value, interval, chance


def numbers(finding: Finding) -> tuple[str, str, str]:
    """Return value, interval and chance of a finding as they are shown: rates in per cent, counts as they are."""
    if finding.value is None:
        return "", "", ""
    if finding.chance is None:
        return f"{finding.value:.3g}" if finding.value != int(finding.value) else f"{finding.value:,.0f}", "", ""
    interval = (
        "" if finding.low is None or finding.high is None else f"{100 * finding.low:.1f} to {100 * finding.high:.1f}"
    )
    return f"{100 * finding.value:.1f}", interval, f"{100 * finding.chance:.1f}"


def _notes(judged: Sequence[Judged]) -> Iterator[str]:
    for one in judged:
        finding = one.finding
        if finding.slice != ALL and one.verdict != "FAIL":
            continue
        name = (
            finding.check
            if finding.slice == ALL
            else f"{finding.check}, {SHORT_TYPES.get(finding.slice, finding.slice)}"
        )
        if finding.note:
            yield f"  {name}: {finding.note}"
        if one.verdict == "FAIL" and finding.examples:
            yield f"  {name}: for example {', '.join(finding.examples[:_EXAMPLES])}"


def checks_lacking(judged: Sequence[Judged]) -> dict[str, list[str]]:
    """Return the checks that could not be made, by what they need."""
    lacking: dict[str, list[str]] = {}
    for needs, check in dict.fromkeys((one.finding.needs, one.finding.check) for one in judged if one.finding.needs):
        lacking.setdefault(needs, []).append(check)
    return lacking


def _lacking(judged: Sequence[Judged]) -> Iterator[str]:
    for needs, checks in checks_lacking(judged).items():
        yield f"  needs {needs}: {', '.join(checks)}"


def detectable(judged: Sequence[Judged]) -> dict[str, dict[str, float | None]]:
    """Return how large a leak has to be for a group of checks to find it nine times in ten, in each slice it tests.

    It is the largest of its checks, whichever of them the leak helps; None where one of them could find nothing.
    """
    found: dict[str, dict[str, float | None]] = {}
    for one in judged:
        if one.is_tested:
            slices = found.setdefault(one.finding.check.partition(".")[0], {})
            so_far = slices.get(one.finding.slice, 0.0)
            excess = one.detectable
            slices[one.finding.slice] = None if so_far is None or excess is None else max(so_far, excess)
    return found


def points(excess: float | None) -> str:
    """Return the size of a leak that is found, as it is shown."""
    return "none" if excess is None else f"{100 * excess:.1f}"


def _could_find(judged: Sequence[Judged]) -> Iterator[str]:
    found = detectable(judged)
    if found:
        yield "  points above chance from which a leak is found nine times in ten; a smaller one may be there:"
    for group, slices in found.items():
        sizes = [f"{SHORT_TYPES.get(slice_, slice_)} {points(excess)}" for slice_, excess in slices.items()]
        yield f"    {group}: {', '.join(sizes)}"


def _summary(judged: Sequence[Judged]) -> str:
    missed, held = tally(judged)
    return f"FAILED, {missed} of {held} limits are missed" if missed else f"passed, all {held} limits are met"
