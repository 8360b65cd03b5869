"""`personamem stats`."""

from __future__ import annotations

from pathlib import Path

import click

from generation.errors import UserError
from personamem_builder.cli.help import Command
from personamem_builder.cli.options import PATH, json_option, print_json, splits_option


@click.command(
    cls=Command,
    examples=[
        "personamem stats personamem --split 32k",
        "personamem stats downloads/PersonaMem --html stats.html",
    ],
)
@click.argument("data", type=PATH)
@splits_option("all")
@click.option("--html", type=PATH, metavar="FILE", help="Also write a page with all tables and pictures.")
@click.option("--plots", type=PATH, metavar="DIR", help="Also write a picture of each split, as SVG and PNG.")
@json_option("Print the figures as JSON.")
def stats(data: Path, splits: tuple[str, ...], html: Path | None, plots: Path | None, as_json: bool) -> None:
    """Describe a benchmark in tables and pictures.

    DATA is a dataset folder, a run, a folder of release files, or a CSV of questions.

    Counts questions by type, topic, distance to the evidence, updates and telling, as far as the data say; shows how
    long contexts are, and how much of them is filler.
    """
    from personamem_builder.audit.inputs import read_splits
    from personamem_builder.stats.figures import describe_split
    from personamem_builder.stats.tables import figures_text
    from personamem_builder.stats.write import write_page, write_pictures
    from personamem_builder.text_table import terminal_width

    found = read_splits(data, splits)
    if lacking := [split.name for split in found if data.is_dir() and split.contexts is None]:
        raise UserError(
            f"{data} has no shared contexts of {', '.join(lacking)}",
            f"put them beside its questions, or give the questions alone: personamem stats {data}/questions_….csv",
        )
    figures = [describe_split(split.name, split.rows) for split in found]
    if as_json:
        print_json([one.as_json() for one in figures])
    else:
        click.echo(figures_text(figures, terminal_width()))
    if html is not None:
        write_page(figures, data.resolve().name, html)
        click.echo(f"wrote {html}: open it in a browser", err=True)
    if plots is not None:
        for path in write_pictures(figures, plots):
            click.echo(f"wrote {path}", err=True)
