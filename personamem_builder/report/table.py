"""Turn runs into tables: one for each task, data set and subset, a row for each model, memory and score.

A table starts with a `chance` row (from the number of options of each question), then come the floors and
then the models, best first. Runs of a task `X_nocontext` are rows of the table of `X`, and the context gain
of a model is paired, question by question, against its own run without context. Partial runs (`--limit`) have
tables of their own, one for each set of questions: no score of theirs stands beside that of a whole run.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from generation.records import QUESTION_TYPES
from personamem_builder import statistics
from personamem_builder.report.answers import Answer
from personamem_builder.report.published import PUBLISHED, Quoted
from personamem_builder.report.runs import FULL, NO_CONTEXT, ORACLE, WRONG_USER, Run, Subset
from personamem_builder.schema import SPLITS
from personamem_builder.statistics import Estimate

CHANCE: Final = "chance"
"""Name of the row of blind guesses."""

FLAGGED_ABOVE: Final = 0.05
"""A run with a larger share of answers that say nothing is flagged."""

FLAG: Final = "(!)"
"""Stands behind the name of a model that is flagged, and before the line that says why."""

_IN_WORDS: Final = {
    "failed": "of the questions got no answer: they count nowhere",
    "cut": "of the answers were cut at the longest reply",
    "refused": "of the answers were refusals, or withheld by a filter",
    "invalid": "of the answers had no letter that could be read",
}


@dataclass(frozen=True)
class Row:
    """A model's result by one score; all numbers are fractions.

    Attributes:
        model: Name of the model, of the floor, or `chance`.
        score: Name of the score; None for chance.
        is_floor: Whether no model answered: a shortcut policy did, or chance.
        has_context: Whether the conversation was given.
        n: Number of questions that were answered, also by a refusal.
        overall: Mean credit over these questions; None where there are none.
        macro: Mean over question types of the mean credit of each; None where there are none.
        types: Mean credit of each of the seven types; None for a type without questions.
        context_gain: `(a − a0) / (1 − a0)` against the run without context; None where there is no such run.
        paired_difference: `a − a0` against the same run.
        oracle_gap: `a1 − a` against the run that shows the evidence alone; None where there is no such run.
        invalid_rate: Share of answers that are whole and no refusal, from which no option could be read.
        skipped_rate: Share of questions that were too long to ask; they count as wrong.
        truncated_rate: Share of questions whose context was cut.
        chance_corrected: `(a − c) / (1 − c)` with c what a blind guess scores; None for chance itself.
        effective_n: How many independent questions would tell as much; None where that cannot be told.
        hard: Mean credit on the hard questions, see `Hard`; None where they are not known.
        is_computed: Whether the row was computed for the report, not read from results.
        memory: What was shown of conversations.
        failed_rate: Share of the questions asked to which no answer came; they count nowhere else.
        cut_rate: Share of answers that were cut at the longest reply.
        refused_rate: Share of answers that were refusals.
    """

    model: str
    score: str | None
    is_floor: bool
    has_context: bool
    n: int
    overall: Estimate | None
    macro: Estimate | None
    types: Mapping[str, Estimate | None]
    context_gain: Estimate | None
    paired_difference: Estimate | None
    invalid_rate: float
    skipped_rate: float
    truncated_rate: float
    chance_corrected: Estimate | None = None
    effective_n: float | None = None
    hard: Estimate | None = None
    is_computed: bool = False
    oracle_gap: Estimate | None = None
    memory: str = FULL
    failed_rate: float = 0.0
    cut_rate: float = 0.0
    refused_rate: float = 0.0

    @property
    def shares(self) -> dict[str, float]:
        """The shares of questions and answers that say nothing of the model, by what came of them."""
        return {
            "failed": self.failed_rate,
            "cut": self.cut_rate,
            "refused": self.refused_rate,
            "invalid": self.invalid_rate,
        }

    @property
    def flags(self) -> list[str]:
        """Which of the shares are too large to pass over."""
        return [name for name, share in self.shares.items() if share > FLAGGED_ABOVE]

    @property
    def label(self) -> str:
        """The model's name, marked where it saw no context, and where a floor is not from the results."""
        mark = "" if self.has_context else " (no context)"
        return f"{self.model}{mark}{' (computed here)' if self.is_computed and self.score else ''}"


class Hard(NamedTuple):
    """The questions of a task that no shortcut answers.

    Attributes:
        file: The file that names them.
        ids: Of the questions.
        runs: Runs on these questions alone; a model without one is judged by its answers to all.
    """

    file: str
    ids: frozenset[str]
    runs: Sequence[Run] = ()


