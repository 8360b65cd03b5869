"""`personamem download`."""

from __future__ import annotations

from pathlib import Path

import click

from personamem_builder.cli.options import PATH, next_step, splits_option


@click.command()
@click.argument("repo_id")
@click.option("--revision", help="A tag such as v1.0.0, a branch or a commit. [default: main]")
@splits_option("all", "PERSONAMEM_DOWNLOAD_SPLIT")
@click.option("--out", type=PATH, help="Folder to make. [default: leave it in the Hub's cache]")
def download(repo_id: str, revision: str | None, splits: tuple[str, ...], out: Path | None) -> None:
    """Download the dataset REPO_ID (ORG/NAME) from the Hub, and verify each file by its sha256.

    Prints the folder. What is in the cache already is not fetched again.

    personamem download ORG/NAME --revision v1.0.0 --out personamem
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
