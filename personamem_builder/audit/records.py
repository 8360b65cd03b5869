"""What an audit looks at, and what it finds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from personamem_builder import statistics

Row = Mapping[str, Any]
"""A question, with the columns of `schema.QUESTION_SCHEMA`; what its source lacks is absent."""

ALL: Final = "all"
"""The slice that holds every question of a split."""

_EXAMPLES: Final = 5

_FEW: Final = 100
"""With fewer questions Student's t makes intervals that are too short, see `statistics.bootstrap_interval`."""


class SharedContext(NamedTuple):
    """A shared context.

    Attributes:
        shared_context_id: As the questions name it.
        persona_id: The user.
        messages: Role and content.
        session_starts: Index of the first message of each session.
        num_tokens: Tokens of all messages.
        session_topics: The topic of each session, `""` for what has none; empty where the source does not say.
    """

    shared_context_id: str
    persona_id: int
    messages: Sequence[Mapping[str, str]]
    session_starts: Sequence[int]
    num_tokens: int
    session_topics: Sequence[str] = ()


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
    rows: Sequence[Row]
    contexts: Callable[[], Iterator[SharedContext]] | None = None
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
    def is_generated(self) -> bool:
        """Whether the questions say what each option asserts and where the evidence stands."""
        return bool(self.rows) and all(row.get("option_states") for row in self.rows)


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


def accuracy_findings(check: str, split: AuditedSplit, credits_: Sequence[float]) -> list[Finding]:
    """Return how often a way to answer is right, overall and for each question type.

    Args:
        check: Name of the check.
        split: The questions.
        credits_: For each question, the credit in [0, 1] of that way.

    Returns:
        The findings, `all` first. Their examples are questions that were answered right.
    """
    slices = {ALL: list(range(len(split.rows)))}
    for index, name in enumerate(split.types):
        slices.setdefault(name, []).append(index)
    return [_accuracy(check, split, name, chosen, credits_) for name, chosen in slices.items()]


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
        value=estimate.value,
        low=estimate.low,
        high=estimate.high,
        error=statistics.standard_error([credit - estimate.value for credit in own], personas),
        n=estimate.n,
        clusters=estimate.clusters,
        chance=sum(1 / len(split.rows[i]["all_options"]) for i in chosen) / len(chosen),
        examples=tuple(split.rows[i]["question_id"] for i in chosen if credits_[i] == 1)[:_EXAMPLES],
    )


def count_finding(check: str, split: AuditedSplit, cases: Sequence[str], n: int | None = None) -> Finding:
    """Return the number of cases of a fault.

    Args:
        check: Name of the check.
        split: The questions.
        cases: The ids concerned.
        n: Of how many; the questions of the split by default.
    """
    return Finding(
        check=check,
        split=split.name,
        value=float(len(cases)),
        n=len(split.rows) if n is None else n,
        examples=tuple(cases)[:_EXAMPLES],
    )
