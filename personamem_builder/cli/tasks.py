"""`personamem tasks`."""

from __future__ import annotations

import click

from generation.resources import data_dir
from personamem_builder.cli.options import next_step


@click.group()
def tasks() -> None:
    """List, show or install the lm-eval task files."""


@tasks.command("list")
@click.argument("data", required=False, metavar="[FOLDER|ORG/NAME]")
def list_(data: str | None) -> None:
    """Say how each split of a dataset is asked for: the task, and the metadata where it needs some.

    Each of them also with _letters, _generate and _nocontext behind the task's name. [default: PERSONAMEM_DATA, else
    ./personamem]
    """
    from personamem_builder.dataset.locate import resolve_data
    from personamem_builder.evaluation.task_names import task_of_split
    from personamem_builder.manifest import read_manifest
    from personamem_builder.text_table import text_table

    source = resolve_data(data, splits=[], contexts=False)
    splits = read_manifest(source.folder)["splits"]
    rows = [(split, f"{entry['questions']:,}", task_of_split(split)) for split, entry in splits.items()]
    click.echo(text_table([("split", "questions", "personamem eval --tasks …"), *rows], "lrl"))


@tasks.command(epilog='Example: lm_eval --include_path "$(personamem tasks path)" --tasks personamem_32k --model …')
def path() -> None:
    """Print the folder of the task files."""
    click.echo(data_dir("lm_eval_tasks"))


@tasks.command()
def install() -> None:
    """Copy the task files into the installed lm_eval, so that its own command line knows them."""
    from personamem_builder.evaluation.install import install_tasks

    click.echo(install_tasks())
    next_step("lm_eval --tasks personamem_32k --model hf --model_args pretrained=MODEL --apply_chat_template")


@tasks.command()
def uninstall() -> None:
    """Remove what install made."""
    from personamem_builder.evaluation.install import uninstall_tasks

    removed = uninstall_tasks()
    click.echo(f"removed {removed}" if removed else "nothing to remove")
