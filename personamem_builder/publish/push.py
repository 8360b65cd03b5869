"""Pushes a release, or a Space, to the Hub: one commit, read back, and then the tag if there is one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from generation.errors import UserError
from personamem_builder.hub.repository import LOG_IN, FileDigests, Repository, file_digests
from personamem_builder.hub.retries import patiently, status_of
from personamem_builder.publish.explain import explained
from personamem_builder.publish.plan import PushPlan, digests_of

if TYPE_CHECKING:
    from personamem_builder.publish.release import ReleaseFiles


class PushResult(NamedTuple):
    """The commit that has the files, and the tag; nothing was done if they were there before."""

    commit: str
    tag: str
    done: bool


def push(plan: PushPlan, files: ReleaseFiles) -> PushResult:
    """Carry out a plan: one commit, which is read back and compared, and then gets the tag if there is one.

    A push that was interrupted is finished by making the plan again and pushing again.

    Raises:
        UserError: A file or the branch changed since the plan was made, a file on the Hub is not what was sent (all
            such files are named, and no tag is made), or the Hub refuses.
    """
    if plan.tagged:
        return PushResult(plan.tagged, plan.tag, done=False)
    release = digests_of(files)
    for kind, path, _, sha256 in plan.changes:
        if kind == "add" and release[path].sha256 != sha256:
            raise UserError(f"{path} changed while it was published", "rerun the command")
    with explained(plan.repo_id, plan.repo_type):
        repository = Repository(plan.repo_id, plan.repo_type)
        api = repository.api
        if api.token is None:
            raise UserError(f"nothing can be published on {api.endpoint} without a token", LOG_IN)
        # A private repository where asked for, else what is usual in the organisation.
        if plan.create:
            sdk = "static" if plan.repo_type == "space" else None
            patiently(
                api.create_repo,
                plan.repo_id,
                repo_type=plan.repo_type,
                private=plan.private or None,
                space_sdk=sdk,
            )
        if plan.new_branch:
            patiently(
                api.create_branch, plan.repo_id, repo_type=plan.repo_type, branch=plan.branch, revision=plan.parent
            )
        commit = _commit(repository, plan, files) if plan.changes or plan.parent is None else plan.parent
        _check_on_hub(repository, commit, release, plan.tag)
        if plan.tag:
            _tag(repository, plan, commit)
    return PushResult(commit, plan.tag, done=bool(plan.tag or plan.changes))


def _commit(repository: Repository, plan: PushPlan, files: ReleaseFiles) -> str:
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    def source(content: Path | bytes) -> str | bytes:
        # The client takes a `~` at the beginning for the home folder.
        return str(content.absolute()) if isinstance(content, Path) else content

    operations = [
        CommitOperationAdd(change.path, source(files[change.path]))
        if change.kind == "add"
        else CommitOperationDelete(change.path, is_folder=False)
        for change in plan.changes
    ]
    commit = patiently(
        repository.api.create_commit,
        plan.repo_id,
        operations,
        commit_message=f"Release {plan.tag}" if plan.tag else "Update the leaderboard",
        repo_type=plan.repo_type,
        revision=plan.branch,
        parent_commit=plan.parent,
    )
    return commit.oid


def _check_on_hub(repository: Repository, commit: str, release: Mapping[str, FileDigests], tag: str) -> None:
    """Read every file of the release back, and raise if one is not what was sent."""
    there = repository.tree(commit)
    faults = [f"{path} is not there" for path in release if path not in there]
    for path in (path for path in release if path in there):
        with repository.downloaded(commit, path) as file:
            found = file_digests(file)
        if found != release[path]:
            faults.append(f"{path} has sha256 {found.sha256} and not {release[path].sha256}")
    if faults:
        raise UserError(
            f"{repository.repo_type} {repository.repo_id} at commit {commit} is not what was sent"
            f"{', and gets no tag' if tag else ''}: {'; '.join(faults)}",
            "rerun the command; if it fails again, report it to the Hub",
        )


def _tag(repository: Repository, plan: PushPlan, commit: str) -> None:
    from huggingface_hub.errors import HfHubHTTPError

    try:
        patiently(repository.api.create_tag, plan.repo_id, repo_type=plan.repo_type, tag=plan.tag, revision=commit)
    except HfHubHTTPError as error:
        # Made by the request whose answer was lost, or by somebody else.
        if status_of(error) != 409 or repository.commit_of(plan.tag) != commit:
            raise
