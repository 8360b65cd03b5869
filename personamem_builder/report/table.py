"""Turn runs into tables: one for each task, data set, subset and history, a row for each model and score.

A table starts with a `chance` row (from the number of options of each question), then come the floors and
then the models, best first. Runs of a task `X_nocontext` are rows of the table of `X`, and the context gain
of a model is paired, question by question, against its own run without context.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from generation.records import QUESTION_TYPES
from personamem_builder import statistics
from personamem_builder.report.answers import Answer
from personamem_builder.report.runs import FULL, Run, Subset
from personamem_builder.schema import SPLITS
from personamem_builder.statistics import Estimate

NO_CONTEXT: Final = "_nocontext"
"""End of the name of a task that asks another task's questions without the conversation."""

WRONG_USER: Final = "wrong_user"
"""The history of another user, which tells nothing about the answer."""

CHANCE: Final = "chance"
"""Name of the row of blind guesses."""


@dataclass(frozen=True)
class Row:
    """A model's result by one score; all numbers are fractions.

    Attributes:
        model: Name of the model, of the floor, or `chance`.
        score: Name of the score; None for chance.
        is_floor: Whether no model answered: a shortcut policy did, or chance.
        has_context: Whether the conversation was given.
        n: Number of questions.
        overall: Mean credit over questions.
        macro: Mean over question types of the mean credit of each.
        types: Mean credit of each of the seven types; None for a type without questions.
        context_gain: `(a − a0) / (1 − a0)` against the run without context; None where there is no such run.
        paired_difference: `a − a0` against the same run.
        invalid_rate: Share of questions with an answer from which no option could be read.
        skipped_rate: Share of questions that were too long to ask; they count as wrong.
        truncated_rate: Share of questions whose context was cut.
    """

    model: str
    score: str | None
    is_floor: bool
    has_context: bool
    n: int
    overall: Estimate
    macro: Estimate
    types: Mapping[str, Estimate | None]
    context_gain: Estimate | None
    paired_difference: Estimate | None
    invalid_rate: float
    skipped_rate: float
    truncated_rate: float

    @property
    def label(self) -> str:
        """The model's name, marked where it saw no context."""
        return self.model if self.has_context else f"{self.model} (no context)"


@dataclass(frozen=True)
class Table:
    """The results of one task on one data set, or on some of its questions, with what a reader should know."""

    task: str
    data_digest: str | None
    rows: list[Row]
    notes: list[str]
    subset: Subset | None = None
    history: str = FULL


def build_tables(runs: Sequence[Run]) -> list[Table]:
    """Make the tables of some runs, shortest split first.

    Args:
        runs: Runs of any tasks; no two of one model and task with the same arguments and data.

    Returns:
        A table for each task, data digest, subset and history.
    """
    groups: dict[tuple[str, str, str, str], list[Run]] = {}
    for run in runs:
        key = (_base_task(run), run.data_digest or "", run.subset.sha256 if run.subset else "", run.history)
        groups.setdefault(key, []).append(run)
    digests = Counter(task for task, _ in {(task, digest) for task, digest, _, _ in groups})
    return [
        _table(key[0], groups[key], several_digests=digests[key[0]] > 1)
        for key in sorted(groups, key=lambda key: (_split_rank(key[0]), *key[:3], key[3] != FULL, key[3]))
    ]


def _base_task(run: Run) -> str:
    return run.task.removesuffix(NO_CONTEXT)


def _split_rank(task: str) -> int:
    return next((rank for rank, split in enumerate(SPLITS) if f"_{split}" in task), len(SPLITS))


def _table(task: str, runs: Sequence[Run], *, several_digests: bool) -> Table:
    digest, subset, history = runs[0].data_digest, runs[0].subset, runs[0].history
    notes = []
    if several_digests:
        notes.append("Runs of this task used different data, so each data set has a table; do not compare them.")
    if subset:
        notes.append(
            f"Only the {subset.size} questions of {subset.file} (sha256 {subset.sha256[:12]}) were asked; do not "
            "compare with runs on other questions."
        )
    if history != FULL:
        notes.append(f"Asked with history={history}, not the user's whole history: do not compare with runs on that.")
    rows = []
    for run in runs:
        label = _label(run, runs)
        bare, pairing_note = _without_context(run, label, runs)
        notes += pairing_note
        rows += [_row(run, label, score, bare) for score in run.scores]
    rows.sort(key=lambda row: (not row.is_floor, -row.overall.value, row.label, row.score))
    questions = {name: answer for run in runs for name, answer in run.answers.items()}
    rows.insert(0, _chance(list(questions.values())))
    return Table(task, digest, rows, notes + _warnings(rows, runs), subset, history)


