"""`personamem view`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from personamem_builder.cli.help import Command
from personamem_builder.cli.options import PATH, dataset_argument, dataset_folder, note, splits_option

if TYPE_CHECKING:
    from personamem_builder.view.site import Site


@click.command(
    cls=Command,
    examples=[
        "personamem view personamem --split 32k --results results",
        "personamem view personamem --split 32k --out page",
    ],
)
@dataset_argument
@splits_option("all of the dataset")
@click.option(
    "--results",
    multiple=True,
    type=PATH,
    help="Results of `personamem eval`, files or folders (repeatable): shows the answers beside the options.",
)
@click.option("--port", default=0, type=click.IntRange(0, 65535), help="The port. [default: a free one]")
@click.option("--no-open", is_flag=True, help="Do not open the browser.")
@click.option("--out", type=PATH, help="Write the page to this folder instead of serving it.")
def view(
    folder: Path | None, splits: tuple[str, ...], results: tuple[Path, ...], port: int, no_open: bool, out: Path | None
) -> None:
    """Read a dataset FOLDER in the browser: histories as chats, with their evidence and questions marked.

    The page is served on 127.0.0.1, to this computer only, until Ctrl-C. With --out it is written as files that need no
    server: open index.html in the folder. FOLDER is by default PERSONAMEM_DATA, then ./personamem.
    """
    from personamem_builder.cli import print_error
    from personamem_builder.results.files import left_out
    from personamem_builder.results.runs import read_runs
    from personamem_builder.view.site import Site
    from personamem_builder.view.write import write_site

    folder = dataset_folder(folder)
    reading = read_runs(results) if results else None
    for text in reading.notes if reading else ():
        note(text)
    site = Site(folder, splits, reading.runs if reading else ())
    if reading and len(site.answers) < len(reading.runs):
        note(f"left out {len(reading.runs) - len(site.answers)} runs on splits that are not shown")
    unreadable = left_out(reading.unreadable) if reading and reading.unreadable else None
    if out is None:
        if unreadable:  # before it serves, which may last
            print_error(unreadable)
        _serve(site, port, not no_open)
        return
    written = write_site(site, out)
    click.echo(out / "index.html")
    click.echo(f"{written.files} files, {written.size / 1e6:.1f} MB; next: open {out / 'index.html'}", err=True)
    if unreadable:
        raise unreadable


def _serve(site: Site, port: int, is_opened: bool) -> None:
    import threading
    import webbrowser

    from personamem_builder.view.server import address, make_server

    with make_server(site, port) as server:
        url = address(server)
        click.echo(url)
        click.echo("serving to this computer only; Ctrl-C ends it", err=True)
        if is_opened:
            # A browser in the terminal would block until it is closed.
            threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            click.echo("\nended", err=True)
