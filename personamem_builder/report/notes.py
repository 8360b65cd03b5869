"""What a reader of a table should know, in words: flagged runs, other data, tainted memory, scores below floors."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Final

from personamem_builder.memory.controls import WrongUser
from personamem_builder.report.groups import RunGroup
from personamem_builder.report.rows import CHANCE, ScoreRow
from personamem_builder.results.files import FLAG, FLAGGED_ABOVE
from personamem_builder.results.runs import Run

_IN_WORDS: Final = {
    "failed": "of the questions got no answer: they count nowhere",
    "cut": "of the answers were cut at the longest reply",
    "refused": "of the answers were refusals, or withheld by a filter",
    "invalid": "of the answers had no letter that could be read",
}


def scope_notes(group: RunGroup) -> list[str]:
    """Say what the runs of a group were asked and shown that others were not."""
    subset, notes = group.runs[0].subset, []
    if group.shares_task:
        notes.append("Runs of this task used different data, so each data set has a table; do not compare them.")
    if subset:
        notes.append(
            f"Only the {subset.size} questions of {subset.file} (sha256 {subset.sha256[:12]}) were asked; do not "
            "compare with runs on other questions."
        )
    notes += [
        f"TAINTED: {group.label(run)} was shown text of options that the history does not hold, or its memory system "
        f"the options themselves, for {run.shown.tainted} questions: its score says nothing."
        for run in group.runs
        if run.shown.tainted
    ]
    notes += [
        f"{group.label(run)}: the memory system failed for {run.shown.failed} questions, which were asked without it."
        for run in group.runs
        if run.shown.failed
    ]
    for run in group.runs:
        unseen = [answer.unseen for answer in run.answers.values() if answer.unseen is not None]
        if unseen:
            share = 100 * math.fsum(unseen) / len(unseen)
            notes.append(f"{group.label(run)}: on average {share:.1f} % of the probability was on none of the letters.")
    notes += [f"{group.label(run)}: {', '.join(run.shown.measures)}." for run in group.runs if run.shown.measures]
    for shard in sorted({run.shard for run in group.runs if run.shard}):
        which = ", ".join(group.label(run) for run in group.runs if run.shard == shard)
        notes.append(
            f"Part {shard} of a run, not all of it: {which}. `personamem merge` makes the whole run of its parts."
        )
    if group.limit is not None:
        notes.append(f"Partial runs: {group.limit} questions, not all; do not compare with whole runs.")
    return notes


def flag_notes(rows: Sequence[ScoreRow]) -> list[str]:
    """Say of which rows too many questions or answers say nothing."""
    lines = []
    for row in rows:
        if row.flags:
            said = "; ".join(f"{100 * row.shares[name]:.1f} % {_IN_WORDS[name]}" for name in row.flags)
            end = ""
            if row.overall is None:
                end = " It has no score."
            elif row.invalid_rate == 1:
                end = " The score says nothing about the model: look at what it wrote, `response` in its predictions."
            name = f"{row.label} ({row.score})" if row.score else row.label
            lines.append(f"{FLAG} {name}: {said}; more than {100 * FLAGGED_ABOVE:.0f} % is too much.{end}")
    return list(dict.fromkeys(lines))


def one_persona_note(rows: Sequence[ScoreRow]) -> list[str]:
    """Say why there are no intervals, where that is so."""
    lone = [row.overall for row in rows if row.overall is not None and row.overall.clusters < 2]
    if not lone:
        return []
    return [
        f"one persona: no interval (an interval needs the spread between personas, and all {max(e.n for e in lone)} "
        "questions have the same persona_id)."
    ]


def below_floor_notes(group: RunGroup, floors: Sequence[Run]) -> list[str]:
    """Say which models score below a floor, on the questions that the model answered."""
    shortcuts = [*(run for run in group.runs if run.is_floor), *floors]
    notes = []
    for run in group.runs:
        if run.is_floor or not run.has_context or run.shown.memory == WrongUser.name:
            continue
        for score in run.scores:
            value = _mean(run, score, run.answers)
            scores = {CHANCE: sum(1 / answer.n_options for answer in run.answers.values()) / len(run.answers)}
            for floor in shortcuts:
                if run.answers.keys() <= floor.answers.keys():
                    own = {name: _mean(floor, name, run.answers) for name in floor.scores}
                    scores[floor.model] = max(own.values())
            best = max(scores, key=scores.__getitem__)
            if value < scores[best]:
                on = f" on the {len(run.answers)} questions that it answered" if run.failed else ""
                notes.append(
                    f"{group.label(run)} ({score}) scores {value:.1%}, below the best floor ({best},"
                    f" {scores[best]:.1%}{on}), which reads no conversation."
                )
    return notes


def _mean(run: Run, score: str, questions: Collection[str]) -> float:
    return math.fsum(run.answers[question].credits[score] for question in questions) / len(questions)
