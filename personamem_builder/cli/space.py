"""`personamem space`."""

from __future__ import annotations

import re
from pathlib import Path

import click

from generation.errors import UserError
from personamem_builder.cli.help import Command
from personamem_builder.cli.options import PATH, next_step, note

_DATASET = re.compile(r"[\w.-]+/[\w.-]+(@[\w./-]+)?")
_ADDRESS = re.compile(r"https?://[^\s\"'<>]+")


@click.command(
    cls=Command,
    examples=["personamem space --out leaderboard --results results --data personamem"],
)
@click.option("--out", type=PATH, required=True, help="The folder to write.")
@click.option(
    "--results",
    multiple=True,
    type=PATH,
    help="Results of `personamem eval`, files or folders (repeatable). [default: results]",
)
@click.option(
    "--data",
    metavar="FOLDER|ORG/NAME",
    help="The dataset that was evaluated. [default: PERSONAMEM_DATA, else ./personamem]",
)
@click.option("--title", default="PersonaMem leaderboard", show_default=True, help="Title of the Space.")
@click.option(
    "--dataset", metavar="ORG/NAME", help="The dataset to link to on the Hub. [default: where it was published]"
)
@click.option("--code", metavar="URL", default="", help="Address of your code, to link to.")
@click.option(
    "--contexts",
    type=click.IntRange(min=0),
    default=3,
    show_default=True,
    help="Histories of each split to show in the viewer; 0 for no viewer.",
)
def space(
    out: Path, results: tuple[Path, ...], data: str | None, title: str, dataset: str | None, code: str, contexts: int
) -> None:
    """Write a leaderboard as a static website: tables, viewer and audit.

    All models in a table answered all questions of its split. Models whose difference may be chance share a group;
    floors, intervals and all paired differences stand beside them. Partial runs, runs with failed questions and tainted
    memories are listed apart, with the reason. Memory systems have their own tables.

    The folder opens from disk, on any web server, and as a Space of the Hub. It holds at most 30 MB.
    """
    from personamem_builder.dataset.locate import resolve_data
    from personamem_builder.manifest import read_manifest
    from personamem_builder.results.files import left_out
    from personamem_builder.results.runs import read_runs
    from personamem_builder.space.write import SpaceRequest, write_space

    if dataset and not _DATASET.fullmatch(dataset):
        raise UserError(f"--dataset {dataset}: that is not a dataset on the Hub", "give ORG/NAME, or ORG/NAME@v1.0.0")
    if code and not _ADDRESS.fullmatch(code):
        raise UserError(f"--code {code}: that is not an address", "give one that begins with https://")
    if not title.strip() or not title.isprintable():
        raise UserError("--title must be one line of text", "leave it out, or give one")
    reading = read_runs(results or [Path("results")])
    if reading.unreadable:  # nobody would see later that a model is missing
        raise left_out(reading.unreadable)
    for text in reading.notes:
        note(text)
    source = resolve_data(data)
    if dataset is None:
        manifest = read_manifest(source.folder)
        repo_id = source.hub.repo_id if source.hub else manifest.get("repo_id", "")
        dataset = f"{repo_id}@v{manifest['version']}" if repo_id else ""
    written = write_space(out, source.folder, reading.runs, SpaceRequest(title.strip(), dataset, code, contexts))
    click.echo(out / "index.html")
    click.echo(
        f"{written.files} files, {written.size / 1e6:.1f} MB, of which the viewer {written.viewer / 1e6:.1f} MB; "
        f"first page {written.first_page / 1e3:.0f} kB",
        err=True,
    )
    next_step(f"personamem publish-space {out} ORG/NAME --dry-run")
