"""`personamem persona-bench`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from personamem_builder.persona_bench.records import TASKS


@click.group(name="persona-bench")
def persona_bench() -> None:
    """Import, audit and score PERSONA-Bench: classify, forecast and write in a user's place, on Reddit threads."""


@persona_bench.command(
    "import", epilog="Example: personamem persona-bench import Raw_Data_Postized.json --out persona_bench"
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default="persona_bench",
    show_default=True,
    help="The dataset folder to write.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of the splits and of the other histories.")
def import_(file: Path, out: Path, seed: int) -> None:
    """Turn a FILE of posts into a dataset folder with the items of the three tasks.

    FILE is the raw list of posts, the same grouped by author, or one of the prompt files (JSON lines). All faults are
    found and listed before anything is written.
    """
    from personamem_builder.persona_bench.write import import_file

    manifest = import_file(file, out, seed)
    click.echo(manifest["terms"], err=True)
    counts = manifest["counts"]
    click.echo(f"{out}: {counts['posts']} posts, {counts['messages']} comments, {counts['users']} authors")
    for task, splits in manifest["items"].items():
        click.echo(f"{task}: " + ", ".join(f"{entry['items']} {split}" for split, entry in splits.items()))
    click.echo(f"next: personamem persona-bench audit {out}", err=True)


@persona_bench.command("audit", epilog="Example: personamem persona-bench audit persona_bench")
@click.argument("folder", type=click.Path(path_type=Path))
def audit(folder: Path) -> None:
    """Scan the items of a FOLDER for what they must not show, and probe shortcuts to their labels.

    Ends with exit code 1 if anything leaks.
    """
    from personamem_builder.persona_bench.audit import audit_folder, render

    found = audit_folder(folder)
    click.echo(render(found))
    if found.leaks:
        sys.exit(1)
    click.echo(f"next: personamem eval --tasks persona_bench --metadata data={folder}", err=True)


@persona_bench.command("evaluate-log", epilog="Example: personamem persona-bench evaluate-log log.jsonl --task impact")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--task", type=click.Choice(TASKS), required=True, help="What the log answers.")
def evaluate_log(file: Path, task: str) -> None:
    """Score a FILE of logged outputs, by the rules of the source's log evaluator and by ours."""
    from personamem_builder.persona_bench.log import evaluate_log, render_log

    click.echo(render_log(evaluate_log(file, task)))
