"""What went wrong in wrong answers, as raters labelled them: shares of the categories, and how far raters agree.

The JSON form, for machines; it is `errors` in that of the report:

    {"tables": [{"file": str, "model": str, "task": str, "raters": [str], "rows": int, "unlabelled": int,
                 "by_rule": int,
                 "categories": {CATEGORY: {"count": int, "share": INTERVAL | null, "types": {QUESTION_TYPE: int},
                                           "quoted": float}}}],
     "agreements": [{"first": FILE, "second": FILE, "model": str, "task": str, "items": int, "percent": float,
                     "ac1": INTERVAL}]}
    CATEGORY = "personalization" | "update" | "format" | "hallucination" | "other"
    INTERVAL = {"value": float, "low": float | null, "high": float | null}
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from textwrap import fill
from typing import Any, Final, NamedTuple

from generation.errors import UserError
from generation.reading import as_one
from personamem_builder.rater_agreement import Agreement, Interval, gwet_ac1, wilson
from personamem_builder.report import render
from personamem_builder.report.analysis import primary_score
from personamem_builder.report.columns import Column
from personamem_builder.report.groups import all_names, memory_mark
from personamem_builder.results.error_labels import CATEGORIES, RULE, LabelledError, read_labels, short
from personamem_builder.results.runs import Run
from personamem_builder.schema import SHORT_TYPES
from personamem_builder.text_table import text_table

QUOTED: Final[Mapping[str, float]] = {
    "personalization": 0.48,
    "update": 0.24,
    "format": 0.14,
    "hallucination": 0.12,
    "other": 0.02,
}
"""Shares of 100 wrong answers of GPT-4o that the paper's authors labelled by hand (arXiv 2504.14225, appendix F)."""

LEGEND: Final = (
    "Shares in per cent, with Wilson's 95 % intervals, which take answers as independent. `personamem annotate` draws "
    "evenly over question types: the shares are of such a sample, not of all wrong answers. GPT-4o = 100 wrong "
    "answers that the paper's authors labelled by hand, quoted (arXiv 2504.14225, appendix F); other questions, raters "
    "and wording. " + "; ".join(f"{name} = {meaning}" for name, meaning in CATEGORIES.items()) + "."
)


class ErrorTable(NamedTuple):
    """The wrong answers of one run, as one file labels them.

    Attributes:
        file: Its path, as it was given.
        raters: Who labelled them, in alphabetical order; `rule`, which labels replies without a letter, is no rater.
        unlabelled: Rows without a category.
        by_rule: Rows that a rule labelled.
        counts: Labelled rows by category, then by question type.
    """

    file: str
    model: str
    task: str
    raters: list[str]
    rows: int
    unlabelled: int
    by_rule: int
    counts: Mapping[str, Counter[str]]

    @property
    def labelled(self) -> int:
        """Rows with a category."""
        return self.rows - self.unlabelled

    def share(self, category: str) -> Interval | None:
        """Return the share of a category among the labelled rows, None where there are none."""
        return wilson(self.counts[category].total() / self.labelled, self.labelled) if self.labelled else None

    @property
    def title(self) -> str:
        """What the table is of."""
        by = f" by {', '.join(self.raters)}" if self.raters else ""
        return f"Errors of {self.model} on {self.task}, labelled{by} ({self.file})"


class LabelAgreement(NamedTuple):
    """How far two files agree on the rows that both label; rows that a rule labelled are left out."""

    first: str
    second: str
    model: str
    task: str
    agreement: Agreement


class ErrorReport(NamedTuple):
    """What some files of labels say."""

    tables: Sequence[ErrorTable]
    agreements: Sequence[LabelAgreement]


_Key = tuple[str, str]


def read_error_report(files: Sequence[Path], runs: Sequence[Run]) -> ErrorReport:
    """Read files of `personamem annotate --errors` and count what they say.

    Raises:
        UserError: A file cannot be read, is named twice, or labels answers that are not among the wrong ones of the
            runs; all faults are named with row and column.
    """
    if twice := [file for file, count in Counter(files).items() if count > 1]:
        raise UserError(f"--errors {twice[0]} appears twice", "name each file once")
    read: list[tuple[str, dict[_Key, list[LabelledError]]]] = []
    tables = []
    for file in files:
        groups: dict[_Key, list[LabelledError]] = {}
        for label in read_labels(file):
            groups.setdefault((label.model, label.task), []).append(label)
        tables += [_table(file, labels, _run_of(file, labels, runs)) for labels in groups.values()]
        read.append((str(file), groups))
    return ErrorReport(tables, list(_agreements(read)))


def _run_of(file: Path, labels: Sequence[LabelledError], runs: Sequence[Run]) -> Run:
    """Return the run whose wrong answers these are."""
    first = labels[0]
    named = [run for run in runs if run.task == first.task and first.model in all_names(run)]
    if not named:
        there = dict.fromkeys(f"{run.model}{memory_mark(run)} on {run.task}" for run in runs if not run.is_floor)
        raise UserError(
            f"{file}, row {first.row}, column model: the results have no {short(first.model)} on {short(first.task)}",
            f"report on the results that were labelled; there are {', '.join(there) or 'floors only'}",
        )
    # One model may have run with several arguments: its answers tell which run it is.
    faults = [list(_faults(file, labels, run)) for run in named]
    fewest = min(faults, key=len)
    if fewest:
        raise as_one(fewest)
    return named[faults.index(fewest)]


