"""`personamem inspect`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from personamem_builder.cli.help import Command
from personamem_builder.cli.options import (
    chosen_split,
    dataset_argument,
    dataset_folder,
    next_step,
    note,
    split_option,
)


@click.command(
    cls=Command,
    examples=[
        "personamem inspect personamem --split 32k",
        "personamem inspect personamem --split 32k --question QUESTION_ID",
    ],
)
@dataset_argument
@split_option
@click.option(
    "--question",
    "question_id",
    metavar="ID",
    help="Id of the question, or at least its first 6 characters.",
)
@click.option("--full", is_flag=True, help="Show all messages in full, not only those with evidence.")
@click.option(
    "--format",
    "format_",
    type=click.Choice(["string", "api_dict"]),
    help="Print the history alone: `role: content` lines, or a JSON list of {role, content}.",
)
def inspect(folder: Path | None, split: str | None, question_id: str | None, full: bool, format_: str | None) -> None:
    """Show a question of a dataset FOLDER with its options, and its evidence marked in the history.

    Without --question, list the first 20 questions of the split. FOLDER is by default PERSONAMEM_DATA, then
    ./personamem.
    """
    from personamem_builder import inspection

    if format_ is not None and question_id is None:
        raise click.UsageError("--format needs --question")
    if format_ is not None and full:
        raise click.UsageError("--format and --full cannot be used together")
    folder = dataset_folder(folder)
    split = chosen_split(folder, split)
    if question_id is None:
        rows, count = inspection.question_list(folder, split)
        _list(rows, count, f"personamem inspect {folder} --split {split} --question")
        return
    inspected = inspection.inspect_question(folder, split, question_id)
    if format_ == "string":
        click.echo(inspection.history_string(inspected.history))
    elif format_ == "api_dict":
        click.echo(inspection.history_api_dict(inspected.history))
    else:
        from rich.console import Console

        inspection.show(inspection.question_lines(inspected, full=full), Console())


def _list(rows: Sequence[tuple[str, ...]], count: int, following: str) -> None:
    from personamem_builder.text_table import terminal_width, text_table

    head = ("question", "type", "topic", "sessions\nback", "tokens\nback", "of the\ncontext")
    if rows:
        click.echo(text_table([head, *rows], "lllr", width=terminal_width()))
        if len(rows) < count:
            note(f"the first {len(rows)} of {count:,} questions")
        next_step(f"{following} {rows[0][0]}")
