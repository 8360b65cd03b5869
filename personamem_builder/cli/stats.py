"""`personamem stats`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from personamem_builder.cli.options import PATH, json_option, splits_option


@click.command()
@click.argument("data", type=PATH)
@splits_option("all")
@click.option("--plots", type=PATH, help="Also draw a picture of each split into this folder, as SVG and PNG.")
@json_option("Print the figures as JSON.")
def stats(data: Path, splits: tuple[str, ...], plots: Path | None, as_json: bool) -> None:
    """Say what a benchmark consists of: DATA is a dataset folder, a folder of release files, a questions CSV, or a run.

    Questions by type, topic, sessions since the reference, updates and telling; tokens since the reference and of
    contexts; the share of fillers. What the questions do not say is left out.

    personamem stats personamem --split 32k

    personamem stats downloads/PersonaMem --plots figures
    """
    from personamem_builder.audit.inputs import read_splits
    from personamem_builder.describe import describe_split, draw_figures, figures_text

    found = read_splits(data, splits)
    figures = [describe_split(split) for split in found]
    click.echo(json.dumps([one.as_json() for one in figures]) if as_json else figures_text(figures))
    if plots is not None:
        for path in draw_figures(found, plots):
            click.echo(f"wrote {path}", err=True)
