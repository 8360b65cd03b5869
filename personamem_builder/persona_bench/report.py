"""What models and floors score on PERSONA-Bench, from the results and samples that lm-eval leaves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from generation.errors import UserError
from generation.reading import clean_text
from personamem_builder.persona_bench import metrics
from personamem_builder.persona_bench.card import items_path
from personamem_builder.persona_bench.domains import DomainScores, domains_json, render_domains, score_domains
from personamem_builder.persona_bench.floors import floor_answers, render
from personamem_builder.persona_bench.prompts import TRUTH
from personamem_builder.persona_bench.published import (
    INFERRED_FLOORS,
    MODELS,
    PUBLISHED,
    SOURCE,
    beaten_cells,
    render_published,
)
from personamem_builder.persona_bench.records import CONDITIONS, ITEM_SCHEMA, TASKS
from personamem_builder.persona_bench.runs import Run, Scores, Settings, has_data
from personamem_builder.persona_bench.tables import iter_rows
from personamem_builder.results.files import FLAG, FLAGGED_ABOVE, ReadRuns

_COMPARED: Final = (("pconv", "pnonconv"), ("pconv", "npconv"))


class ModelScores(NamedTuple):
    """What a model scores in a condition; `model` tells it from the others of its table."""

    model: str
    run: Run
    scores: Scores


class ConditionDifference(NamedTuple):
    """What a model scores in a condition, minus what it scores in the baseline, on the same items."""

    model: str
    condition: str
    baseline: str
    scores: Scores


class BenchTable(NamedTuple):
    """What models and floors score on the same items.

    Attributes:
        released: Whether the items and prompts are those of the released form.
        items: How many items were asked.
        of: How many the split has.
        authors: How many people wrote them.
        rows: The models, by condition.
        floors_from: Where the floors come from, in words.
        differences: Between conditions; none in the released form, whose conditions differ in more than one factor.
        domains: The same by domain.
    """

    task: str
    released: bool
    split: str
    items: int
    of: int
    authors: int
    rows: Sequence[ModelScores]
    floors: Mapping[str, Scores]
    floors_from: str
    differences: Sequence[ConditionDifference]
    domains: Sequence[DomainScores]


class BenchReport(NamedTuple):
    """The tables, notes on what was left out, and what is wrong with the results that cannot be read."""

    tables: Sequence[BenchTable]
    notes: Sequence[str]
    unreadable: Sequence[UserError] = ()


def make_report(read: ReadRuns[Run]) -> BenchReport:
    """Return a table for each task, form, split and set of items."""
    notes = [*read.notes]
    groups: dict[tuple[object, ...], list[Run]] = {}
    for run in read.runs:
        items = frozenset(answer.item_id for answer in run.answers)
        groups.setdefault((TASKS.index(run.task), run.released, run.split, -len(items), items), []).append(run)
    tables = [_table(groups[key], notes) for key in sorted(groups, key=lambda key: key[:4])]
    return BenchReport(tables, [clean_text(note) for note in notes], read.unreadable)


def render_report(report: BenchReport, width: int = 120) -> str:
    """Return the tables in plain text, in parts where they are wider than `width`, then the published one."""
    lines = [line for table in report.tables for line in _table_lines(table, width)]
    lines.append(render_published(_published_floors(report), width))
    if len(_published_floors(report)) > len(INFERRED_FLOORS):
        lines.append("Floors on the items of these results compare with it only if those are the released data.")
    return "\n".join(lines)


def row_label(row: ModelScores) -> str:
    """Name a row of a table: its model and condition."""
    return f"{row.model} {condition_label(row.run)}"


def _table_lines(table: BenchTable, width: int) -> list[str]:
    names = max(len(row.model) for row in table.rows)
    shown = {f"{row.model:<{names}}  {condition_label(row.run)}": row.scores for row in table.rows}
    shown |= {f"floor: {name}": scores for name, scores in table.floors.items()}
    lines = [_title(table), "", *_parts(shown, width), ""]
    unread = [(row, _unparsed(row.run)) for row in table.rows]
    lines += [
        f"{row.model}, {condition_label(row.run)}: {count:g} of {table.items} answers could not be read"
        for row, count in unread
        if count
    ]
    lines += [_failures(row) for row in table.rows if row.run.failed]
    columns = dict.fromkeys(name for row in table.rows for name in row.scores)
    lower = [name for name in columns if name in metrics.LOWER_IS_BETTER]
    lines += [f"lower is better: {', '.join(lower)}; floors: {table.floors_from}", ""]
    if table.differences:
        differences = {
            f"{row.model:<{names}}  {row.condition} − {row.baseline}": row.scores for row in table.differences
        }
        lines += ["Paired differences between conditions, on the same items", "", *_parts(differences, width), ""]
    elif table.released:
        lines += ["Conditions are not compared: in the released form they differ in more than one factor.", ""]
    by_domain = render_domains(table.domains, [row_label(row) for row in table.rows], width)
    return [*lines, "By domain, on the same items", "", by_domain, ""]


def to_json(report: BenchReport) -> dict[str, Any]:
    """Return the report as JSON values: `tables`, `published`, `notes` and `unreadable`."""
    return {
        "tables": [
            {
                "task": table.task,
                "form": "released" if table.released else "paired",
                "split": table.split,
                "items": table.items,
                "of": table.of,
                "authors": table.authors,
                "data_digests": dict(table.rows[0].run.digests),
                "rows": [
                    {
                        "model": row.model,
                        "condition": row.run.condition,
                        "answers": "written" if row.run.written else "log-likelihoods",
                        "settings": dict(row.run.settings),
                        "results": str(row.run.path),
                        "unparsed": _unparsed(row.run),
                        "failed": row.run.failed,
                        "scores": _json_scores(row.scores),
                    }
                    for row in table.rows
                ],
                "floors": {name: _json_scores(scores) for name, scores in table.floors.items()},
                "floors_from": table.floors_from,
                "differences": [{**row._asdict(), "scores": _json_scores(row.scores)} for row in table.differences],
                "domains": domains_json(table.domains),
            }
            for table in report.tables
        ],
        "published": {
            "source": SOURCE,
            "models": list(MODELS),
            "metrics": {name: [list(pair) for pair in row] for name, row in PUBLISHED.items()},
            "reached_by_floors": [cell._asdict() for cell in beaten_cells(_published_floors(report))],
        },
        "notes": list(report.notes),
        "unreadable": [error.message for error in report.unreadable],
    }


def _floors(run: Run, notes: list[str]) -> tuple[Mapping[str, Sequence[metrics.ScoredItem]], str]:
    """Return what the floors answer, and say where they come from; nothing where the dataset folder is gone."""
    if run.released:  # there is no train split: medians are those of the items
        return floor_answers(run.task, run.docs, [doc["truth"] for doc in run.docs]), "on the same items"
    if not has_data(run):
        notes.append(f"{run.path}: no PERSONA-Bench folder {run.data}; floors are those that the results hold")
        return {}, "on the same items, as the results hold them"
    if run.task == "next_text":
        return floor_answers(run.task, run.docs, []), "on the same items"
    path = run.data / items_path(run.task, "train")
    train = [row[TRUTH[run.task]] for row in iter_rows(path, ITEM_SCHEMA, [TRUTH[run.task]])]
    origin = f"on the same items, what they know from {path}; the parent's final score is shown to no model"
    return floor_answers(run.task, run.docs, train), origin


# ---- tables


def _table(runs: list[Run], notes: list[str]) -> BenchTable:
    labels = _labels(runs)
    rows = [ModelScores(labels[run.model, run.settings], run, metrics.summarise(run.task, run.answers)) for run in runs]
    rows.sort(key=lambda row: (row.model, *_order(row.run)))
    first = rows[0].run
    known, origin = _floors(first, notes)
    pairs = [] if first.released else list(_compared(rows))
    return BenchTable(
        task=first.task,
        released=first.released,
        split=first.split,
        items=len(first.answers),
        of=first.of,
        authors=len({answer.author for answer in first.answers}),
        rows=rows,
        floors={rule: metrics.summarise(first.task, answers) for rule, answers in known.items()}
        or first.recorded_floors,
        floors_from=origin,
        differences=[_difference(rows[one], rows[other]) for one, other in pairs],
        domains=score_domains(first.task, first.docs, [row.run.answers for row in rows], pairs, known),
    )


def _order(run: Run) -> tuple[bool, int]:
    return run.written, CONDITIONS.index(run.condition)


def _labels(runs: Sequence[Run]) -> dict[tuple[str, Settings], str]:
    """Name the models of a table; those of one name are told apart by the settings in which they differ."""
    labels = {}
    for run in runs:
        namesakes = {other.settings for other in runs if other.model == run.model}
        own = [f"{key}={value}" for key, value in run.settings if not all((key, value) in other for other in namesakes)]
        told = f" ({', '.join(own) or 'defaults'})" if len(namesakes) > 1 else ""
        labels[run.model, run.settings] = f"{run.model}{told}"
    return labels


def _compared(rows: Sequence[ModelScores]) -> Iterator[tuple[int, int]]:
    """Yield the places of two rows of one model whose conditions are compared, the baseline second."""
    places = {(row.model, row.run.written, row.run.condition): place for place, row in enumerate(rows)}
    for model, written in dict.fromkeys((row.model, row.run.written) for row in rows):
        for condition, baseline in _COMPARED:
            one, other = places.get((model, written, condition)), places.get((model, written, baseline))
            if one is not None and other is not None:
                yield one, other


def _difference(one: ModelScores, other: ModelScores) -> ConditionDifference:
    scores = metrics.compare_conditions(one.run.task, one.run.answers, other.run.answers)
    return ConditionDifference(one.model, condition_label(one.run), condition_label(other.run), scores)


def condition_label(run: Run) -> str:
    """Name a condition; sentiment has two ways to answer."""
    return f"{run.condition}, written" if run.written and run.task == "sentiment" else run.condition


def _unparsed(run: Run) -> float:
    """Count the answers that could not be read; of several samples, each counts as its share."""
    return sum(answer.values["unparsed"] for answer in run.answers)


def _failures(row: ModelScores) -> str:
    """Say how many items got no answer; as such a run is on other items, it has a table of its own."""
    asked = row.run.failed + len(row.run.answers)
    mark = f"{FLAG} " if row.run.failed > FLAGGED_ABOVE * asked else ""
    where = f"{row.model}, {condition_label(row.run)}"
    return f"{mark}{where}: {row.run.failed} of {asked} items got no answer; they are left out"


def _title(table: BenchTable) -> str:
    form = "released form" if table.released else f"{table.split} split"
    asked = f"{table.items} items" if table.items == table.of else f"a partial run: {table.items} of {table.of} items"
    return f"{table.task}, {form}, {asked} of {table.authors} authors; 95 % intervals clustered by author"


def _parts(rows: Mapping[str, Scores], width: int) -> Iterator[str]:
    """Yield a table in parts that fit the width, each with at least one metric."""
    names = list(dict.fromkeys(name for row in rows.values() for name in row))
    while names:
        count, part = 1, _part(rows, names[:1])
        while count < len(names) and len(max((wider := _part(rows, names[: count + 1])).split("\n"), key=len)) <= width:
            count, part = count + 1, wider
        names = names[count:]
        yield part + ("\n" if names else "")


def _part(rows: Mapping[str, Scores], names: Sequence[str]) -> str:
    return render({label: {name: row[name] for name in names if name in row} for label, row in rows.items()})


def _published_floors(report: BenchReport) -> dict[str, dict[str, float]]:
    """Return the inferred floors, and those on whole sets of released items, which may be the released data."""
    known = {name: dict(scores) for name, scores in INFERRED_FLOORS.items()}
    for table in report.tables:
        if table.released and table.items == table.of:
            for rule, scores in table.floors.items():
                name = f"{rule} on the {table.items} items in {table.rows[0].run.data}"
                known[name] = {metric: estimate.value for metric, estimate in scores.items()}
    return known


def _json_scores(scores: Scores) -> dict[str, Any]:
    return {name: estimate._asdict() for name, estimate in scores.items()}
