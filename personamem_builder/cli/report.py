"""`personamem report`: tables of what models and floors score."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from personamem_builder.report.table import Table

_PIPED_WIDTH = 120


@click.command(
    short_help="Show what models and floors score, with intervals.",
    epilog="Example: personamem report results/ --markdown > report.md",
)
@click.argument("results", nargs=-1, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON; `personamem_builder.report.render` defines it.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print tables in GitHub Markdown.")
def report(results: tuple[Path, ...], as_json: bool, as_markdown: bool) -> None:
    """Show what models and floors score.

    RESULTS are results_<date>.json files of `personamem eval` (or of `lm_eval --log_samples`), or folders
    that hold some; by default the folder `results`.

    A table has a row for each model, floor and score, with 95 % intervals clustered by persona. A model that
    also ran without context gets its context gain, paired question by question.
    """
    import json
    import shutil

    from personamem_builder.report.render import to_json, to_markdown, to_text
    from personamem_builder.report.runs import read_runs
    from personamem_builder.report.table import build_tables

    if as_json and as_markdown:
        raise click.UsageError("--json and --markdown exclude each other")
    reading = read_runs(results or (Path("results"),))
    for note in reading.notes:
        click.echo(f"note: {note}", err=True)
    tables = build_tables(reading.runs)
    if as_json:
        click.echo(json.dumps(to_json(tables), indent=2, ensure_ascii=False))
    elif as_markdown:
        click.echo(to_markdown(tables))
    else:
        click.echo(to_text(tables, shutil.get_terminal_size((_PIPED_WIDTH, 24)).columns))
    if step := _next_step(tables):
        click.echo(step, err=True)


def _next_step(tables: Sequence[Table]) -> str | None:
    """Name the run that the tables lack most: the floors, or a model without its context."""
    from personamem_builder.report.runs import FULL

    tables = [table for table in tables if table.history == FULL]
    for table in tables:
        if not any(row.is_floor and row.score for row in table.rows):
            floor = "--model personamem-floor --model_args policy=longest"
            return f"next: personamem eval --tasks {table.task} {floor}  (what a shortcut scores)"
    for table in tables:
        models = [row for row in table.rows if not row.is_floor and row.has_context]
        if lone := [row.model for row in models if row.paired_difference is None]:
            task = f"{table.task}_nocontext"
            return f"next: personamem eval --tasks {task} …  (with the arguments of {lone[0]}: its context gain)"
    return None
