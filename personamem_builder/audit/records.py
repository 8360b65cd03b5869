"""What an audit looks at, and what it finds."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice
from typing import Final, Literal, NamedTuple

from personamem_builder import statistics
from personamem_builder.audit.packed_rows import pack
from personamem_builder.schema import ContextRow, QuestionRow

ALL: Final = "all"
"""The slice that holds every question of a split."""

Verdict = Literal["pass", "FAIL", ""]
"""Whether a finding meets its limit; empty where it is not judged."""

EXAMPLES: Final = 5
"""How many ids a finding gives at most."""

_FEW: Final = 100
"""With fewer questions Student's t makes intervals that are too short, see `statistics.bootstrap_interval`."""


@dataclass(frozen=True)
class AuditedSplit:
    """A split under audit.

    Attributes:
        name: Of the split; that of the file for questions alone.
        rows: Its questions, in the order of their source; of many, packed ones.
        contexts: Streams its shared contexts, one at a time, all of them or those of some ids; None where the source
            has none.
        source_faults: What reading the source already found wrong, in words.
    """

    name: str
    rows: Sequence[QuestionRow]
    contexts: Callable[..., Iterator[ContextRow]] | None = None
    source_faults: Sequence[str] = ()

    # Columns, since rows may be packed, see `packed_rows`. Equal texts are one object.

    @cached_property
    def personas(self) -> list[int]:
        """The persona of each question."""
        return [row["persona_id"] for row in self.rows]

    @cached_property
    def types(self) -> list[str]:
        """The canonical type of each question."""
        return [sys.intern(row["question_type"]) for row in self.rows]

    @cached_property
    def question_ids(self) -> list[str]:
        """The id of each question."""
        return [row["question_id"] for row in self.rows]

    @cached_property
    def topics(self) -> list[str | None]:
        """The topic of each question, None where the source has none."""
        known: dict[str | None, str | None] = {}
        return [known.setdefault(row.get("topic"), row.get("topic")) for row in self.rows]

    @cached_property
    def chances(self) -> list[float]:
        """What guessing gives for each question."""
        known: dict[int, float] = {}
        return [known.setdefault(count, 1 / count) for count in (len(row["all_options"]) for row in self.rows)]

    @cached_property
    def slices(self) -> dict[str, list[int]]:
        """The indices of the questions of each slice: of `all` first, then of each type."""
        slices = {ALL: list(range(len(self.rows)))}
        for index, name in enumerate(self.types):
            slices.setdefault(name, []).append(index)
        return slices

    @cached_property
    def tellings(self) -> dict[str, list[int]]:
        """The indices of the questions of each way in which their evidence is told; none where the rows do not say."""
        tellings: dict[str, list[int]] = {}
        for index, row in enumerate(self.rows):
            if telling := row.get("telling"):
                tellings.setdefault(str(telling), []).append(index)
        return dict(sorted(tellings.items()))

    @cached_property
    def asked(self) -> dict[str, list[int]]:
        """The indices of the questions of each shared context, whether or not it is there."""
        asked: dict[str, list[int]] = {}
        for index, row in enumerate(self.rows):
            asked.setdefault(row["shared_context_id"], []).append(index)
        return asked

    @cached_property
    def is_generated(self) -> bool:
        """Whether the questions say what each option asserts and where the evidence stands."""
        return bool(self.rows) and all(row.get("option_states") for row in self.rows)

    def part(self, indices: Iterable[int]) -> AuditedSplit:
        """Return the same split with some of its questions."""
        return replace(self, rows=pack(self.rows[i] for i in indices))

    def share(self, number: int, count: int) -> AuditedSplit:
        """Return the same split with the questions of every so manieth context, beginning with the one of a number."""
        own = frozenset([*self.asked][number::count])
        part = self.part(self.indices_of_share(number, count))
        return replace(part, contexts=self.contexts and partial(self.contexts, own))

    def indices_of_share(self, number: int, count: int) -> list[int]:
        """Return which questions `share` takes."""
        return sorted(i for context_id in [*self.asked][number::count] for i in self.asked[context_id])

    def lacking(self, *columns: str) -> str:
        """Return the first of some columns that not every question has, empty if there is none."""
        return next((column for column in columns if any(column not in row for row in self.rows)), "")


