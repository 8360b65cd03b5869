"""What a model makes of the questions: without the history, with that of another user, with the evidence alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from personamem_builder import statistics
from personamem_builder.audit.records import AuditedSplit, Finding, accuracy_findings, not_made
from personamem_builder.statistics import Estimate

ConditionCredits = Mapping[str, Mapping[str, float]]
"""For each condition, such as `no_context`, the credit of each question that was asked, by its id."""

_NEEDS: Final = {
    "no_context": "a run without context",
    "wrong_user": "two personas",
    "oracle": "generated data",
    "full": "a run with the whole history",
}
"""The conditions in which a model is asked, and what is lacking where one is absent."""


def model_findings(split: AuditedSplit, conditions: ConditionCredits) -> list[Finding]:
    """Return how often a model is right in each condition, and what the user's own history is worth to it.

    `model.context_gain` is that of the full history against none, and `model.full_minus_wrong_user` the difference
    to the history of another user, both over the questions asked in either condition.
    """
    findings: list[Finding] = []
    for condition, needs in _NEEDS.items():
        check = f"model.{condition}"
        findings += (
            _accuracy(check, split, conditions[condition])
            if conditions.get(condition)
            else not_made(split, needs, check)
        )
    for check, baseline, compare in (
        ("model.context_gain", "no_context", statistics.context_gain),
        ("model.full_minus_wrong_user", "wrong_user", statistics.paired_difference),
    ):
        if lacking := [condition for condition in ("full", baseline) if not conditions.get(condition)]:
            findings += not_made(split, _NEEDS[lacking[0]], check)
        else:
            findings.append(_compared(check, split, conditions["full"], conditions[baseline], compare))
    return findings


def _accuracy(check: str, split: AuditedSplit, credits_: Mapping[str, float]) -> list[Finding]:
    asked = split.part(i for i, row in enumerate(split.rows) if row["question_id"] in credits_)
    overall, *by_type = accuracy_findings(check, asked, [credits_[row["question_id"]] for row in asked.rows])
    if len(asked.rows) < len(split.rows):
        overall = overall._replace(note=f"{len(asked.rows)} of {len(split.rows)} questions were asked")
    return [overall, *by_type]


def _compared(
    check: str,
    split: AuditedSplit,
    full: Mapping[str, float],
    baseline: Mapping[str, float],
    compare: Callable[[Sequence[float], Sequence[float], Sequence[int]], Estimate | None],
) -> Finding:
    rows = [row for row in split.rows if row["question_id"] in full and row["question_id"] in baseline]
    estimate = compare(
        [full[row["question_id"]] for row in rows],
        [baseline[row["question_id"]] for row in rows],
        [row["persona_id"] for row in rows],
    )
    if estimate is None:
        return Finding(check, split.name, n=len(rows), note="without context all answers are right already")
    return Finding(check, split.name, **estimate._asdict())