@dataclass(frozen=True)
class Table:
    """The results of one task on one data set, or on some of its questions, with what a reader should know.

    Attributes:
        task: Name of the task.
        data_digest: Digest of the data; None where the results do not say.
        rows: Chance, floors, models.
        notes: What a reader should know, in words.
        subset: The questions asked, where they are not all.
        limit: Number of questions asked, where the runs are partial ones.
        hard: The hard questions behind `Row.hard`, if they are known.
        quoted: Scores that others published for this split.
    """

    task: str
    data_digest: str | None
    rows: list[Row]
    notes: list[str]
    subset: Subset | None = None
    limit: int | None = None
    hard: Hard | None = None
    quoted: Sequence[Quoted] = ()


@dataclass(frozen=True)
class Group:
    """Runs that have a table together.

    Attributes:
        task: The task, without the end that says that there was no context.
        runs: The runs.
        partners: All runs on the same data and subset, whole or partial: a context gain may be taken against any of
            them.
        limit: Number of questions, where the runs are partial ones.
        shares_task: Whether there are runs of this task on other data.
    """

    task: str
    runs: Sequence[Run]
    partners: Sequence[Run]
    limit: int | None
    shares_task: bool

    def label(self, run: Run) -> str:
        """Return the model's name, with what tells it from other runs of that name on the same task."""
        return _label(run, self.partners)


def build_tables(runs: Sequence[Run]) -> list[Table]:
    """Make the tables of some runs, shortest split first.

    Args:
        runs: Runs of any tasks; no two of one model and task with the same arguments and data.

    Returns:
        A table for each group of `group_runs`.
    """
    return [build_table(group) for group in group_runs(runs)]


def group_runs(runs: Sequence[Run]) -> list[Group]:
    """Find the runs that have a table together, shortest split first.

    Args:
        runs: As for `build_tables`.

    Returns:
        A group for each task, data digest, subset, and set of questions of partial runs.
    """
    wholes: dict[tuple[str, str, str], list[Run]] = {}
    for run in runs:
        key = (_base_task(run), run.data_digest or "", run.subset.sha256 if run.subset else "")
        wholes.setdefault(key, []).append(run)
    digests = Counter(task for task, _ in {(task, digest) for task, digest, _ in wholes})
    groups = []
    for key in sorted(wholes, key=lambda key: (_split_rank(key[0]), *key)):
        parts: dict[frozenset[str], list[Run]] = {}
        for run in wholes[key]:
            parts.setdefault(run.asked if run.limit is not None else frozenset(), []).append(run)
        for questions in sorted(parts, key=lambda ids: (len(ids), sorted(ids))):
            limit = len(questions) or None
            groups.append(Group(key[0], parts[questions], wholes[key], limit, shares_task=digests[key[0]] > 1))
    return groups


def _base_task(run: Run) -> str:
    return run.task.removesuffix(NO_CONTEXT)


def _split_rank(task: str) -> int:
    return next((rank for rank, split in enumerate(SPLITS) if f"_{split}" in task), len(SPLITS))


def build_table(
    group: Group, floors: Sequence[Run] = (), hard: Hard | None = None, quoted: Sequence[Quoted] = ()
) -> Table:
    """Make the table of a group of runs.

    Args:
        group: The runs.
        floors: Floors computed on the same questions.
        hard: The hard questions among them, if they are known.
        quoted: Scores that others published for the split.
    """
    first, notes, rows = group.runs[0], _scope(group), []
    for run in group.runs:
        bare, pairing_note = _without_context(run, group.label(run), group.partners)
        notes += pairing_note
        oracle = _oracle(run, group.partners)
        scores: list[str | None] = [*run.scores] or [None]
        rows += [_row(run, group.label(run), score, bare, oracle, hard) for score in scores]
    rows += [_row(run, run.model, score, None, None, hard) for run in floors for score in run.scores]
    rows.sort(key=_rank)
    questions = {name: answer for run in group.runs for name, answer in run.answers.items()}
    rows.insert(0, _chance(list(questions.values())))
    notes = [*_flag_lines(rows), *notes, *_one_persona(rows), *_below_floors(group, floors)]
    return Table(group.task, first.data_digest, rows, notes, first.subset, group.limit, hard, quoted)


def published_for(group: Group) -> Sequence[Quoted]:
    """Return what others published for the split of a group; nothing where its runs are not on the whole split."""
    first = group.runs[0]
    whole = group.limit is None and first.subset is None
    return PUBLISHED.get(first.split or "", ()) if whole else ()


