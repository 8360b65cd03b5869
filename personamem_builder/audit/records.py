"""What an audit looks at, and what it finds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from personamem_builder import statistics
from personamem_builder.schema import ContextRow, QuestionRow

ALL: Final = "all"
"""The slice that holds every question of a split."""

EXAMPLES: Final = 5
"""How many ids a finding gives at most."""

_FEW: Final = 100
"""With fewer questions Student's t makes intervals that are too short, see `statistics.bootstrap_interval`."""


@dataclass(frozen=True)
class AuditedSplit:
    """A split under audit.

    Attributes:
        name: Of the split; that of the file for questions alone.
        rows: Its questions, in the order of their source.
        contexts: Streams its shared contexts, one at a time; None where the source has none.
        source_faults: What reading the source already found wrong, in words.
    """

    name: str
    rows: Sequence[QuestionRow]
    contexts: Callable[[], Iterator[ContextRow]] | None = None
    source_faults: Sequence[str] = ()

    @property
    def personas(self) -> list[int]:
        """The persona of each question."""
        return [row["persona_id"] for row in self.rows]

    @property
    def types(self) -> list[str]:
        """The canonical type of each question."""
        return [row["question_type"] for row in self.rows]

    @property
    def slices(self) -> dict[str, list[int]]:
        """The indices of the questions of each slice: of `all` first, then of each type."""
        slices = {ALL: list(range(len(self.rows)))}
        for index, name in enumerate(self.types):
            slices.setdefault(name, []).append(index)
        return slices

    @property
    def asked(self) -> dict[str, list[int]]:
        """The indices of the questions of each shared context, whether or not it is there."""
        asked: dict[str, list[int]] = {}
        for index, row in enumerate(self.rows):
            asked.setdefault(row["shared_context_id"], []).append(index)
        return asked

    @property
    def is_generated(self) -> bool:
        """Whether the questions say what each option asserts and where the evidence stands."""
        return bool(self.rows) and all(row.get("option_states") for row in self.rows)

    def part(self, indices: Iterable[int]) -> AuditedSplit:
        """Return the same split with some of its questions."""
        return replace(self, rows=[self.rows[i] for i in indices])

    def lacking(self, *columns: str) -> str:
        """Return the first of some columns that not every question has, empty if there is none."""
        return next((column for column in columns if any(column not in row for row in self.rows)), "")


class Finding(NamedTuple):
    """What a check found in a slice of a split.

    Attributes:
        check: `group.name`, such as `surface.longest`.
        split: The split.
        slice: `all`, or a question type.
        value: What was measured: a fraction of questions, or a count; None where it could not be.
        low: Lower end of the 95 % interval clustered by persona, None where there is none.
        high: Upper end.
        error: The clustered standard error, None where there is none.
        n: Questions (or contexts) looked at.
        clusters: Personas among them.
        chance: What guessing gives, for a rate of right answers.
        examples: Ids of the worst cases.
        note: The finding in words where a number does not say it.
        needs: What the source lacks for this check, such as `contexts`.
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


def not_made(split: AuditedSplit, needs: str, *checks: str) -> list[Finding]:
    """Return the findings of checks that cannot be made, since the source lacks what they need."""
    return [Finding(check, split.name, needs=needs) for check in checks]


def accuracy_findings(check: str, split: AuditedSplit, credits_: Sequence[float]) -> list[Finding]:
    """Return how often a way to answer is right, overall and for each question type, from its credit in [0, 1] of each.

    The examples are questions that were answered right.
    """
    return [_accuracy(check, split, name, chosen, credits_) for name, chosen in split.slices.items()]


def _accuracy(
    check: str, split: AuditedSplit, slice_: str, chosen: Sequence[int], credits_: Sequence[float]
) -> Finding:
    own = [credits_[i] for i in chosen]
    personas = [split.rows[i]["persona_id"] for i in chosen]
    interval = statistics.overall if len(own) >= _FEW else statistics.bootstrap_interval
    estimate = interval(own, personas)
    return Finding(
        check=check,
        split=split.name,
        slice=slice_,
        **estimate._asdict(),
        error=statistics.standard_error([credit - estimate.value for credit in own], personas),
        chance=sum(1 / len(split.rows[i]["all_options"]) for i in chosen) / len(chosen),
        examples=tuple(split.rows[i]["question_id"] for i in chosen if credits_[i] == 1)[:EXAMPLES],
    )


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
