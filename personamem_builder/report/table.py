"""Turn runs into tables: one for each task, data set and subset, a row for each model, memory and score.

A table starts with a `chance` row (from the number of options of each question), then come the floors and
then the models, best first. Runs of a task `X_nocontext` are rows of the table of `X`, and the context gain
of a model is paired, question by question, against its own run without context. Partial runs (`--limit`) have
tables of their own, one for each set of questions: no score of theirs stands beside that of a whole run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from personamem_builder.report.groups import RunGroup
from personamem_builder.report.notes import below_floor_notes, flag_notes, one_persona_note, scope_notes
from personamem_builder.report.published import PUBLISHED, PublishedScore
from personamem_builder.report.rows import HardQuestions, ScoreRow, chance_row, score_row
from personamem_builder.results.runs import Run
from personamem_builder.results.shown import Subset


@dataclass(frozen=True)
class ScoreTable:
    """The results of one task on one data set, or on some of its questions, with what a reader should know.

    Attributes:
        data_digest: None where the results do not say.
        rows: Chance, floors, models.
        subset: The questions asked, where they are not all.
        limit: Number of questions asked, where the runs are partial ones.
        hard: The hard questions behind `ScoreRow.hard`, if they are known.
        quoted: Scores that others published for this split.
    """

    task: str
    data_digest: str | None
    rows: list[ScoreRow]
    notes: list[str]
    subset: Subset | None = None
    limit: int | None = None
    hard: HardQuestions | None = None
    quoted: Sequence[PublishedScore] = ()


def build_table(
    group: RunGroup,
    floors: Sequence[Run] = (),
    hard: HardQuestions | None = None,
    quoted: Sequence[PublishedScore] = (),
) -> ScoreTable:
    """Make the table of a group of runs, with floors computed on the same questions and scores published by others."""
    first, notes, rows = group.runs[0], scope_notes(group), []
    for run in group.runs:
        bare, pairing_notes = group.without_context(run)
        notes += pairing_notes
        scores: list[str | None] = [*run.scores] or [None]
        rows += [score_row(run, group.label(run), score, bare, group.oracle(run), hard) for score in scores]
    rows += [score_row(run, run.model, score, hard=hard) for run in floors for score in run.scores]
    rows.sort(key=_rank)
    questions = {name: answer for run in group.runs for name, answer in run.answers.items()}
    rows.insert(0, chance_row(list(questions.values())))
    notes = [*flag_notes(rows), *notes, *one_persona_note(rows), *below_floor_notes(group, floors)]
    return ScoreTable(group.task, first.data_digest, rows, notes, first.subset, group.limit, hard, quoted)


def published_for(group: RunGroup) -> Sequence[PublishedScore]:
    """Return what others published for the split of a group; nothing where its runs are not on the whole split."""
    first = group.runs[0]
    whole = group.limit is None and first.subset is None
    return PUBLISHED.get(first.split or "", ()) if whole else ()


def _rank(row: ScoreRow) -> tuple[bool, float, str, str]:
    """Put floors first, then the best; those without a score come last."""
    return not row.is_floor, 1.0 if row.overall is None else -row.overall.value, row.label, row.score or ""
