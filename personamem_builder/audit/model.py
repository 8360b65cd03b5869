"""What a model makes of the questions: without the history, with that of another user, with the evidence alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from personamem_builder import statistics
from personamem_builder.audit.records import AuditedSplit, Finding, accuracy_findings
from personamem_builder.statistics import Estimate

Arms = Mapping[str, Mapping[str, float]]
"""For each arm, such as `no_context`, the credit of each question that was asked, by its id."""

_NEEDS: Final = {
    "no_context": "a run without context",
    "wrong_user": "two personas",
    "oracle": "generated data",
    "full": "a run with the whole history",
}
"""The arms, and what is lacking where one is absent."""


def model_findings(split: AuditedSplit, arms: Arms) -> list[Finding]:
    """Return how often a model is right in each arm, and what the user's own history is worth to it.

    `model.context_gain` is that of the full history against none, and `model.full_minus_wrong_user` the difference
    to the history of another user, both over the questions asked in either arm.

    Args:
        split: The questions.
        arms: What the model answered.
    """
    findings: list[Finding] = []
    for arm, needs in _NEEDS.items():
        check = f"model.{arm}"
        findings += _accuracy(check, split, arms[arm]) if arms.get(arm) else [Finding(check, split.name, needs=needs)]
    for check, baseline, compare in (
        ("model.context_gain", "no_context", statistics.context_gain),
        ("model.full_minus_wrong_user", "wrong_user", statistics.paired_difference),
    ):
        if lacking := [arm for arm in ("full", baseline) if not arms.get(arm)]:
            findings.append(Finding(check, split.name, needs=_NEEDS[lacking[0]]))
        else:
            findings.append(_compared(check, split, arms["full"], arms[baseline], compare))
    return findings


def _accuracy(check: str, split: AuditedSplit, credits_: Mapping[str, float]) -> list[Finding]:
    asked = replace(split, rows=[row for row in split.rows if row["question_id"] in credits_])
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
    return Finding(
        check,
        split.name,
        value=estimate.value,
        low=estimate.low,
        high=estimate.high,
        n=estimate.n,
        clusters=estimate.clusters,
    )
