"""`personamem init`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from personamem_builder.cli.help import Command
from personamem_builder.cli.options import PATH, next_step

_PATTERNS: Final = ("*.yaml", "eval/*.yaml")
"""The examples that are configurations: of runs, and of evaluations for `personamem eval --config`."""


@click.command(cls=Command, examples=["personamem init", "personamem init configs"])
@click.argument("folder", type=PATH, default=".", metavar="[DIR]")
def init(folder: Path) -> None:
    """Write the example configurations to DIR, by default the current folder.

    tiny.yaml makes a benchmark in seconds, full.yaml one of full size, and written.yaml one for a language model to
    write. The folder eval has a configuration for each kind of model to evaluate. Files that are there already are
    left as they are.
    """
    from generation.errors import UserError
    from generation.files import replacing
    from generation.resources import data_dir

    source = data_dir("examples")
    for example in sorted(path for pattern in _PATTERNS for path in source.glob(pattern)):
        file = folder / example.relative_to(source)
        if file.exists():
            click.echo(f"kept {file}: it already exists")
            continue
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            with replacing(file) as part:
                part.write_bytes(example.read_bytes())
        except OSError as error:
            raise UserError(f"{file} cannot be written: {error.strerror}", "name another folder") from error
        click.echo(f"wrote {file}")
    next_step(f"personamem generate {folder / 'tiny.yaml'} --preview")