def _faults(file: Path, labels: Sequence[LabelledError], run: Run) -> Iterator[UserError]:
    score = primary_score(run.scores, run.task) if run.answers else ""
    hint = f"the file is of other results than {run.path}: report on those that were labelled"
    for label in labels:
        where = f"{file}, row {label.row}, column"
        answer = run.answers.get(label.question_id)
        if answer is None:
            yield UserError(f"{where} question_id: {short(label.question_id)} is not a question of {run.task}", hint)
        elif answer.credits[score] > 0:
            yield UserError(f"{where} question_id: {short(label.question_id)} was answered right", hint)
        elif (chosen := answer.predictions.get(score)) is not None and chosen != label.letter:
            theirs = f"({label.letter})" if label.letter else "no option"
            yield UserError(f"{where} chosen_option: it is {theirs}, in the results ({chosen})", hint)


def _table(file: Path, labels: Sequence[LabelledError], run: Run) -> ErrorTable:
    counts: dict[str, Counter[str]] = {category: Counter() for category in CATEGORIES}
    for label in labels:
        if label.category is not None:
            counts[label.category][run.answers[label.question_id].question_type] += 1
    raters = {label.rater for label in labels if label.category and label.rater not in ("", RULE)}
    return ErrorTable(
        file=str(file),
        model=labels[0].model,
        task=labels[0].task,
        raters=sorted(raters),
        rows=len(labels),
        unlabelled=sum(label.category is None for label in labels),
        by_rule=sum(label.rater == RULE for label in labels),
        counts=counts,
    )


def _agreements(read: Sequence[tuple[str, Mapping[_Key, Sequence[LabelledError]]]]) -> Iterator[LabelAgreement]:
    for (first, groups), (second, others) in combinations(read, 2):
        for model, task in groups:
            one, other = (_judged(own.get((model, task), ())) for own in (groups, others))
            pairs = [(category, other[id_]) for id_, category in one.items() if id_ in other]
            found = gwet_ac1(pairs, list(CATEGORIES))
            if found is not None:
                yield LabelAgreement(first, second, model, task, found)


def _judged(labels: Sequence[LabelledError]) -> dict[str, str]:
    return {label.question_id: label.category for label in labels if label.category and label.rater != RULE}


def error_columns(table: ErrorTable) -> list[Column]:
    """Return a table as text, a row for each category."""
    types = [kind for kind in SHORT_TYPES if any(own[kind] for own in table.counts.values())]
    return [
        Column("category", list(table.counts)),
        Column("n", [str(own.total()) for own in table.counts.values()]),
        Column("share", [_percent(table.share(category)) for category in table.counts]),
        Column("GPT-4o (quoted)", [f"{100 * QUOTED[category]:.0f}" for category in table.counts]),
        *(Column(SHORT_TYPES[kind], [str(own[kind]) for own in table.counts.values()]) for kind in types),
    ]


def _percent(share: Interval | None) -> str:
    if share is None or share.low is None or share.high is None:
        return "-"
    return f"{100 * share.value:.1f} [{100 * share.low:.1f}, {100 * share.high:.1f}]"


def error_notes(table: ErrorTable) -> list[str]:
    """Return what a reader of a table should know."""
    if not table.unlabelled:
        return []
    skewed = "; those without a letter have one, so the share of format is too high" if table.by_rule else ""
    return [f"{table.unlabelled} of {table.rows} answers have no category yet{skewed}."]


def agreement_lines(report: ErrorReport) -> list[str]:
    """Return in words how far files agree."""
    return [
        f"{one.first} and {one.second} agree on {100 * one.agreement.percent:.1f} % of the {one.agreement.items} "
        f"answers of {one.model} on {one.task} that both label; Gwet's AC1 {_ac1(one.agreement.ac1)}."
        for one in report.agreements
    ]


def _ac1(ac1: Interval) -> str:
    ends = "" if ac1.low is None or ac1.high is None else f" [{ac1.low:.3f}, {ac1.high:.3f}]"
    return f"{ac1.value:.3f}{ends}"


def to_text(report: ErrorReport, width: int) -> str:
    """Return the tables for a terminal of so many columns, then how far files agree."""
    parts = []
    for table in report.tables:
        columns = error_columns(table)
        rows = [[column.head for column in columns], *zip(*(column.cells for column in columns), strict=True)]
        notes = [f"note: {note}" for note in error_notes(table)]
        parts.append("\n".join([table.title, text_table(rows, "lr", ruled=True, width=width), *notes]))
    below = [fill(line, width, break_on_hyphens=False) for line in [*agreement_lines(report), LEGEND]]
    return "\n\n".join([*parts, *below])


def to_markdown(report: ErrorReport) -> str:
    """Return the tables in GitHub Markdown, then how far files agree."""
    parts = [render.markdown_part(table.title, error_columns(table), error_notes(table)) for table in report.tables]
    return "\n\n".join([*parts, *agreement_lines(report), LEGEND])


def to_latex(report: ErrorReport) -> str:
    """Return the tables in LaTeX."""
    return "\n\n".join(render.latex_part(table.title, error_columns(table)) for table in report.tables)


def to_json(report: ErrorReport) -> dict[str, Any]:
    """Return the JSON form that the module docstring defines."""
    return {
        "tables": [
            {
                **{
                    name: getattr(table, name)
                    for name in ("file", "model", "task", "raters", "rows", "unlabelled", "by_rule")
                },
                "categories": {
                    category: {
                        "count": own.total(),
                        "share": (share := table.share(category)) and share._asdict(),
                        "types": {kind: own[kind] for kind in SHORT_TYPES if own[kind]},
                        "quoted": QUOTED[category],
                    }
                    for category, own in table.counts.items()
                },
            }
            for table in report.tables
        ],
        "agreements": [
            {
                **{name: getattr(one, name) for name in ("first", "second", "model", "task")},
                **one.agreement._asdict(),
                "ac1": one.agreement.ac1._asdict(),
            }
            for one in report.agreements
        ],
    }
