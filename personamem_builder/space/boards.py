"""The tables of a leaderboard: for each split and way of asking the models in groups, beside floors and controls.

Only runs that answered every question of the split are ranked, so that all models of a table answered the same
questions. What else there is stands apart, with the reason. Runs with a memory have a table of their own, in which the
controls (`oracle`, `wrong-user`, `persona`) and the same models with the whole history stand beside, without a group.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from personamem_builder.memory.controls import Full, Oracle, Persona, WrongUser
from personamem_builder.report.analysis import primary_score
from personamem_builder.report.floors import compute_floors
from personamem_builder.report.groups import RunGroup, group_runs
from personamem_builder.report.notes import below_floor_notes, flag_notes, one_persona_note, scope_notes
from personamem_builder.report.one_model import setting_in_words
from personamem_builder.report.rows import ScoreRow, chance_row, score_row
from personamem_builder.results.runs import Run
from personamem_builder.schema import SHORT_TYPES, QuestionRow
from personamem_builder.space.ranking import Pair, Ranking, Span, compare, rank
from personamem_builder.statistics import Estimate

_CONTROLS: Final = (Oracle.name, Persona.name, WrongUser.name)

_LONE: Final = "asked without the history only"

Questions = Mapping[str, Mapping[str, QuestionRow]]
"""The questions by split and id."""


class Apart(NamedTuple):
    """A run that is not ranked, and why; `overall` is its score on the `n` questions that it answered."""

    label: str
    reason: str
    n: int
    overall: Estimate | None


@dataclass(frozen=True)
class Entry:
    """A ranked model.

    Attributes:
        row: Its scores.
        span: The groups that it belongs to.
        behind: Its score minus that of the first model; None for that one.
        over_floor: Its score minus that of the best floor; None where there are no floors.
        type_spans: Its groups among the scores by question type.
    """

    row: ScoreRow
    span: Span
    behind: Estimate | None
    over_floor: Pair | None
    type_spans: Mapping[str, Span]


@dataclass(frozen=True)
class Board:
    """A table of the leaderboard.

    Attributes:
        split: The split.
        setting: How models are asked, in words.
        task: The task, without the end that says that there was no context.
        score: The score that ranks, see `primary_score`.
        has_memory: Whether the models were shown what a memory system found.
        questions: Questions of the split.
        personas: Personas that they are about.
        entries: The models, best first.
        ranking: Their pairs and groups.
        floors: Shortcuts on the same questions, best first.
        chance: A blind guess.
        beside: Controls, and models with the whole history: shown, not ranked.
        apart: Runs that cannot be compared.
        notes: What a reader should know.
    """

    split: str
    setting: str
    task: str
    score: str
    has_memory: bool
    questions: int
    personas: int
    entries: Sequence[Entry]
    ranking: Ranking
    floors: Sequence[ScoreRow]
    chance: ScoreRow
    beside: Sequence[ScoreRow] = ()
    apart: Sequence[Apart] = ()
    notes: Sequence[str] = ()

    @property
    def title(self) -> str:
        """What the table is of."""
        return f"{self.split}, {self.setting}{', with a memory' if self.has_memory else ''}"

    @property
    def name(self) -> str:
        """A name for addresses."""
        return f"{self.task}-{self.score}{'-memory' if self.has_memory else ''}"


@dataclass
class _Sorted:
    """The runs of a task, by what becomes of them."""

    group: RunGroup
    ranked: list[Run] = field(default_factory=list)
    bare: list[Run] = field(default_factory=list)
    floors: list[Run] = field(default_factory=list)
    apart: list[tuple[Run, Apart]] = field(default_factory=list)


class Leaderboard(NamedTuple):
    """The tables, shortest split first, and by task the runs that belong beneath none of them."""

    boards: Sequence[Board]
    apart: Mapping[str, Sequence[Apart]]


def make_leaderboard(runs: Sequence[Run], questions: Questions) -> Leaderboard:
    """Make the tables of a leaderboard, of all tasks that a model answered whole.

    Args:
        runs: Runs on one dataset.
        questions: Its questions.
    """
    tasks: dict[str, list[RunGroup]] = {}
    for group in group_runs(runs):
        tasks.setdefault(group.task, []).append(group)
    boards: list[Board] = []
    elsewhere: dict[str, list[Apart]] = {}
    for task, groups in tasks.items():
        rows = questions[groups[0].runs[0].split or ""]
        found = _sorted(groups, rows.keys())
        own = _boards(found, rows)
        apart = [*found.apart, *((run, _apart(run, found.group.label(run), _LONE)) for run in _lone(found))]
        if own:
            boards += _with_apart(own, apart)
        elif apart:
            elsewhere[task] = _in_order([one for _, one in apart])
    return Leaderboard(boards, elsewhere)


def _sorted(groups: Sequence[RunGroup], ids: Collection[str]) -> _Sorted:
    whole = next((group for group in groups if group.limit is None and not group.runs[0].subset), groups[0])
    found = _Sorted(whole)
    for group in groups:
        for run in group.runs:
            reason = _reason(run, ids)
            if run.is_floor:
                found.floors += [] if reason else [run]
            elif reason:
                found.apart.append((run, _apart(run, group.label(run), reason)))
            elif not run.has_context:
                found.bare.append(run)
            else:
                found.ranked.append(run)
    return found


def _reason(run: Run, ids: Collection[str]) -> str:
    """Say why a run cannot be compared, empty if it can."""
    if run.shown.tainted:
        return (
            f"tainted: for {run.shown.tainted} questions the memory returned text of options that the history does not "
            "hold, so the score says nothing"
        )
    if run.subset:
        return f"asked only the questions of {run.subset.file}"
    if run.failed:
        return f"{len(run.failed)} of {len(run.asked)} questions failed; rerun the command to ask only these"
    if len(run.answers) < len(ids):
        part = f"part {run.shard} of a run, " if run.shard else ""
        return f"partial: {part}{len(run.answers):,} of {len(ids):,} questions"
    return ""


def _apart(run: Run, label: str, reason: str) -> Apart:
    score = primary_score(run.scores, run.task) if run.answers else None
    name = label if run.has_context else f"{label} (no context)"
    row = score_row(run, name, score)
    return Apart(name, reason, row.n, None if run.shown.tainted else row.overall)


def _boards(found: _Sorted, rows: Mapping[str, QuestionRow]) -> list[Board]:
    if not found.ranked:
        return []
    floors = [*found.floors, *compute_floors([*found.ranked, *found.floors], rows)]
    scores = sorted({primary_score(run.scores, run.task) for run in found.ranked})
    made = (
        _board(found, floors, score, list(rows), has_memory=has_memory)
        for has_memory in (False, True)
        for score in scores
    )
    return [board for board in made if board]


def _lone(found: _Sorted) -> list[Run]:
    """Return the runs without context that no run with context is set beside."""
    used = [found.group.without_context(run)[0] for run in found.ranked]
    return [run for run in found.bare if run not in used]


def _with_apart(boards: Sequence[Board], apart: Sequence[tuple[Run, Apart]]) -> list[Board]:
    """Put each run that is not ranked beneath the table in which it would be, or else beneath the first."""
    placed: dict[int, list[Apart]] = {}
    for run, one in apart:
        has_memory = run.shown.memory != Full.name and run.has_context
        number = next((i for i, board in enumerate(boards) if board.has_memory == has_memory), 0)
        placed.setdefault(number, []).append(one)
    return [replace(board, apart=_in_order(placed.get(number, []))) for number, board in enumerate(boards)]


def _in_order(apart: Sequence[Apart]) -> list[Apart]:
    return sorted(apart, key=lambda one: (one.label, one.reason))


def _board(found: _Sorted, floors: Sequence[Run], score: str, ids: Sequence[str], *, has_memory: bool) -> Board | None:
    group = found.group
    runs = [run for run in found.ranked if primary_score(run.scores, run.task) == score]
    ranked = [run for run in runs if _is_ranked(run, has_memory)]
    if not ranked:
        return None
    labels = [group.label(run) for run in ranked]
    personas = [ranked[0].answers[id_].persona_id for id_ in ids]
    credits = [_credits(run, score, ids) for run in ranked]
    ranking = rank(labels, credits, personas)
    best = _best_floor(floors)
    over = compare([(own, _credits(best, _floor_score(best), ids)) for own in credits], personas) if best else None
    type_spans = _type_spans(ranked, labels, score, ids)
    entries = []
    for place, number in enumerate(ranking.order):
        run, (bare, _) = ranked[number], group.without_context(ranked[number])
        first = ranking.pairs[0, place].difference if place else None
        entries.append(
            Entry(
                score_row(run, labels[number], score, bare, group.oracle(run)),
                ranking.span(place),
                first and _turned(first),
                over[number] if over else None,
                {kind: spans[number] for kind, spans in type_spans.items()},
            )
        )
    own_group = replace(group, runs=ranked)
    rows = [entry.row for entry in entries]
    notes = [*flag_notes(rows), *scope_notes(own_group), *one_persona_note(rows), *below_floor_notes(own_group, floors)]
    return Board(
        split=ranked[0].split or "",
        setting=setting_in_words(group.task),
        task=group.task,
        score=score,
        has_memory=has_memory,
        questions=len(ids),
        personas=len(set(personas)),
        entries=entries,
        ranking=ranking,
        floors=_best_first([score_row(run, run.model, _floor_score(run)) for run in floors]),
        chance=chance_row(list(ranked[0].answers.values())),
        beside=_beside(group, runs, ranked, score) if has_memory else (),
        notes=notes,
    )


def _is_ranked(run: Run, has_memory: bool) -> bool:
    if has_memory:
        return run.shown.memory not in (Full.name, *_CONTROLS)
    return run.shown.memory == Full.name


def _beside(group: RunGroup, runs: Sequence[Run], ranked: Sequence[Run], score: str) -> list[ScoreRow]:
    """Return the controls of models that have a memory, and these models with the whole history."""
    models = {run.model_key for run in ranked}
    others = [run for run in runs if run not in ranked and run.model_key in models]
    return _best_first(
        [
            score_row(run, group.label(run) + (" [whole history]" if run.shown.memory == Full.name else ""), score)
            for run in others
        ]
    )


def _credits(run: Run, score: str, ids: Sequence[str]) -> list[float]:
    return [run.answers[id_].credits[score] for id_ in ids]


def _turned(difference: Estimate) -> Estimate:
    """Return a difference the other way round."""
    low, high = (None if end is None else -end for end in (difference.high, difference.low))
    return difference._replace(value=-difference.value, low=low, high=high)


def _floor_score(run: Run) -> str:
    return primary_score(run.scores, run.task)


def _best_floor(floors: Sequence[Run]) -> Run | None:
    def mean(run: Run) -> float:
        return sum(answer.credits[_floor_score(run)] for answer in run.answers.values()) / len(run.answers)

    return max(floors, key=lambda run: (mean(run), run.model), default=None)


def _best_first(rows: Sequence[ScoreRow]) -> list[ScoreRow]:
    return sorted(rows, key=lambda row: (-row.overall.value if row.overall else 1.0, row.label))


def _type_spans(
    runs: Sequence[Run], labels: Sequence[str], score: str, ids: Sequence[str]
) -> dict[str, dict[int, Span]]:
    """Return for each question type the groups of each run, by its number."""
    found = {}
    for kind in SHORT_TYPES:
        own = [id_ for id_ in ids if runs[0].answers[id_].question_type == kind]
        if own:
            personas = [runs[0].answers[id_].persona_id for id_ in own]
            ranking = rank(labels, [_credits(run, score, own) for run in runs], personas)
            found[kind] = {number: ranking.span(place) for place, number in enumerate(ranking.order)}
    return found
