"""`personamem tasks`."""

from __future__ import annotations

import click

from generation.resources import data_dir
from personamem_builder.cli.options import next_step


@click.group()
def tasks() -> None:
    """Show or install the lm-eval task files."""


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