class Finding(NamedTuple):
    """What a check found in a slice of a split.

    Attributes:
        check: `group.name`, such as `surface.longest`.
        split: The split.
        slice: `all`, a question type, or a way in which evidence is told.
        value: What was measured: a fraction of questions, or a count; None where it could not be.
        low: Lower end of the 95 % interval clustered by persona, None where there is none.
        high: Upper end.
        error: The standard error that tests against chance use, see `accuracy_findings`; None where there is none.
        n: Questions (or contexts) looked at.
        clusters: Personas among them.
        chance: What guessing gives, for a rate of right answers.
        examples: Ids of the worst cases.
        note: The finding in words where a number does not say it.
        needs: What the source lacks for this check, such as `contexts`.
        units: How many pairs of persona and topic the error comes from, or personas where topics are not told; 0 where
            it is clustered by persona alone.
    """

    check: str
    split: str
    slice: str = ALL
    value: float | None = None
    low: float | None = None
    high: float | None = None
    error: float | None = None
    n: int = 0
    clusters: int = 0
    chance: float | None = None
    examples: tuple[str, ...] = ()
    note: str = ""
    needs: str = ""
    units: int = 0


def not_made(split: AuditedSplit, needs: str, *checks: str) -> list[Finding]:
    """Return the findings of checks that cannot be made, since the source lacks what they need."""
    return [Finding(check, split.name, needs=needs) for check in checks]


def accuracy_findings(
    check: str, split: AuditedSplit, credits_: Sequence[float], *, by_telling: bool = False
) -> list[Finding]:
    """Return how often a way to answer is right, overall and for each question type, from its credit in [0, 1] of each.

    With `by_telling` also for each way in which evidence is told, where the rows say so. The examples are questions
    that were answered right.

    Intervals are clustered by persona. With some twenty personas, such an error is itself so uncertain that far out in
    the tail, where one of hundreds of tests is judged, hardly anything could be shown. What a user holds in one topic
    does not tell what is right in another, so the error of tests is clustered by pairs of persona and topic, of which
    there are hundreds. Where that by persona is larger, as answers about a user do depend on each other over topics,
    it is taken instead (when in doubt the larger clusters: Cameron and Miller 2015, section IV).
    """
    slices = {**split.slices, **(split.tellings if by_telling else {})}
    return [_accuracy(check, split, name, chosen, credits_) for name, chosen in slices.items()]


def widened(finding: Finding, by: float) -> Finding:
    """Return an accuracy with an error, and an interval around its value, so many times as large."""
    value, low, high, error = finding.value, finding.low, finding.high, finding.error
    if value is None or low is None or high is None or not error:
        return finding  # without an error the interval is an exact one of independent answers
    low, high = max(0.0, value - by * (value - low)), min(1.0, value + by * (high - value))
    return finding._replace(low=low, high=high, error=by * error)


def _accuracy(
    check: str, split: AuditedSplit, slice_: str, chosen: Sequence[int], credits_: Sequence[float]
) -> Finding:
    own = [credits_[i] for i in chosen]
    personas = [split.personas[i] for i in chosen]
    interval = statistics.overall if len(own) >= _FEW else statistics.bootstrap_interval
    estimate = interval(own, personas)
    residuals = [credit - estimate.value for credit in own]
    error, units = _error(personas, [split.topics[i] for i in chosen], residuals)
    return Finding(
        check=check,
        split=split.name,
        slice=slice_,
        **estimate._asdict(),
        error=error,
        units=units,
        chance=sum(split.chances[i] for i in chosen) / len(chosen),
        examples=tuple(islice((split.question_ids[i] for i in chosen if credits_[i] == 1), EXAMPLES)),
    )


def _error(
    personas: Sequence[int], topics: Sequence[str | None], residuals: Sequence[float]
) -> tuple[float | None, int]:
    numbers: dict[tuple[int, str | None], int] = {}
    pairs = [numbers.setdefault(pair, len(numbers)) for pair in zip(personas, topics, strict=True)]
    by_persona = statistics.standard_error(residuals, personas)
    by_pair = statistics.standard_error(residuals, pairs)
    if by_persona is None or by_pair is None:
        return None, 0
    return max(by_persona, by_pair), len(numbers)


def count_questions(check: str, split: AuditedSplit, is_faulty: Callable[[QuestionRow], bool]) -> Finding:
    """Return the number of questions with a fault."""
    return count_finding(check, split, [row["question_id"] for row in split.rows if is_faulty(row)])


def count_finding(check: str, split: AuditedSplit, cases: Sequence[str], n: int | None = None) -> Finding:
    """Return the number of cases of a fault, given by their ids, of n; of all questions by default."""
    return Finding(
        check=check,
        split=split.name,
        value=float(len(cases)),
        n=len(split.rows) if n is None else n,
        examples=tuple(cases)[:EXAMPLES],
    )