def _scope(group: Group) -> list[str]:
    subset, notes = group.runs[0].subset, []
    if group.shares_task:
        notes.append("Runs of this task used different data, so each data set has a table; do not compare them.")
    if subset:
        notes.append(
            f"Only the {subset.size} questions of {subset.file} (sha256 {subset.sha256[:12]}) were asked; do not "
            "compare with runs on other questions."
        )
    notes += [
        f"TAINTED: {group.label(run)} was shown text of options that the history does not hold, for "
        f"{run.shown.tainted} questions: its score says nothing."
        for run in group.runs
        if run.shown.tainted
    ]
    notes += [
        f"{group.label(run)}: the memory system failed for {run.shown.failed} questions, which were asked without it."
        for run in group.runs
        if run.shown.failed
    ]
    notes += [f"{group.label(run)}: {', '.join(run.shown.measures)}." for run in group.runs if run.shown.measures]
    if group.limit is not None:
        notes.append(f"Partial runs: {group.limit} questions, not all; do not compare with whole runs.")
    return notes


def _label(run: Run, runs: Sequence[Run]) -> str:
    """Return the model's name, with what tells it from other runs of that name on the same task."""
    others = [
        other
        for other in runs
        if (other.task, other.model, other.shown.key) == (run.task, run.model, run.shown.key) and other is not run
    ]
    parts = [run.backend] if any(other.backend != run.backend for other in others) else []
    same_backend = [set(other.model_args) for other in others if other.backend == run.backend]
    if same_backend:
        shared = set(run.model_args).intersection(*same_backend)
        parts += [f"{name}={value}" for name, value in run.model_args if (name, value) not in shared]
    return (f"{run.model} ({', '.join(parts)})" if parts else run.model) + memory_mark(run)


def memory_mark(run: Run) -> str:
    """Return what stands behind a model's name: the memory, where it is not the whole history."""
    if not run.shown.label:
        return ""
    return f" [{run.shown.label}{', TAINTED' if run.shown.tainted else ''}]"


def _without_context(run: Run, label: str, runs: Sequence[Run]) -> tuple[Run | None, list[str]]:
    """Find the run to pair a run with, and say where the pair is not a perfect one."""
    bare_task = run.task.removesuffix(NO_CONTEXT)
    candidates = [
        other
        for other in runs
        if run.has_context
        and not other.has_context
        and other.model == run.model
        and other.task.removesuffix(NO_CONTEXT) == bare_task
    ]
    same = [other for other in candidates if (other.backend, other.model_args) == (run.backend, run.model_args)]
    if not candidates:
        return None, []
    if not same and len(candidates) > 1:
        return None, [f"{label}: no context gain, as no run without context has the same model arguments."]
    notes = []
    if not same:
        notes.append(f"{label}: its run without context has other model arguments.")
    # A whole run is the better partner of a whole run, a partial one of a partial one.
    bare = max(
        same or candidates, key=lambda other: (len(run.answers.keys() & other.answers.keys()), -len(other.answers))
    )
    shared = len(run.answers.keys() & bare.answers.keys())
    if shared < max(len(run.answers), len(bare.answers)):
        notes.append(
            f"{label}: context gain over the {shared} questions that both runs answered"
            f" ({len(run.answers)} with context, {len(bare.answers)} without)."
        )
    return (bare if shared else None), notes


def _oracle(run: Run, runs: Sequence[Run]) -> Run | None:
    """Find the run of the same model that was shown the evidence alone."""
    kind = (run.task, run.model, run.backend, run.model_args)
    same = (o for o in runs if o.shown.memory == ORACLE and (o.task, o.model, o.backend, o.model_args) == kind)
    return next((other for other in same if other is not run), None)


_Pair = tuple[list[float], list[float], list[int]]


def _pair(run: Run, other: Run | None, score: str) -> _Pair | None:
    """Return the credits of both on the questions that both answered, and the personas; None if there are none."""
    shared = [q for q in run.answers if other is not None and score in other.scores and q in other.answers]
    if other is None or not shared:
        return None
    return (
        [run.answers[question].credits[score] for question in shared],
        [other.answers[question].credits[score] for question in shared],
        [run.answers[question].persona_id for question in shared],
    )


