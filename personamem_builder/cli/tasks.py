"""`personamem tasks`."""

from __future__ import annotations

import click

from generation.resources import data_dir
from personamem_builder.cli.help import Group
from personamem_builder.cli.options import next_step


@click.group(cls=Group)
def tasks() -> None:
    """List the lm-eval tasks, or install them: plain `lm_eval` knows them after `personamem tasks install`.

    Run that once in each environment, and again after an update of lm-eval or personamem. `pip install` alone does not
    do it: lm-eval 0.4.13, the newest release, reads no entry points and looks for tasks in its own folder only. Or add
    --include_path "$(personamem tasks path)" to each command.

    `personamem eval` needs none of this. Our models (hf-prefix, personamem-chat, personamem-anthropic, personamem-vllm,
    personamem-floor) work with `personamem eval` only.
    """


@tasks.command(
    "list",
    short_help="List the tasks of a dataset's splits.",
    examples=["personamem tasks list personamem"],
)
@click.argument("data", required=False, metavar="[FOLDER|ORG/NAME]")
def list_(data: str | None) -> None:
    """List the task of each split of a dataset, with the metadata it needs.

    Each task has variants: add _letters, _generate or _nocontext to its name. The dataset is by default
    PERSONAMEM_DATA, then ./personamem.
    """
    from personamem_builder.dataset.locate import resolve_data
    from personamem_builder.evaluation.task_names import task_of_split
    from personamem_builder.manifest import read_manifest
    from personamem_builder.text_table import text_table

    source = resolve_data(data, splits=[], contexts=False)
    splits = read_manifest(source.folder)["splits"]
    rows = [(split, f"{entry['questions']:,}", task_of_split(split)) for split, entry in splits.items()]
    click.echo(text_table([("split", "questions", "personamem eval --tasks …"), *rows], "lrl"))


@tasks.command(
    examples=[
        'lm_eval --include_path "$(personamem tasks path)" --tasks personamem_32k --model hf '
        "--model_args pretrained=MODEL --apply_chat_template"
    ]
)
def path() -> None:
    """Print the folder of the task files."""
    click.echo(data_dir("lm_eval_tasks"))


@tasks.command(short_help="Install the tasks for plain lm_eval.", examples=["personamem tasks install"])
def install() -> None:
    """Copy the task files into the installed lm_eval, whose own command line then knows them."""
    from personamem_builder.evaluation.install import install_tasks

    click.echo(install_tasks())
    next_step("lm_eval --tasks personamem_32k --model hf --model_args pretrained=MODEL --apply_chat_template")


@tasks.command(examples=["personamem tasks uninstall"])
def uninstall() -> None:
    """Remove the installed task files."""
    from personamem_builder.evaluation.install import uninstall_tasks

    removed = uninstall_tasks()
    click.echo(f"removed {removed}" if removed else "nothing to remove")
