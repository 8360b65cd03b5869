"""`personamem publish-space`."""

from __future__ import annotations

from pathlib import Path

import click

from generation.errors import UserError
from personamem_builder.cli.help import Command
from personamem_builder.cli.options import PATH


@click.command(
    cls=Command,
    examples=[
        "personamem publish-space leaderboard ORG/NAME --dry-run",
        "personamem publish-space leaderboard ORG/NAME",
    ],
)
@click.argument("folder", type=PATH)
@click.argument("repo_id")
@click.option("--private", is_flag=True, help="Make a new Space private.")
@click.option("--dry-run", is_flag=True, help="Show what would be done; change nothing on the Hub.")
def publish_space(folder: Path, repo_id: str, private: bool, dry_run: bool) -> None:
    """Publish the FOLDER that `personamem space` wrote as the Space REPO_ID (ORG/NAME) on the Hub.

    What differs is pushed as one commit, read back and compared. Rerun the command to finish an interrupted push. A
    folder that was changed since it was written, or that holds a token or key, is refused.

    Log in with `hf auth login`, or set HF_TOKEN.
    """
    from huggingface_hub import constants

    from personamem_builder.publish.plan import describe, make_plan
    from personamem_builder.publish.push import push
    from personamem_builder.publish.secrets import find_secrets
    from personamem_builder.space.write import read_space

    files = read_space(folder)
    if secrets := find_secrets(files):
        raise UserError(
            f"{folder} cannot be published: {'; '.join(f'a secret: {line}' for line in secrets)}",
            "take it out of the results or the dataset, and make the Space again",
        )
    plan = make_plan(repo_id, files, private=private, repo_type="space")
    click.echo(describe(plan))
    if dry_run:
        click.echo("nothing was changed (--dry-run)", err=True)
        return
    pushed = push(plan, files)
    if pushed.done:
        click.echo(f"{repo_id}: commit {pushed.commit}, read back, all {len(files)} files are the same")
    else:
        click.echo(f"{repo_id} holds exactly this already: nothing to do")
    click.echo(f"{constants.ENDPOINT}/spaces/{repo_id}")