def _row(run: Run, label: str, score: str | None, bare: Run | None, oracle: Run | None, hard: Hard | None) -> Row:
    answers = list(run.answers.values())
    failed_rate = len(run.failed) / (len(run.failed) + len(answers))
    if score is None:
        return replace(
            _nothing(label),
            is_floor=run.is_floor,
            has_context=run.has_context,
            memory=run.shown.memory,
            failed_rate=failed_rate,
        )
    credits = [answer.credits[score] for answer in answers]
    types, personas = _types(answers), _personas(answers)
    gain = difference = gap = None
    if pair := _pair(run, bare, score):
        gain, difference = statistics.context_gain(*pair), statistics.paired_difference(*pair)
    if pair := _pair(run, oracle, score):
        gap = statistics.paired_difference(pair[1], pair[0], pair[2])
    overall = statistics.overall(credits, personas)
    chance = sum(1 / answer.n_options for answer in answers) / len(answers)
    return Row(
        model=label,
        score=score,
        is_floor=run.is_floor,
        has_context=run.has_context,
        n=len(answers),
        overall=overall,
        macro=statistics.macro(credits, types, personas),
        types=_all_types(statistics.per_type(credits, types, personas)),
        context_gain=gain,
        paired_difference=difference,
        invalid_rate=sum(score in a.invalid and a.outcome == "answered" for a in answers) / len(answers),
        skipped_rate=sum(answer.skipped for answer in answers) / len(answers),
        truncated_rate=sum(answer.truncated for answer in answers) / len(answers),
        chance_corrected=statistics.chance_corrected(overall, chance),
        effective_n=statistics.effective_sample_size(credits, personas),
        hard=_hard_score(run, score, hard),
        is_computed=run.is_computed,
        oracle_gap=gap,
        memory=run.shown.memory,
        failed_rate=failed_rate,
        cut_rate=sum(answer.outcome == "cut" for answer in answers) / len(answers),
        refused_rate=sum(answer.outcome == "refused" for answer in answers) / len(answers),
    )


def _nothing(label: str) -> Row:
    """Return the row of a model of which there is no answer."""
    return Row(
        model=label,
        score=None,
        is_floor=False,
        has_context=True,
        n=0,
        overall=None,
        macro=None,
        types=_all_types({}),
        context_gain=None,
        paired_difference=None,
        invalid_rate=0.0,
        skipped_rate=0.0,
        truncated_rate=0.0,
    )


def _hard_score(run: Run, score: str, hard: Hard | None) -> Estimate | None:
    if hard is None:
        return None
    kind = (run.model, run.backend, run.model_args, run.task, run.shown.key)
    own = next((o for o in hard.runs if (o.model, o.backend, o.model_args, o.task, o.shown.key) == kind), run)
    answers = [answer for question_id, answer in own.answers.items() if question_id in hard.ids]
    if not answers or not hard.ids <= own.asked or score not in own.scores:
        return None
    return statistics.overall([answer.credits[score] for answer in answers], _personas(answers))


def _chance(answers: Sequence[Answer]) -> Row:
    """Return what a blind guess scores: known, not estimated, so it has no intervals."""
    if not answers:
        return replace(_nothing(CHANCE), is_floor=True, is_computed=True)
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
        is_computed=True,
    )


def _rank(row: Row) -> tuple[bool, float, str, str]:
    """Put floors first, then the best; those without a score come last."""
    return not row.is_floor, 1.0 if row.overall is None else -row.overall.value, row.label, row.score or ""


def _types(answers: Sequence[Answer]) -> list[str]:
    return [answer.question_type for answer in answers]


def _personas(answers: Sequence[Answer]) -> list[int]:
    return [answer.persona_id for answer in answers]


def _all_types(by_type: Mapping[str, Estimate]) -> dict[str, Estimate | None]:
    return {name: by_type.get(name) for name in QUESTION_TYPES}


def _exact(estimate: Estimate) -> Estimate:
    return estimate._replace(low=None, high=None)


def _flag_lines(rows: Sequence[Row]) -> list[str]:
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


def _one_persona(rows: Sequence[Row]) -> list[str]:
    lone = [row.overall for row in rows if row.overall is not None and row.overall.clusters < 2]
    if not lone:
        return []
    return [
        f"one persona: no interval (an interval needs the spread between personas, and all {max(e.n for e in lone)} "
        "questions have the same persona_id)."
    ]


def _below_floors(group: Group, floors: Sequence[Run]) -> list[str]:
    """Say which models score below a floor, on the questions that the model answered."""
    shortcuts = [*(run for run in group.runs if run.is_floor), *floors]
    notes = []
    for run in group.runs:
        if run.is_floor or not run.has_context or run.shown.memory == WRONG_USER:
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
