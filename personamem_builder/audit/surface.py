"""Rules that look at the surface of the options, and at most at the question: how often is each right?

A rule and its opposite are both measured, for each question type: where the right option is the longest in one type
and the shortest in another, neither shows overall.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from personamem_builder import policies
from personamem_builder.audit.records import AuditedSplit, Finding, accuracy_findings
from personamem_builder.schema import QuestionRow, option_letter

_RULES: Final[Mapping[str, policies.Policy]] = {
    "surface.longest": policies.longest,
    "surface.shortest": policies.shortest,
    "surface.longest_tokens": policies.longest_tokens,
    "surface.shortest_tokens": policies.shortest_tokens,
    "surface.central": policies.central,
    "surface.odd_one_out": policies.odd_one_out,
    "surface.overlap": policies.overlap,
    "surface.least_overlap": policies.least_overlap,
}


def surface_findings(split: AuditedSplit) -> list[Finding]:
    """Return how often each surface rule is right, overall and for each question type.

    Options that tie for a rule share its credit, except in `surface.unique_longest`: the share of questions whose
    single longest option is right. Its chance counts only the questions that have a single longest option.

    Returns:
        The findings of `surface.longest`, `.shortest`, `.longest_tokens`, `.shortest_tokens`, `.central`,
        `.odd_one_out`, `.overlap`, `.least_overlap`, `.unique_longest` and `.position_a` to the last position.
    """
    found = [finding for check, rule in _RULES.items() for finding in _findings(check, split, rule)]
    found += _unique_longest(split)
    for index in range(max(len(row["all_options"]) for row in split.rows)):
        found += _findings(f"surface.position_{option_letter(index)}", split, policies.at_position(index))
    return found


def _findings(check: str, split: AuditedSplit, rule: policies.Policy) -> list[Finding]:
    credits_ = [policies.best_credit(rule(row), row["answer_index"]) for row in split.rows]
    return accuracy_findings(check, split, credits_)


def _unique_longest(split: AuditedSplit) -> list[Finding]:
    single = [_has_single_longest(row) for row in split.rows]
    credits_ = [
        policies.best_credit(policies.longest(row), row["answer_index"]) if is_single else 0.0
        for row, is_single in zip(split.rows, single, strict=True)
    ]
    chances = [is_single / len(row["all_options"]) for row, is_single in zip(split.rows, single, strict=True)]
    return [
        finding._replace(chance=sum(chances[i] for i in own) / len(own))
        for finding, own in zip(
            accuracy_findings("surface.unique_longest", split, credits_), split.slices.values(), strict=True
        )
    ]


def _has_single_longest(row: QuestionRow) -> bool:
    lengths = policies.longest(row)
    return lengths.count(max(lengths)) == 1
