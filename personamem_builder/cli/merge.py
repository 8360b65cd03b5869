"""`personamem merge`."""

from __future__ import annotations

from pathlib import Path

import click

from generation.errors import UserError
from personamem_builder.cli.help import Command
from personamem_builder.cli.options import PATH, next_step, note


@click.command(cls=Command, examples=["personamem merge results --out results/whole"])
@click.argument("results", nargs=-1, required=True, type=PATH)
@click.option("--out", type=PATH, default="results/whole", show_default=True, help="The folder for the merged results.")
def merge(results: tuple[Path, ...], out: Path) -> None:
    """Merge the parts of an evaluation that `personamem eval --shard` divided.

    RESULTS are the results files of the parts, or folders that hold them. The merged results and predictions are those
    that a single process would have written.
    """
    from generation.resources import install_hint

    try:
        from personamem_builder.evaluation.merge import merge_parts
    except ModuleNotFoundError as error:
        raise UserError(f"lm-eval is not installed ({error})", install_hint("eval")) from error

    merged = merge_parts(results, out)
    for line in merged.notes:
        note(line)
    for path in merged.written:
        click.echo(f"wrote {path}", err=True)
    next_step(f"personamem report {merged.written[0].parent}")
    if merged.failed:
        number = sum(merged.failed.values())
        parts = ", ".join(map(str, merged.failed))
        raise UserError(
            f"{number} of {merged.questions} questions got no answer and count towards no score: part {parts}",
            "run the commands of these parts again, which ask only such questions, then merge again",
        )
