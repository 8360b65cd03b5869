"""`personamem annotate`: a sample of questions for people to rate, or of wrong answers to label."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from generation.errors import UserError
from personamem_builder.cli.help import Command
from personamem_builder.cli.options import (
    PATH,
    chosen_split,
    dataset_argument,
    dataset_folder,
    next_step,
    note,
    split_option,
)

if TYPE_CHECKING:
    from personamem_builder.annotation.errors import WrongAnswer
    from personamem_builder.annotation.judge import Judgement
    from personamem_builder.results.runs import Run

_QUESTIONS, _ERRORS = 90, 100  # as many as in the paper's studies


@click.command(
    cls=Command,
    examples=[
        "personamem annotate personamem --sample 90 --per-topic 5 --out study",
        "personamem annotate personamem --errors results --model MODEL --out errors.csv",
    ],
)
@dataset_argument
@split_option
@click.option(
    "--sample",
    "size",
    type=click.IntRange(min=1),
    help=f"How many to draw. [default: {_QUESTIONS}; with --errors {_ERRORS}]",
)
@click.option("--per-topic", type=click.IntRange(min=1), help="Draw at most this many from a topic.")
@click.option("--per-type", type=click.IntRange(min=1), help="Draw at most this many of a question type.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the draw.")
@click.option("--out", type=PATH, required=True, help="The folder to write; with --errors, the CSV file.")
@click.option(
    "--errors",
    "results",
    multiple=True,
    type=PATH,
    metavar="RESULTS",
    help="Draw wrong answers from results of `personamem eval`, files or folders (repeatable).",
)
@click.option("--model", metavar="NAME", help="With --errors: the model. [default: the only one]")
@click.option("--task", metavar="NAME", help="With --errors: the task. [default: the only one]")
@click.option(
    "--judge", metavar="NAME", help="With --errors: have a language model label them: openai:MODEL or hf:PATH."
)
@click.option(
    "--config", type=PATH, help="A configuration whose llm: settings the judge uses. [default: temperature 0]"
)
@click.option(
    "--budget", type=float, help="Stop when the judge has cost this many US dollars; rerun the command to resume."
)
def annotate(
    folder: Path | None,
    split: str | None,
    size: int | None,
    per_topic: int | None,
    per_type: int | None,
    seed: int,
    out: Path,
    results: tuple[Path, ...],
    model: str | None,
    task: str | None,
    judge: str | None,
    config: Path | None,
    budget: float | None,
) -> None:
    """Draw questions of a dataset FOLDER for people to rate, or wrong answers to label.

    The sample is balanced over the seven question types, and then over topics. --out gets sheet.html, a page that works
    offline; key.json, to keep from the raters; items.jsonl; and imports for Label Studio and potato. FOLDER is by
    default PERSONAMEM_DATA, then ./personamem.

    With --errors, draw wrong answers of one model on one task instead. --out is then a CSV file with a column for the
    category of the error, filled in where a reply had no letter. With --judge, a language model fills in the others: it
    reads the whole history before each question. Its replies are kept in OUT.calls: rerun the command to resume, and
    you pay for nothing twice. `personamem report RESULTS --errors OUT` shows the shares.
    """
    given = {"--model": model, "--task": task, "--judge": judge, "--config": config, "--budget": budget}
    needs = {"--config": "--judge", "--budget": "--judge"}
    for name, value in given.items():
        if value is not None and not (judge if needs.get(name) else results):
            raise click.UsageError(f"{name} needs {needs.get(name, '--errors')}")
    folder = dataset_folder(folder)
    limits = _Limits(size or (_ERRORS if results else _QUESTIONS), per_topic, per_type, seed)
    if not results:
        _annotate_questions(folder, chosen_split(folder, split), limits, out)
        return
    if out.exists():
        raise UserError(f"{out} already exists", "give another --out, or move it away: it may be filled in")
    run, drawn = _draw_errors(folder, split, results, (model, task), limits)
    judgement = _judge(judge, config, budget, folder, drawn, out) if judge else None
    _write_errors(run, drawn, judgement, out)
    _tell_how_to_label(folder, results, run, drawn, out)
    if judgement and judgement.unusable:
        reason = next(iter(judgement.unusable.values()))
        raise UserError(
            f"{len(judgement.unusable)} answers have no category, as no usable reply came, such as: {reason}",
            f"fill them in by hand, or move {out} away and rerun the command, which asks only about these",
        )


class _Limits(NamedTuple):
    """How many to draw, of all, of a topic and of a type, and the seed that decides."""

    size: int
    per_topic: int | None
    per_type: int | None
    seed: int


def _annotate_questions(folder: Path, split: str, limits: _Limits, out: Path) -> None:
    from collections import Counter

    from personamem_builder.annotation.items import make_items, read_split
    from personamem_builder.annotation.sample import draw_sample
    from personamem_builder.annotation.write import KEY, write_study
    from personamem_builder.manifest import read_manifest

    size, per_topic, per_type, seed = limits
    rows = draw_sample(read_split(folder, split), size, per_topic=per_topic, per_type=per_type, seed=seed)
    items = make_items(folder, split, rows)
    source = f"{folder.resolve().name} {split}"
    write_study(out, items, source=source, split=split, data_digest=read_manifest(folder)["digest"], seed=seed)
    if len(rows) < size:
        note(f"{len(rows)} of {size} questions: the split, or a limit, allows no more")
    types = Counter(row["question_type"] for row in rows)
    topics = Counter(row["topic"] for row in rows)
    click.echo(
        f"{out}: {len(rows)} questions of {split}; {min(types.values())} to {max(types.values())} of each of "
        f"{len(types)} types, {min(topics.values())} to {max(topics.values())} on each of {len(topics)} topics",
        err=True,
    )
    histories = " and histories/" if any(item.whole for item in items) else ""
    click.echo(
        f"give raters sheet.html{histories}, and keep {KEY}, label_studio.json and potato/ to yourself", err=True
    )
    next_step(f"personamem agreement annotations_*.json --key {out / KEY}")


def _draw_errors(
    folder: Path,
    split: str | None,
    results: Sequence[Path],
    wanted: tuple[str | None, str | None],
    limits: _Limits,
) -> tuple[Run, list[WrongAnswer]]:
    from personamem_builder.annotation.errors import choose_run, draw_errors, run_name, wrong_answers
    from personamem_builder.report.question_columns import find_questions
    from personamem_builder.results.runs import read_runs

    reading = read_runs(results)
    for text in reading.notes:
        note(text)
    for error in reading.unreadable:
        note(f"left out: {error.message}")
    run = choose_run([run for run in reading.runs if split in (None, run.split)], *wanted)
    questions = find_questions([run], str(folder))
    for error in (*questions.damaged, *questions.misfits.values()):
        raise error
    rows = questions.of(run)
    if not rows:
        reason = next(iter(questions.lacking.values()), f"{folder} has no split {run.split}")
        raise UserError(f"{run.path}: {reason}", "name the dataset that was evaluated")
    wrong = wrong_answers(run, rows)
    size, per_topic, per_type, seed = limits
    drawn = draw_errors(wrong, size, per_topic=per_topic, per_type=per_type, seed=seed)
    click.echo(f"{run_name(run)} on {run.task}: {len(wrong)} wrong answers, {len(drawn)} drawn", err=True)
    if run.shown.label or not run.has_context:
        note("the model was not shown the whole history; whoever labels its errors is")
    return run, drawn


def _judge(
    name: str, config: Path | None, budget: float | None, folder: Path, drawn: Sequence[WrongAnswer], out: Path
) -> Judgement:
    from generation.config import LLMConfig, load_config
    from generation.llm.prices import dollars
    from personamem_builder.annotation.judge import Judge

    llm = load_config(config).llm if config is not None else LLMConfig(temperature=0)
    judge = Judge(name, llm, out.with_name(f"{out.name}.calls"), budget)
    asked = [error.row["context_length_in_tokens"] for error in drawn if error.letter]
    click.echo(f"{name} reads {len(asked)} histories of {sum(asked):,} tokens in all", err=True)
    judgement = judge.label(folder, drawn)
    costs = [line.cost for line in judgement.usage]
    cost = "unknown" if None in costs else dollars(sum(cost or 0.0 for cost in costs))
    click.echo(f"cost: {cost}; {sum(line.calls for line in judgement.usage):,} calls", err=True)
    return judgement


def _write_errors(run: Run, drawn: Sequence[WrongAnswer], judgement: Judgement | None, out: Path) -> None:
    from collections import Counter

    from personamem_builder.annotation.errors import label_rows
    from personamem_builder.results.error_labels import write_labels

    rows = label_rows(run, drawn, judgement.labels if judgement else {})
    write_labels(out, rows)
    types = Counter(row["question_type"] for row in rows)
    filled = sum(bool(row["category"]) for row in rows)
    click.echo(
        f"{out}: {len(rows)} wrong answers, {min(types.values())} to {max(types.values())} of each of {len(types)} "
        f"types; {filled} have a category",
        err=True,
    )


def _tell_how_to_label(
    folder: Path, results: Sequence[Path], run: Run, drawn: Sequence[WrongAnswer], out: Path
) -> None:
    from shlex import join

    from personamem_builder.results.error_labels import CATEGORIES

    places = [str(path) for path in results]
    shown = [word for place in places for word in ("--results", place)]
    at = ["--split", str(run.split)]
    width = max(map(len, CATEGORIES))
    lines = [f"  {name:{width}}  {meaning}" for name, meaning in CATEGORIES.items()]
    click.echo("\n".join(["categories, for the column of that name:", *lines]), err=True)
    click.echo("the history of a row, by its question_id, or all of them in a browser:", err=True)
    question = drawn[0].row["question_id"]
    click.echo("  " + join(["personamem", "inspect", str(folder), *at, "--question", question, "--full"]), err=True)
    click.echo("  " + join(["personamem", "view", str(folder), *at, *shown]), err=True)
    next_step(join(["personamem", "report", *places, "--data", str(folder), "--errors", str(out)]))
