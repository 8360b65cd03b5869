"""Limits for what an audit finds, and its verdict."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Final, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, TypeAdapter, ValidationError

from generation.errors import UserError
from generation.reading import describe
from generation.yaml_reading import read_yaml
from personamem_builder.audit.detection import critical_accuracy, detectable_accuracy
from personamem_builder.audit.records import ALL, Finding, Verdict
from personamem_builder.statistics import simultaneous_interval

_STANDARD: Final = Path(__file__).with_name("gates.yaml")
_ROUNDING: Final = 1e-9

_Probability = Annotated[float, Field(gt=0, lt=1)]


class Limit(BaseModel):
    """What a finding is held against; see `gates.yaml`."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    max: float | None = None
    min: float | None = None
    max_above_chance: float | None = None
    not_above_chance: _Probability | None = None
    holds_chance: _Probability | None = None
    min_n: NonNegativeInt = 0


class Gate(BaseModel):
    """The limits of a check."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    all: Limit = Limit()
    types: Limit = Limit()


Gates = Mapping[str, Gate]
"""Gates by the pattern of the checks that they judge, in order."""


class Judged(NamedTuple):
    """A finding, and what came of the limit that it was held against.

    Attributes:
        finding: The finding.
        limit: In words, empty for none.
        verdict: Whether it is met.
        is_tested: Whether the limit tests the value against chance.
        detectable: By how much an accuracy has to be above chance for that test to find it nine times in ten; None
            where there is no such test, or where it could find nothing, as there are too few questions.
    """

    finding: Finding
    limit: str
    verdict: Verdict
    is_tested: bool = False
    detectable: float | None = None


def read_gates(path: Path | None = None) -> Gates:
    """Read gates from a YAML file; `gates.yaml` beside this module is the default.

    Raises:
        UserError: It cannot be read, or says something else.
    """
    path = path or _STANDARD
    hint = "see personamem_builder/audit/gates.yaml for what it may hold"
    content = read_yaml(path, hint)
    try:
        return TypeAdapter(dict[str, Gate]).validate_python(content)
    except ValidationError as error:
        raise UserError(f"{path}: {describe(error)}", hint) from error


def judge(findings: Sequence[Finding], gates: Gates) -> list[Judged]:
    """Hold findings against gates.

    What is tested against chance is tested together: with some hundred accuracies in a split, one in twenty of which
    misses chance by chance, a fair benchmark would fail. Those of a gate and a split are one family over all questions,
    and another over the types.
    """
    limits = [_limit(finding, gates) for finding in findings]
    families = Counter(
        _family(finding, pattern)
        for finding, (pattern, limit) in zip(findings, limits, strict=True)
        if _is_tested(finding, limit)
    )
    return [
        _judge(finding, limit, families[_family(finding, pattern)])
        for finding, (pattern, limit) in zip(findings, limits, strict=True)
    ]


class Tally(NamedTuple):
    """How many limits some findings miss, of how many that they are held against."""

    missed: int
    held: int


def tally(judged: Sequence[Judged]) -> Tally:
    """Count the limits that findings miss, and those that they are held against."""
    return Tally(len(failed(judged)), sum(one.verdict != "" for one in judged))


def failed(judged: Sequence[Judged]) -> list[Judged]:
    """Return the findings that miss their limit."""
    return [one for one in judged if one.verdict == "FAIL"]


def _limit(finding: Finding, gates: Gates) -> tuple[str, Limit]:
    for pattern, gate in gates.items():
        if fnmatchcase(finding.check, pattern):
            return pattern, gate.all if finding.slice == ALL else gate.types
    return "", Limit()


def _family(finding: Finding, pattern: str) -> tuple[str, str, bool]:
    return finding.split, pattern, finding.slice == ALL


def _is_judged(finding: Finding, limit: Limit) -> bool:
    return finding.value is not None and finding.n >= limit.min_n


def _is_tested(finding: Finding, limit: Limit) -> bool:
    tested = limit.not_above_chance is not None or limit.holds_chance is not None
    return tested and _is_judged(finding, limit) and finding.chance is not None and finding.error is not None


def _judge(finding: Finding, limit: Limit, family: int) -> Judged:
    value, chance = finding.value, finding.chance
    if value is None or not _is_judged(finding, limit):
        return Judged(finding, "", "")
    tests: list[tuple[str, bool]] = []
    if limit.max is not None:
        tests.append((f"at most {limit.max:g}", value <= limit.max + _ROUNDING))
    if limit.min is not None:
        tests.append((f"at least {limit.min:g}", value >= limit.min - _ROUNDING))
    detectable = None
    if chance is not None:
        if limit.max_above_chance is not None:
            most = chance + limit.max_above_chance
            tests.append((f"at most {100 * most:.1f}", value <= most + _ROUNDING))
        if limit.not_above_chance is not None:
            tests += _one_sided(finding, value, chance, limit.not_above_chance, family)
        if limit.holds_chance is not None:
            tests += _two_sided(finding, value, chance, limit.holds_chance, family)
        if _is_tested(finding, limit):
            detectable = _detectable(finding, value, chance, limit, family)
    if not tests:
        return Judged(finding, "", "")
    verdict: Verdict = "pass" if all(ok for _, ok in tests) else "FAIL"
    return Judged(finding, "; ".join(text for text, _ in tests), verdict, _is_tested(finding, limit), detectable)


def _units(finding: Finding) -> int:
    return finding.units or finding.clusters


def _one_sided(finding: Finding, value: float, chance: float, level: float, family: int) -> Iterator[tuple[str, bool]]:
    interval = simultaneous_interval(value, finding.error, _units(finding), level, family, sides=1)
    if interval is not None:
        yield f"{100 * chance:.1f} at least {100 * interval[0]:.1f}", interval[0] <= chance + _ROUNDING


def _two_sided(finding: Finding, value: float, chance: float, level: float, family: int) -> Iterator[tuple[str, bool]]:
    interval = simultaneous_interval(value, finding.error, _units(finding), level, family)
    if interval is not None:
        low, high = interval
        text = f"{100 * chance:.1f} within {100 * low:.1f} to {100 * high:.1f}"
        yield text, low - _ROUNDING <= chance <= high + _ROUNDING


def _detectable(finding: Finding, value: float, chance: float, limit: Limit, family: int) -> float | None:
    """Return the least excess over chance that the limits of a tested finding find."""
    if finding.error is None or not family or not 0 < chance < 1:
        return None
    # Where many options tie, credits are shared and vary little. Those that a leak gives are whole.
    error = max(finding.error, math.sqrt(value * (1 - value) / finding.n))
    measured = (value, error, _units(finding))
    found = []
    for level, sides in ((limit.not_above_chance, 1), (limit.holds_chance, 2)):
        if level is not None:
            tail = (1 - level) / (sides * family)
            if (critical := critical_accuracy(*measured, chance, tail)) is not None:
                found.append(detectable_accuracy(*measured, critical, tail))
    if limit.max_above_chance is not None and chance + limit.max_above_chance < 1:
        found.append(detectable_accuracy(*measured, chance + limit.max_above_chance))
    return min(found) - chance if found else None
