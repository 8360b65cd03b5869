"""Rules that look at the surface of the options, and at most at the question: how often is each right?

A rule and its opposite are both measured, for each question type: where the right option is the longest in one type
and the shortest in another, neither shows overall.
"""

from __future__ import annotations

from array import array
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

_UNIQUE: Final = "surface.unique_longest"


def surface_findings(split: AuditedSplit) -> list[Finding]:
    """Return how often each surface rule is right, overall and for each question type.

    Options that tie for a rule share its credit, except in `surface.unique_longest`: the share of questions whose
    single longest option is right. Its chance counts only the questions that have a single longest option.

    Returns:
        The findings of `surface.longest`, `.shortest`, `.longest_tokens`, `.shortest_tokens`, `.central`,
        `.odd_one_out`, `.overlap`, `.least_overlap`, `.unique_longest` and `.position_a` to the last position.
    """
    options = range(max(len(row["all_options"]) for row in split.rows))
    rules = {**_RULES, **{f"surface.position_{option_letter(i)}": policies.at_position(i) for i in options}}
    credits_ = {check: array("d") for check in (*_RULES, _UNIQUE, *rules)}
    single = []
    for row in split.rows:  # in one pass, as rows may be packed
        for check, rule in rules.items():
            credits_[check].append(policies.best_credit(rule(row), row["answer_index"]))
        single.append(_has_single_longest(row))
        credits_[_UNIQUE].append(credits_["surface.longest"][-1] if single[-1] else 0.0)
    found = {check: accuracy_findings(check, split, own) for check, own in credits_.items()}
    found[_UNIQUE] = [
        finding._replace(chance=sum(split.chances[i] if single[i] else 0.0 for i in own) / len(own))
        for finding, own in zip(found[_UNIQUE], split.slices.values(), strict=True)
    ]
    return [finding for own in found.values() for finding in own]


def _has_single_longest(row: QuestionRow) -> bool:
    lengths = policies.longest(row)
    return lengths.count(max(lengths)) == 1
