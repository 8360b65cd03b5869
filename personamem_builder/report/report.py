"""All that a report has: tables, analyses, comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from generation.errors import UserError
from generation.reading import clean_text
from personamem_builder.report.analysis import analyse, primary_score, shows_options
from personamem_builder.report.breakdown import TITLES, Analysis, LeftOut, ModelEntry, Result
from personamem_builder.report.compare import Comparison, compare
from personamem_builder.report.curve import session_curves
from personamem_builder.report.error_labels import ErrorReport
from personamem_builder.report.floors import compute_floors
from personamem_builder.report.groups import RunGroup, group_runs
from personamem_builder.report.one_model import ModelSettings, settings_of_models
from personamem_builder.report.question_columns import Questions
from personamem_builder.report.rows import HardQuestions
from personamem_builder.report.table import ScoreTable, build_table, published_for
from personamem_builder.report.tokens_shown import tokens_shown
from personamem_builder.results.runs import Run
from personamem_builder.statistics import Estimate
from personamem_builder.subset import read_subset

_BEST_FLOORS: Final = 3


@dataclass(frozen=True)
class Section:
    """What a report says of runs that have a table together.

    Attributes:
        headline: The scores of the table as an analysis, to be drawn.
        results: What the scores depend on.
        floors: Which series of the results are floors.
    """

    table: ScoreTable
    headline: Analysis
    results: Sequence[Result]
    floors: frozenset[str]


@dataclass(frozen=True)
class Report:
    """All that a report says.

    Attributes:
        sections: By table, shortest split first.
        comparisons: Of two models, where asked for.
        notes: What was left out, and what else a reader should know.
        curves: Accuracy over sessions, where there are splits of several numbers of sessions.
        settings: Models that were run in several settings.
        floors: Which series of the curves are floors.
        errors: What went wrong in wrong answers, where files say so.
    """

    sections: Sequence[Section]
    comparisons: Sequence[Comparison]
    notes: Sequence[str]
    curves: Sequence[Analysis] = ()
    settings: Sequence[ModelSettings] = ()
    floors: frozenset[str] = frozenset()
    errors: ErrorReport | None = None

    @property
    def tables(self) -> list[ScoreTable]:
        """The tables of the sections."""
        return [section.table for section in self.sections]


def make_report(
    runs: Sequence[Run],
    questions: Questions,
    *,
    hard: Path | None = None,
    pair: tuple[str, str] | None = None,
    notes: Sequence[str] = (),
) -> Report:
    """Make a report: tables with floors computed where the results lack them, analyses and comparisons.

    Args:
        runs: What was evaluated.
        questions: The questions of their datasets.
        hard: A file that names hard questions.
        pair: Two models to compare.
        notes: What a reader should know of the runs.

    Raises:
        UserError: `hard` or `pair` does not fit the runs.
    """
    groups = group_runs(runs)
    floors = [_floors(group, questions) for group in groups]
    hards = _hard_parts(groups, hard)
    entries = [_entries(group, own) for group, own in zip(groups, floors, strict=True)]
    sections = [_section(*parts, questions) for parts in zip(groups, floors, hards, entries, strict=True)]
    everyone = [replace(group, runs=[*group.runs, *own]) for group, own in zip(groups, floors, strict=True)]
    return Report(
        sections,
        compare(everyone, *pair) if pair else [],
        notes,
        session_curves(zip(groups, entries, strict=True)),
        settings_of_models(groups),
        frozenset(entry.label for own in entries for entry in own if entry.is_floor),
    )


def _floors(group: RunGroup, questions: Questions) -> list[Run]:
    rows = questions.of(group.runs[0])
    return [] if rows is None else compute_floors(group.runs, rows)


def _section(
    group: RunGroup,
    floors: Sequence[Run],
    hard: HardQuestions | None,
    entries: Sequence[ModelEntry],
    questions: Questions,
) -> Section:
    quoted, first = published_for(group), group.runs[0]
    table = build_table(group, floors, hard, quoted)
    source = questions.sources.get(first.data_digest or "")
    if quoted and (source is None or not source.is_official):
        about = "" if source is None else ", while this table is on other questions"
        table.notes.append(f"The quoted scores are on the official release{about}.")
    results: list[Result] = [LeftOut(name, title, "no question was answered") for name, title in TITLES.items()]
    if entries:
        results = analyse(
            entries,
            questions.of(first),
            split=first.split,
            lacking=questions.lacking.get(first.data_digest or "", ""),
            shows_options=shows_options(first.task),
        )
    if (picture := tokens_shown(group, questions.of(first))) is not None:
        results = [picture, *results]
    return Section(table, headline(table), results, frozenset(entry.label for entry in entries if entry.is_floor))


def _entries(group: RunGroup, floors: Sequence[Run]) -> list[ModelEntry]:
    """Return models best first, then the best floor; where there is no model, the floors of the results are shown."""
    runs = [run for run in group.runs if not run.is_floor and run.answers]
    models = [run for run in runs if run.has_context] or runs
    shortcuts = [*(run for run in group.runs if run.is_floor and run.answers), *floors]
    if not models:
        return [_entry(group, run, is_floor=False) for run in _best_first(shortcuts)]
    return [
        *(_entry(group, run, is_floor=False) for run in _best_first(models)),
        *(_entry(group, run, is_floor=True) for run in _best_first(shortcuts)[:1]),
    ]


def _entry(group: RunGroup, run: Run, *, is_floor: bool) -> ModelEntry:
    bare = " (no context)" if not run.has_context else ""
    return ModelEntry(group.label(run) + bare, run.answers, primary_score(run.scores, run.task), is_floor)


def _best_first(runs: Sequence[Run]) -> list[Run]:
    def mean(run: Run) -> float:
        score = primary_score(run.scores, run.task)
        return sum(answer.credits[score] for answer in run.answers.values()) / len(run.answers)

    return sorted(runs, key=lambda run: (-mean(run), run.model, run.model_args))


def headline(table: ScoreTable) -> Analysis:
    """Return the scores of a table as an analysis: a bin for each model, for the best floors, for each quoted score.

    A model has the score that analyses look at; all scores are in the table.
    """
    chance, *rows = table.rows
    scores: dict[str, list[str]] = {}
    for row in rows:
        scores.setdefault(row.label, []).append(row.score or "")
    rows = [row for row in rows if row.score == primary_score(scores[row.label], table.task)]
    best = [row for row in rows if row.is_floor][:_BEST_FLOORS]
    rows = [*(row for row in rows if not row.is_floor), *best]
    quoted = [Estimate(one.score, None, None, 0, 0) for one in table.quoted]
    series: dict[str, tuple[Estimate | None, ...]] = {
        "overall": (*(row.overall for row in rows), *(None for _ in quoted)),
        "macro (mean of types)": (*(row.macro for row in rows), *(None for _ in quoted)),
    }
    if quoted:
        series["quoted"] = (*(None for _ in rows), *quoted)
    names = [row.model if row.has_context else row.label for row in rows] + [
        f"quoted: {one.system}" for one in table.quoted
    ]
    return Analysis(
        "scores",
        "Scores of models and of the best floors" + (", and scores quoted" if quoted else ""),
        "accuracy",
        tuple(names),
        series,
        tuple(chance.overall and chance.overall.value for _ in names),
        note="Quoted scores are others', on the official release and by their own protocols." if quoted else "",
    )


def _hard_parts(groups: Sequence[RunGroup], path: Path | None) -> list[HardQuestions | None]:
    if path is None:
        return [_hard_of_runs(group, groups) for group in groups]
    parts: list[HardQuestions | None] = []
    problem: UserError | None = None
    for group in groups:
        try:
            parts.append(_hard_of_file(group, path))
        except UserError as error:
            problem = error
            parts.append(None)
    if problem and not any(parts):
        raise problem
    return parts


def _hard_of_file(group: RunGroup, path: Path) -> HardQuestions | None:
    first = group.runs[0]
    if first.subset or group.limit is not None:
        return None
    subset = read_subset(path, first.split or "")
    ids = frozenset(subset.ids)
    unknown = ids.difference(*(run.asked for run in group.runs))
    if unknown:
        raise UserError(
            f"{path}: {len(unknown)} of its {len(ids)} questions are not among the answers to {first.task} "
            f"({first.path}), such as {min(unknown)!r}",
            "give one that was exported from the data that was evaluated: personamem audit DATA --export-hard FILE",
        )
    return HardQuestions(clean_text(subset.name), ids)


def _hard_of_runs(group: RunGroup, groups: Sequence[RunGroup]) -> HardQuestions | None:
    """Find the hard questions by the runs on them, if there is one such subset of the task."""
    first = group.runs[0]
    if first.subset or group.limit is not None:
        return None
    runs = [
        run
        for other in groups
        if (other.task, other.runs[0].data_digest) == (group.task, first.data_digest)
        for run in other.runs
        if run.subset and run.limit is None
    ]
    if len({run.subset.sha256 for run in runs if run.subset}) != 1:
        return None
    assert runs[0].subset is not None
    return HardQuestions(runs[0].subset.file, runs[0].asked, runs)
