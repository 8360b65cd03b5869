"""`personamem download`."""

from __future__ import annotations

from pathlib import Path

import click

from personamem_builder.cli.help import Command
from personamem_builder.cli.options import PATH, next_step, splits_option


@click.command(cls=Command, examples=["personamem download ORG/NAME --revision v1.0.0 --out personamem"])
@click.argument("repo_id")
@click.option("--revision", help="A tag such as v1.0.0, a branch or a commit. [default: main]")
@splits_option("all")
@click.option("--out", type=PATH, help="The dataset folder to write. [default: leave it in the Hub's cache]")
def download(repo_id: str, revision: str | None, splits: tuple[str, ...], out: Path | None) -> None:
    """Download the dataset REPO_ID (ORG/NAME) from the Hub, verify each file by its sha256, and print the folder.

    Files that are in the cache already are not fetched again.
    """
    from personamem_builder.build.copy_dataset import copy_dataset
    from personamem_builder.dataset.folder import changed_files
    from personamem_builder.dataset.locate import hub_source
    from personamem_builder.manifest import read_manifest

    repo_id, _, pinned = repo_id.partition("@")
    source = hub_source(repo_id, pinned or revision, splits)
    folder = source.folder if out is None else copy_dataset(source.folder, out, splits)
    manifest = read_manifest(folder)
    missing = set(changed_files(folder))
    here = [name for name in manifest["files"] if name not in missing]
    click.echo(folder)
    commit = source.hub.commit if source.hub else ""
    click.echo(f"{source.origin}: version {manifest['version']}, commit {commit}", err=True)
    click.echo(f"{len(here)} data files, each with the sha256 that the manifest says", err=True)
    click.echo(f"content digest {source.digest}", err=True)
    split = (*splits, *manifest["splits"])[0]
    next_step(f'personamem eval --tasks personamem_{split} --metadata \'{{"data": "{folder}"}}\' …')
