"""`personamem eval`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import click

from personamem_builder.cli.options import next_step

_PART: Final = re.compile(r"part-\d+-of-\d+")


@click.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def evaluate(arguments: tuple[str, ...]) -> None:
    """Run lm-eval with the personamem tasks and models: ARGUMENTS are lm-eval's own, and --shard."""
    from personamem_builder.evaluation.run import Unanswered, run_lm_eval

    if not arguments or arguments[0] in ("-h", "--help"):
        click.echo(
            "personamem eval takes the arguments of lm-eval's command line, and one of its own:\n\n"
            "  --shard I/N  Ask one part of the questions, such as 3/8: whole contexts, about as many tokens in\n"
            "               each part. `personamem merge` makes the whole run of the parts.\n\n"
            "lm-eval says of itself:\n"
        )
    unanswered: Unanswered | None = None
    try:
        written = run_lm_eval(arguments)
    except Unanswered as error:
        unanswered, written = error, error.written
    for path in written:
        click.echo(f"wrote {path}", err=True)
        next_step(_next(path.parent))
    if unanswered:
        raise unanswered


def _next(folder: Path) -> str:
    """Return what may be done with results in a folder: those of a part lie in the folder of the part."""
    part = next((one for one in (folder, *folder.parents) if _PART.fullmatch(one.name)), None)
    return f"personamem report {folder}" if part is None else f"personamem merge {part.parent}"
