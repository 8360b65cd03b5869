"""`personamem report`: what models and floors score, and what it depends on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from generation.errors import UserError
from generation.reading import as_one, clean, clean_text
from personamem_builder.cli.help import Command
from personamem_builder.cli.options import PATH, json_option

if TYPE_CHECKING:
    from personamem_builder.persona_bench.report import BenchReport
    from personamem_builder.report.question_columns import Questions
    from personamem_builder.report.report import Report
    from personamem_builder.report.table import ScoreTable
    from personamem_builder.results.files import ResultsFile
    from personamem_builder.results.runs import Run

_Form = Literal["text", "json", "markdown", "latex"]


@click.command(
    cls=Command,
    examples=[
        "personamem report results",
        "personamem report results --html report.html",
        "personamem report results --compare MODEL-A MODEL-B",
    ],
)
@click.argument("results", nargs=-1, type=PATH)
@json_option()
@click.option("--markdown", "as_markdown", is_flag=True, help="Print tables in GitHub Markdown.")
@click.option("--latex", "as_latex", is_flag=True, help="Print tables in LaTeX, with booktabs.")
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Also write a page with tables and plots.",
)
@click.option(
    "--plots",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Also write each plot, as SVG and PNG.",
)
@click.option(
    "--compare", nargs=2, metavar="A B", help="Compare two models question by question, by name or results folder."
)
@click.option(
    "--data",
    metavar="FOLDER|ORG/NAME",
    help="The dataset that was evaluated. [default: as the results say, else PERSONAMEM_DATA, else ./personamem]",
)
@click.option(
    "--hard",
    type=PATH,
    metavar="FILE",
    help="Also score the questions in a file of `personamem audit --export-hard`.",
)
@click.option(
    "--errors",
    multiple=True,
    type=PATH,
    metavar="FILE",
    help="Also show what went wrong, from a CSV of `personamem annotate --errors`; repeat it to compare raters.",
)
@click.option(
    "--eval-results",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Also write .eval_results/*.yaml, from which the Hub shows scores on model pages.",
)
@click.option(
    "--push",
    metavar="ORG/MODEL",
    help="With --eval-results: open a pull request that adds them to the model on the Hub.",
)
def report(
    results: tuple[Path, ...],
    as_json: bool,
    as_markdown: bool,
    as_latex: bool,
    html: Path | None,
    plots: Path | None,
    compare: tuple[str, str] | None,
    data: str | None,
    hard: Path | None,
    errors: tuple[Path, ...],
    eval_results: Path | None,
    push: str | None,
) -> None:
    """Show what models and floors score, with intervals.

    RESULTS are results_<date>.json files of `personamem eval` or `lm_eval --log_samples`, *.eval logs of Inspect, or
    folders that hold some; by default the folder results.

    Each table has a row for each model, floor and score, with 95 % intervals clustered by user. A model that also ran
    without context gets its context gain, paired question by question. Missing floors are computed where the dataset is
    found. PERSONA-Bench has tables of its own (see `personamem persona-bench report`).

    Unanswered questions count nowhere. A run is marked (!) if more than 5 % of its answers failed, were cut, were
    refused or had no letter. Unreadable results are named at the end, and the exit status is 1.

    --html and --plots also show what scores depend on: question type, distance and place of the evidence, updates,
    topic, what wrong answers assert, confidence, letters. --errors adds a table of error categories, beside the paper's
    shares for GPT-4o.

    --eval-results writes scores on datasets of the Hub, for the Hub to show. Scores that cannot stand beside others,
    such as those of memory systems or of a part of the questions, are left out, with the reason.
    """
    from personamem_builder.report.question_columns import find_questions
    from personamem_builder.results.files import find_results, left_out
    from personamem_builder.results.runs import read_found

    form = _form(as_json, as_markdown, as_latex)
    if push and not eval_results:
        raise click.UsageError("--push needs --eval-results DIR, where what is pushed is written")
    if plots:
        from personamem_builder.drawing.png import check_matplotlib

        check_matplotlib()
    found = find_results(results or [Path("results")])
    bench_files = [file for file in found.files if file.tasks("PERSONA-Bench")]
    bench, unreadable = _read_bench(bench_files)
    own = [file for file in found.files if not file.is_only("PERSONA-Bench")]
    # Without results of PERSONA-Bench it is an error that there are none of personamem.
    reading = read_found(found._replace(files=own), may_be_none=bool(bench_files))
    unreadable += reading.unreadable
    if (
        bench
        and not reading.runs
        and (form in ("markdown", "latex") or any((html, plots, compare, data, hard, errors, eval_results)))
    ):
        raise UserError(
            "results of PERSONA-Bench are reported as text or JSON only",
            "leave out the other options, or draw with: personamem persona-bench report --plots DIR"
            + (f"; {left_out(unreadable).message}" if unreadable else ""),
        )
    for note in reading.notes:
        click.echo(f"note: {note}", err=True)
    questions = find_questions(reading.runs, data) if reading.runs else None
    unreadable += [*questions.damaged, *questions.misfits.values()] if questions else []
    runs = [run for run in reading.runs if questions and run not in questions.misfits]
    if not runs and bench is None:
        raise as_one(unreadable)
    content = _make(runs, questions, hard, compare, reading.notes, unreadable) if questions and runs else None
    if content and errors:
        from personamem_builder.report.error_labels import read_error_report

        content = replace(content, errors=read_error_report(errors, runs))
    for reason in questions.lacking.values() if questions and (html or plots) else ():
        click.echo(f"note: some plots are left out, and floors that are not in the results: {reason}", err=True)
    click.echo(_printed(content, bench, form, unreadable, with_comparisons=bool(compare)))
    if content:
        _write(content, html, plots)
    if eval_results:
        _write_eval_results(runs, eval_results, push)
    if unreadable:
        raise left_out(unreadable)
    if content and (step := _next_step(content.tables)):
        click.echo(step, err=True)


def _form(as_json: bool, as_markdown: bool, as_latex: bool) -> _Form:
    if as_json + as_markdown + as_latex > 1:
        raise click.UsageError("--json, --markdown and --latex cannot be used together")
    return "json" if as_json else "markdown" if as_markdown else "latex" if as_latex else "text"


def _read_bench(files: Sequence[ResultsFile]) -> tuple[BenchReport | None, list[UserError]]:
    """Read the results of PERSONA-Bench, if there are any; what is wrong with them hides no others."""
    from personamem_builder.cli.persona_bench import make_bench_report
    from personamem_builder.persona_bench.runs import read_files

    try:
        reading = read_files(files)
        return (make_bench_report(reading) if reading.runs else None), [*reading.unreadable]
    except UserError as error:
        return None, [error]


def _make(
    runs: Sequence[Run],
    questions: Questions,
    hard: Path | None,
    pair: tuple[str, str] | None,
    notes: Sequence[str],
    unreadable: Sequence[UserError],
) -> Report:
    """Make the report; where a side of a comparison is not there, what could not be read may be it."""
    from personamem_builder.report.report import make_report

    try:
        return make_report(runs, questions, hard=hard, pair=pair, notes=notes)
    except UserError as error:
        raise as_one([error, *unreadable]) from error


def _printed(
    content: Report | None,
    bench: BenchReport | None,
    form: _Form,
    unreadable: Sequence[UserError],
    *,
    with_comparisons: bool,
) -> str:
    import json

    from personamem_builder.cli.persona_bench import bench_text
    from personamem_builder.persona_bench.report import to_json as bench_json
    from personamem_builder.report import error_labels
    from personamem_builder.report.json_form import to_json
    from personamem_builder.report.render import to_latex, to_markdown, to_text
    from personamem_builder.text_table import terminal_width

    if form == "json":
        values = to_json(content, with_comparisons=with_comparisons) if content else {}
        values |= {"persona_bench": bench_json(bench)} if bench else {}
        values |= {"unreadable": [error.message for error in unreadable]} if unreadable else {}
        return json.dumps(clean(values), indent=2, ensure_ascii=False)
    if content and form != "text":
        if bench:
            click.echo("note: results of PERSONA-Bench have text and JSON only, they are left out", err=True)
        write, write_errors = (
            (to_markdown, error_labels.to_markdown) if form == "markdown" else (to_latex, error_labels.to_latex)
        )
        text = write(content.tables, content.comparisons, content.curves, content.settings)
        return clean_text("\n\n".join([text, *([write_errors(content.errors)] if content.errors else [])]))
    width = terminal_width()
    parts = []
    if content:
        parts = [to_text(content.tables, width, content.comparisons, content.curves, content.settings)]
        parts += [error_labels.to_text(content.errors, width)] if content.errors else []
    return clean_text("\n\n".join([*parts, *([bench_text(bench)] if bench else [])]))


def _write(content: Report, html: Path | None, plots: Path | None) -> None:
    from generation.files import replacing

    try:
        if html:
            from personamem_builder.report.page import to_html

            html.parent.mkdir(parents=True, exist_ok=True)
            with replacing(html) as part:
                part.write_text(to_html(content), encoding="utf-8")
            click.echo(f"wrote {html}: open it in a browser", err=True)
        if plots:
            from personamem_builder.report.page import write_plots

            plots.mkdir(parents=True, exist_ok=True)
            click.echo(f"wrote {len(write_plots(content, plots))} plots to {plots}, as SVG and PNG", err=True)
    except OSError as error:
        raise UserError(f"{error.filename}: {error.strerror}", "choose a place that can be written to") from error


def _write_eval_results(runs: Sequence[Run], folder: Path, repo_id: str | None) -> None:
    from personamem_builder.publish.eval_results import model_results, open_pull_request, results_of, write_results

    results, refused = model_results(runs)
    for reason in refused:
        click.echo(f"note: left out of {folder}: {reason}", err=True)
    if not results:
        raise UserError(f"{folder}: no score of a model that the Hub could show", "the notes above say why")
    chosen = results_of(results, repo_id) if repo_id else None
    try:
        written = write_results(results, folder)
    except OSError as error:
        raise UserError(f"{error.filename}: {error.strerror}", "choose a place that can be written to") from error
    for path in written:
        click.echo(f"wrote {path}", err=True)
    if chosen and repo_id:
        click.echo(f"opened {open_pull_request(chosen, repo_id)}", err=True)


def _next_step(tables: Sequence[ScoreTable]) -> str | None:
    """Name the run that the tables lack most: the floors, or a model without its context."""
    from personamem_builder.memory.controls import Full

    tables = [table for table in tables if table.limit is None]
    for table in tables:
        if not any(row.is_floor and row.score for row in table.rows):
            floor = "--model personamem-floor --model_args policy=longest"
            return f"next: personamem eval --tasks {table.task} {floor}  (what a shortcut scores)"
    for table in tables:
        models = [
            row for row in table.rows if not row.is_floor and row.score and row.memory == Full.name and row.has_context
        ]
        if lone := [row.model for row in models if row.paired_difference is None]:
            task = f"{table.task}_nocontext"
            return f"next: personamem eval --tasks {task} …  (with the arguments of {lone[0]}: its context gain)"
    return None
