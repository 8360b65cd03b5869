"""`personamem publish`."""

from __future__ import annotations

from pathlib import Path

import click

from personamem_builder.cli.help import Command
from personamem_builder.cli.options import PATH, next_step


@click.command(
    cls=Command,
    examples=[
        "personamem publish personamem ORG/NAME --tag v1.0.0 --dry-run",
        "personamem publish personamem ORG/NAME --tag v1.0.0",
    ],
)
@click.argument("folder", type=PATH)
@click.argument("repo_id")
@click.option("--tag", required=True, help="The version, such as v1.0.0.")
@click.option("--private", is_flag=True, help="Make a new repository private.")
@click.option("--dry-run", is_flag=True, help="Show what would be done; change nothing, here or on the Hub.")
@click.option("--branch", default="main", show_default=True, help="Push to this branch.")
@click.option("--change", "changes", multiple=True, help="A line of your own for the changelog (repeatable).")
@click.option("--superseded-by", default="", help="What to use instead of this version: ORG/NAME@v2.0.0.")
@click.option(
    "--allow-failed-audit", is_flag=True, help="Publish even if the audit failed or is missing; the card says so."
)
def publish(
    folder: Path,
    repo_id: str,
    tag: str,
    private: bool,
    dry_run: bool,
    branch: str,
    changes: tuple[str, ...],
    superseded_by: str,
    allow_failed_audit: bool,
) -> None:
    """Publish a dataset FOLDER as a version of the dataset REPO_ID (ORG/NAME) on the Hub.

    The dataset is pushed as one commit, read back and compared before it gets its tag; tags are never moved. Rerun the
    command to finish an interrupted push. The card, the manifest with its changelog, and croissant.json are written to
    FOLDER too, which then equals what is on the Hub.

    Log in with `hf auth login`, or set HF_TOKEN.
    """
    from personamem_builder.hub.download import download_dataset
    from personamem_builder.publish.plan import current_version, describe, make_plan
    from personamem_builder.publish.push import push
    from personamem_builder.publish.release import ReleaseRequest, prepare_release, write_back

    there = current_version(repo_id, branch)
    previous = download_dataset(repo_id, there[0]) if there else None
    request = ReleaseRequest(repo_id, tag, changes, allow_failed_audit, superseded_by)
    files = prepare_release(folder, request, previous)
    plan = make_plan(repo_id, files, tag, branch=branch, private=private)
    click.echo(describe(plan))
    if dry_run:
        click.echo("nothing was changed (--dry-run)", err=True)
        return
    write_back(folder, files)
    pushed = push(plan, files)
    if pushed.done:
        click.echo(f"{repo_id} {tag}: commit {pushed.commit}, read back, all {len(files)} files are the same")
    else:
        click.echo(f"{repo_id} {tag} holds exactly this already: nothing to do")
    next_step(f"personamem download {repo_id} --revision {tag}")
