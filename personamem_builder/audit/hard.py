"""The questions that no shortcut answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from generation.errors import UserError
from personamem_builder import policies
from personamem_builder.audit.audit import Audit
from personamem_builder.audit.records import AuditedSplit
from personamem_builder.subset import write_subset

METHOD: Final = (
    "questions that neither one of four trained probes (lengths, words, cross, typed) nor the better of longest and "
    "shortest option of the question type answers better than a guess, each learned on other personas"
)
"""How `hard_ids` chooses, for the file."""


def hard_ids(split: AuditedSplit, credits_: Mapping[str, Sequence[float]]) -> list[str]:
    """Return the questions that no shortcut answers.

    The shortcuts are the trained probes, and the rule that takes the longest or the shortest option, whichever was
    better in the same question type (`policies.type_length`). The decision is cross-fitted: what answers a question
    was learned from other personas, never from its own answer. A question is hard if none of them earns more than a
    guess, 1/k with k options; one whose options all tie is hard, one where the right option ties for best with fewer
    than all is not.

    What this does to scores on the subset:

    - someone who guesses independently of the shortcuts still scores 1/k;
    - whoever uses the same shortcuts scores below chance, 0 if in nothing else: such a score is no proof of a model
      that reads worse than it guesses;
    - the shortcuts fail partly by bad luck, so of the questions kept some would be answered by the same shortcuts
      trained on other data (regression to the mean): the subset is harder for shortcuts, not free of them. Of a
      benchmark without any shortcut about (1 - 1/k) to the power of their number are kept, more where they agree;
    - it may be small and its mix of types is another: use its clustered intervals, and compare models on it
      question by question, not with scores on the whole split.

    Args:
        split: The questions.
        credits_: What `probes.probe_credits` gave for them.

    Raises:
        UserError: There is one persona only, so that there is nothing to learn from.
    """
    if not credits_:
        raise UserError(
            f"split {split.name}: hard questions are found with shortcuts learned on other personas, and there is one",
            "leave out --export-hard, or audit data of at least two personas",
        )
    by_type = policies.type_length(split.rows)
    by_length = [policies.best_credit(by_type(row), row["answer_index"]) for row in split.rows]
    best = map(max, zip(by_length, *credits_.values(), strict=True))
    return [
        row["question_id"]
        for row, credit in zip(split.rows, best, strict=True)
        if credit <= 1 / len(row["all_options"])
    ]


def write_hard(path: Path, audit: Audit) -> dict[str, list[str]]:
    """Write the hard questions of each split for `--metadata '{"subset": "FILE"}'`, and return their ids.

    Of a split too large for its probes they are those of a sample, see `sample`; the file says so.

    Raises:
        UserError: A split has one persona only.
    """
    ids = {
        split.name: hard_ids(audit.probed.get(split.name, split), audit.probes[split.name]) for split in audit.splits
    }
    sampled = [
        f"{split.name}: of a sample of {count} questions" for split in audit.splits if (count := audit.sampled(split))
    ]
    write_subset(path, ids, method="; ".join([METHOD, *sampled]), source=audit.source, digest=audit.digest or None)
    return ids
