"""`personamem stats`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from generation.errors import UserError
from personamem_builder.cli.options import PATH, json_option, splits_option


@click.command()
@click.argument("data", type=PATH)
@splits_option("all")
@click.option("--html", type=PATH, metavar="FILE", help="Also write a page with all tables and pictures.")
@click.option("--plots", type=PATH, metavar="DIR", help="Also write a picture of each split, as SVG and PNG.")
@json_option("Print the figures as JSON.")
def stats(data: Path, splits: tuple[str, ...], html: Path | None, plots: Path | None, as_json: bool) -> None:
    """Say what a benchmark consists of: DATA is a dataset folder, a folder of release files, a questions CSV, or a run.

    Questions by type, topic, sessions and tokens since the reference, updates and telling; the lengths of contexts, and
    the share of fillers in them. What the questions do not say is left out.

    personamem stats personamem --split 32k

    personamem stats downloads/PersonaMem --html stats.html
    """
    from personamem_builder.audit.inputs import read_splits
    from personamem_builder.stats.figures import describe_split
    from personamem_builder.stats.tables import figures_text
    from personamem_builder.stats.write import write_page, write_pictures

    found = read_splits(data, splits)
    if lacking := [split.name for split in found if data.is_dir() and split.contexts is None]:
        raise UserError(
            f"{data} has no shared contexts of {', '.join(lacking)}",
            f"put them beside its questions, or give the questions alone: personamem stats {data}/questions_….csv",
        )
    figures = [describe_split(split.name, split.rows) for split in found]
    click.echo(json.dumps([one.as_json() for one in figures]) if as_json else figures_text(figures))
    if html is not None:
        write_page(figures, data.resolve().name, html)
        click.echo(f"wrote {html}: open it in a browser", err=True)
    if plots is not None:
        for path in write_pictures(figures, plots):
            click.echo(f"wrote {path}", err=True)
