"""Limits for what an audit finds, and its verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, TypeAdapter, ValidationError

from generation.errors import UserError
from generation.reading import describe
from generation.yaml_reading import read_yaml
from personamem_builder.audit.records import ALL, Finding
from personamem_builder.statistics import simultaneous_interval

Verdict = Literal["pass", "FAIL", ""]
"""Empty where a finding is not judged."""

_STANDARD: Final = Path(__file__).with_name("gates.yaml")
_ROUNDING: Final = 1e-9

_Probability = Annotated[float, Field(gt=0, lt=1)]


class Limit(BaseModel):
    """What a finding is held against; see `gates.yaml`."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    max: float | None = None
    min: float | None = None
    upper_above_chance: float | None = None
    lower_above_chance: float | None = None
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
    """A finding, the limit that it was held against in words (empty for none), and what came of that."""

    finding: Finding
    limit: str
    verdict: Verdict


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

    Intervals that have to hold chance do so together: with some hundred of them in a split, one in twenty of which
    misses chance by chance, a fair benchmark would fail. Those of a gate and a split are one family.
    """
    limits = [_limit(finding, gates) for finding in findings]
    families: dict[tuple[str, str], int] = {}
    for finding, (pattern, limit) in zip(findings, limits, strict=True):
        if limit.holds_chance is not None and _is_judged(finding, limit):
            families[finding.split, pattern] = families.get((finding.split, pattern), 0) + 1
    return [
        _judge(finding, limit, families.get((finding.split, pattern), 0))
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


def _is_judged(finding: Finding, limit: Limit) -> bool:
    return finding.value is not None and finding.n >= limit.min_n


def _judge(finding: Finding, limit: Limit, family: int) -> Judged:
    tests: list[tuple[str, bool]] = []
    value, chance = finding.value, finding.chance
    if value is None or not _is_judged(finding, limit):
        return Judged(finding, "", "")
    if limit.max is not None:
        tests.append((f"at most {limit.max:g}", value <= limit.max + _ROUNDING))
    if limit.min is not None:
        tests.append((f"at least {limit.min:g}", value >= limit.min - _ROUNDING))
    if limit.upper_above_chance is not None and chance is not None and finding.high is not None:
        most = chance + limit.upper_above_chance
        tests.append((f"upper end at most {100 * most:.1f}", finding.high <= most + _ROUNDING))
    if limit.lower_above_chance is not None and chance is not None and finding.low is not None:
        most = chance + limit.lower_above_chance
        tests.append((f"lower end at most {100 * most:.1f}", finding.low <= most + _ROUNDING))
    if limit.holds_chance is not None and chance is not None:
        interval = simultaneous_interval(value, finding.error, finding.clusters, limit.holds_chance, family)
        if interval is not None:
            low, high = interval
            text = f"{100 * chance:.1f} within {100 * low:.1f} to {100 * high:.1f}"
            tests.append((text, low - _ROUNDING <= chance <= high + _ROUNDING))
    if not tests:
        return Judged(finding, "", "")
    return Judged(finding, "; ".join(text for text, _ in tests), "pass" if all(ok for _, ok in tests) else "FAIL")
