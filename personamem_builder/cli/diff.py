"""`personamem diff`."""

from __future__ import annotations

import click

from personamem_builder.cli.help import Command
from personamem_builder.cli.options import json_option, print_json


@click.command(cls=Command, examples=["personamem diff ORG/NAME@v1.0.0 personamem"])
@click.argument("old")
@click.argument("new")
@json_option("Print JSON, with every id.")
def diff(old: str, new: str, as_json: bool) -> None:
    """Compare two versions of a dataset, OLD and NEW: folders, or ORG/NAME@REVISION on the Hub.

    Shows what was added, removed and changed, whether scores depend on it, and which number the new version needs.
    """
    from personamem_builder.dataset.locate import resolve_data
    from personamem_builder.publish.compare import changes, compare, next_version, required_bump, to_json

    comparison = compare(resolve_data(old).folder, resolve_data(new).folder)
    if as_json:
        print_json(to_json(comparison))
        return
    bump = required_bump(comparison)
    for line in changes(comparison) or ["the data are equal"]:
        click.echo(line)
    if bump != "none":
        click.echo(f"{bump} change: {comparison.old_version} → {next_version(comparison.old_version, bump)}")