def _label(run: Run, runs: Sequence[Run]) -> str:
    """Return the model's name, with what tells it from other runs of that name on the same task."""
    others = [other for other in runs if other.task == run.task and other.model == run.model and other is not run]
    parts = [run.backend] if any(other.backend != run.backend for other in others) else []
    same_backend = [set(other.model_args) for other in others if other.backend == run.backend]
    if same_backend:
        shared = set(run.model_args).intersection(*same_backend)
        parts += [f"{name}={value}" for name, value in run.model_args if (name, value) not in shared]
    return f"{run.model} ({', '.join(parts)})" if parts else run.model


def _without_context(run: Run, label: str, runs: Sequence[Run]) -> tuple[Run | None, list[str]]:
    """Find the run to pair a run with, and say where the pair is not a perfect one."""
    candidates = [other for other in runs if other.task == run.task + NO_CONTEXT and other.model == run.model]
    same = [other for other in candidates if (other.backend, other.model_args) == (run.backend, run.model_args)]
    if not candidates:
        return None, []
    if not same and len(candidates) > 1:
        return None, [f"{label}: no context gain, as no run without context has the same model arguments."]
    notes = []
    if not same:
        notes.append(f"{label}: its run without context has other model arguments.")
    bare = (same or candidates)[0]
    shared = len(run.answers.keys() & bare.answers.keys())
    if shared < max(len(run.answers), len(bare.answers)):
        notes.append(
            f"{label}: context gain over the {shared} questions that both runs answered"
            f" ({len(run.answers)} with context, {len(bare.answers)} without)."
        )
    return (bare if shared else None), notes


def _row(run: Run, label: str, score: str, bare: Run | None) -> Row:
    answers = list(run.answers.values())
    credits = [answer.credits[score] for answer in answers]
    types, personas = _types(answers), _personas(answers)
    gain = difference = None
    if bare is not None and score in bare.scores:
        shared = [question for question in run.answers if question in bare.answers]
        pair = (
            [run.answers[question].credits[score] for question in shared],
            [bare.answers[question].credits[score] for question in shared],
            [run.answers[question].persona_id for question in shared],
        )
        gain, difference = statistics.context_gain(*pair), statistics.paired_difference(*pair)
    return Row(
        model=label,
        score=score,
        is_floor=run.is_floor,
        has_context=not run.task.endswith(NO_CONTEXT),
        n=len(answers),
        overall=statistics.overall(credits, personas),
        macro=statistics.macro(credits, types, personas),
        types=_all_types(statistics.per_type(credits, types, personas)),
        context_gain=gain,
        paired_difference=difference,
        invalid_rate=sum(score in answer.invalid for answer in answers) / len(answers),
        skipped_rate=sum(answer.skipped for answer in answers) / len(answers),
        truncated_rate=sum(answer.truncated for answer in answers) / len(answers),
    )


def _chance(answers: Sequence[Answer]) -> Row:
    """Return what a blind guess scores: known, not estimated, so it has no intervals."""
    credits = [1 / answer.n_options for answer in answers]
    types, personas = _types(answers), _personas(answers)
    by_type = statistics.per_type(credits, types, personas)
    return Row(
        model=CHANCE,
        score=None,
        is_floor=True,
        has_context=True,
        n=len(answers),
        overall=_exact(statistics.overall(credits, personas)),
        macro=_exact(statistics.macro(credits, types, personas)),
        types=_all_types({name: _exact(estimate) for name, estimate in by_type.items()}),
        context_gain=None,
        paired_difference=None,
        invalid_rate=0.0,
        skipped_rate=0.0,
        truncated_rate=0.0,
    )


def _types(answers: Sequence[Answer]) -> list[str]:
    return [answer.question_type for answer in answers]


def _personas(answers: Sequence[Answer]) -> list[int]:
    return [answer.persona_id for answer in answers]


def _all_types(by_type: Mapping[str, Estimate]) -> dict[str, Estimate | None]:
    return {name: by_type.get(name) for name in QUESTION_TYPES}


def _exact(estimate: Estimate) -> Estimate:
    return estimate._replace(low=None, high=None)


def _warnings(rows: Sequence[Row], runs: Sequence[Run]) -> list[str]:
    notes = [
        f"{_label(run, runs)} on {run.task}: partial run (limit {run.limit:g}), {len(run.answers)} questions."
        for run in runs
        if run.limit is not None
    ]
    if any(row.overall.clusters < 2 for row in rows):
        notes.append("one persona: no interval (an interval needs the spread between personas).")
    floor = max((row for row in rows if row.is_floor), key=lambda row: row.overall.value)
    notes += [
        f"{row.model} ({row.score}) scores {row.overall.value:.1%}, below the best floor ({floor.label},"
        f" {floor.overall.value:.1%}), which reads no conversation."
        for row in rows
        if not row.is_floor
        and row.has_context
        and runs[0].history != WRONG_USER
        and row.overall.value < floor.overall.value
    ]
    return notes
