"""Repair by the audit's probes: what they answer is put into other words, and what they go on answering is dropped."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from personamem_builder.audit.gates import Gates, Judged, failed, judge
from personamem_builder.audit.inputs import RUN
from personamem_builder.audit.probes import probe_credits, probe_findings
from personamem_builder.audit.records import ALL, AuditedSplit
from personamem_builder.refine.drafts import QuestionDraft
from personamem_builder.schema import question_columns

_MOST: Final = 0.1  # of the questions of a type: those that may be dropped
_STEP: Final = 0.02  # of the questions of a slice: those that are dropped before the probes are trained anew


class MissedLimit(NamedTuple):
    """A limit that a probe misses.

    Attributes:
        judged: What it scores, and the limit.
        right: The questions of the slice that it answers right, none of whose persona it has learned from.
    """

    judged: Judged
    right: list[QuestionDraft]

    @property
    def name(self) -> str:
        """The check and the slice."""
        return f"{self.judged.finding.check}, {self.judged.finding.slice}"

    @property
    def is_above_chance(self) -> bool:
        """Whether it scores more than guessing. A limit of the value alone may be missed by one that does not."""
        finding = self.judged.finding
        return finding.value is not None and finding.chance is not None and finding.value > finding.chance

    @property
    def is_shown(self) -> bool:
        """Whether the whole interval is above chance: with fewer questions the score may be luck."""
        finding = self.judged.finding
        return finding.low is not None and finding.chance is not None and finding.low > finding.chance


def missed_limits(drafts: Sequence[QuestionDraft], gates: Gates) -> list[MissedLimit]:
    """Train the probes on the questions that are not dropped, and return the limits of `gates` that they miss.

    There are none with fewer than two personas. The probes look at every question, not at a sample as in an audit: what
    becomes of each is decided here.
    """
    kept = [draft for draft in drafts if draft.dropped is None]
    kept.sort(key=lambda draft: (draft.place, draft.question.question_id))  # as `personamem audit` reads them
    split = AuditedSplit(RUN, [question_columns(draft.question) for draft in kept])
    credits_ = probe_credits(split)
    slices = split.slices
    missed = []
    for judged in failed(judge(probe_findings(split, credits_), gates)):
        own = credits_[judged.finding.check.removeprefix("probe.")]
        missed.append(MissedLimit(judged, [kept[i] for i in slices[judged.finding.slice] if own[i] == 1]))
    return missed


def repair(
    drafts: Sequence[QuestionDraft], gates: Gates, rounds: int, rewrite: Callable[[Sequence[QuestionDraft], int], None]
) -> tuple[list[MissedLimit], list[MissedLimit]]:
    """Have questions rewritten while probes show what gives them away, then drop some of those that still do.

    In each round the questions are rewritten that a probe answers right which misses its limit and scores above chance.
    Those are the ones that may give themselves away, and some that it hit by chance: since these are chosen by their
    answers, a cue that tells nothing may be right a little less often than chance afterwards.

    Then questions are dropped, where the whole interval of a probe that misses its limit is above chance. Those that
    most such probes answer right go first, and among them those with the lowest ids, which are digests. Each step drops
    2 % of such a slice, and trains the probes anew. It ends when no such limit is missed, or when the question types
    concerned have lost a tenth each.

    To drop what a probe answers is a poor repair, as is known of AFLite (Le Bras 2020): it keeps what this one kind of
    probe cannot do, not what is sound; the probe's luck is dropped along with what gives questions away, so that later
    scores are too low; and it skews what the questions are about. Hence the tenth, and other words first.

    Args:
        drafts: The questions; they are changed.
        gates: Limits; those of `probe.*` are looked at.
        rounds: How often questions are rewritten at most.
        rewrite: Rewrites questions; is told which round it is.

    Returns:
        The limits that the questions missed before, and those that they miss now.
    """
    missed = at_first = missed_limits(drafts, gates)
    for round_ in range(1, rounds + 1):
        chosen = {id(draft) for one in missed if one.is_above_chance for draft in one.right}
        if not chosen:
            break
        rewrite([draft for draft in drafts if id(draft) in chosen], round_)
        missed = missed_limits(drafts, gates)
    made = Counter[str](draft.question.question_type for draft in drafts)
    may_go = Counter({name: int(_MOST * count) for name, count in made.items()})
    while worst := _worst(drafts, [one for one in missed if one.is_shown], may_go):
        for draft in worst:
            draft.dropped = "probe"
            may_go[draft.question.question_type] -= 1
        missed = missed_limits(drafts, gates)
    return at_first, missed


def _worst(drafts: Sequence[QuestionDraft], missed: Sequence[MissedLimit], may_go: Counter[str]) -> list[QuestionDraft]:
    """Return the questions of the next step, of each type at most as many as may go."""
    hits = Counter(id(draft) for one in missed for draft in one.right)
    left = Counter(may_go)
    chosen: dict[int, QuestionDraft] = {}
    for one in missed:
        slice_ = one.judged.finding.slice
        size = sum(d.dropped is None and slice_ in (ALL, d.question.question_type) for d in drafts)
        step = math.ceil(_STEP * size)
        for draft in sorted(one.right, key=lambda draft: (-hits[id(draft)], draft.question.question_id)):
            if not step:
                break
            if id(draft) not in chosen:
                if not left[draft.question.question_type]:
                    continue
                left[draft.question.question_type] -= 1
                chosen[id(draft)] = draft
            step -= 1
    return list(chosen.values())
