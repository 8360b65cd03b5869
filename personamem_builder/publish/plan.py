"""What a push would do: a release, or a Space, compared with what the Hub has. Nothing is written."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from generation.errors import UserError
from generation.reading import decode, parse_json
from personamem_builder.build.card import CARD
from personamem_builder.hub.repository import LOG_IN, FileDigests, Repository, RepoType, file_digests
from personamem_builder.hub.retries import patiently
from personamem_builder.manifest import FORMAT, MANIFEST
from personamem_builder.publish.explain import explained
from personamem_builder.table_files import contexts_path, questions_path

if TYPE_CHECKING:
    from huggingface_hub.hf_api import RepoFile

    from personamem_builder.publish.release import ReleaseFiles

_OURS: Final = {
    "dataset": (questions_path("*"), contexts_path("*")),
    "space": ("audit.html", "viewer/*"),
}
"""Files that a push deletes where the release lacks them."""


class FileChange(NamedTuple):
    """A file of the repository to write or to delete; `sha256` is empty where the Hub does not know it."""

    kind: Literal["add", "delete"]
    path: str
    size: int
    sha256: str


class PushPlan(NamedTuple):
    """What a push would do.

    Attributes:
        tag: The tag that the commit gets; empty for none.
        create: The repository is not there yet.
        new_branch: The branch is not there yet, and starts at `parent`, or at the first commit of a new repository.
        parent: The commit under the new one; None where the repository is not there yet.
        changes: What differs from the parent, by path.
        card_diff: How the card changes; empty if it does not.
        tagged: The commit that has the tag already, with this content; None if there is no such tag.
        repo_type: What the repository is.
    """

    repo_id: str
    branch: str
    tag: str
    private: bool
    create: bool = False
    new_branch: bool = False
    parent: str | None = None
    changes: tuple[FileChange, ...] = ()
    unchanged: tuple[str, ...] = ()
    card_diff: str = ""
    tagged: str | None = None
    repo_type: RepoType = "dataset"


def current_version(repo_id: str, branch: str = "main") -> tuple[str, str] | None:
    """Return the commit of the newest version on a branch, and the version in its manifest.

    None stands for a repository, branch or manifest of ours that is not there, or cannot be seen with this token.

    Raises:
        UserError: The Hub does not answer.
    """
    with explained(repo_id):
        repository = Repository(repo_id)
        info = repository.info(branch)
        if info is None or info.sha is None or MANIFEST not in {file.rfilename for file in info.siblings or ()}:
            return None
        content = repository.read(info.sha, MANIFEST)
    try:
        manifest = parse_json(decode(content, MANIFEST), MANIFEST)
    except UserError:
        return None
    is_ours = isinstance(manifest, dict) and manifest.get("format") == FORMAT and "version" in manifest
    return (info.sha, str(manifest["version"])) if is_ours else None


def make_plan(
    repo_id: str,
    files: ReleaseFiles,
    tag: str = "",
    *,
    branch: str = "main",
    private: bool = False,
    repo_type: RepoType = "dataset",
) -> PushPlan:
    """Compare a release with what the Hub has; `private` is for a repository that is new.

    Raises:
        UserError: The tag is there with other content, the repository is public though `private` is asked for, or
            the Hub does not answer.
    """
    with explained(repo_id, repo_type):
        repository = Repository(repo_id, repo_type)
        info = repository.info()
        if info is None:
            if repository.api.token is None:
                raise UserError(
                    f"without a token, no {repo_type} {repo_id} can be seen on {repository.api.endpoint}", LOG_IN
                )
            changes, _ = _compare(digests_of(files), {}, repo_type)
            return PushPlan(
                *(repo_id, branch, tag, private),
                create=True,
                new_branch=branch != "main",
                changes=changes,
                card_diff=_card_diff(b"", files),
                repo_type=repo_type,
            )
        if private and not info.private:
            raise UserError(
                f"{repo_type} {repo_id} is there, and public", "make it private in its settings, or leave out --private"
            )
        release = digests_of(files)
        refs = patiently(repository.api.list_repo_refs, repo_id, repo_type=repo_type)
        branches = {ref.name: ref.target_commit for ref in refs.branches}
        parent = branches.get(branch, branches.get("main"))
        plan = PushPlan(repo_id, branch, tag, bool(info.private), parent=parent, repo_type=repo_type)
        if tag and tag in (ref.name for ref in refs.tags):
            return plan._replace(unchanged=tuple(release), tagged=_same_content(repository, tag, release))
        there = repository.tree(parent) if parent else {}
        changes, unchanged = _compare(release, there, repo_type)
        card_diff = ""
        if parent and any(change.path == CARD for change in changes):
            card_diff = _card_diff(repository.read(parent, CARD) if CARD in there else b"", files)
        return plan._replace(
            new_branch=branch not in branches, changes=changes, unchanged=unchanged, card_diff=card_diff
        )


def describe(plan: PushPlan) -> str:
    """Return a plan in words, for people."""
    tag = f", tag {plan.tag}" if plan.tag else ""
    lines = [f"{plan.repo_type} {plan.repo_id} ({'private' if plan.private else 'public'}), branch {plan.branch}{tag}"]
    if plan.tagged:
        return "\n".join([*lines, f"tag {plan.tag} is there with exactly these files, at commit {plan.tagged}"])
    if plan.create:
        lines.append("the repository is new")
    if plan.new_branch:
        lines.append(f"branch {plan.branch} is new")
    lines += [
        f"{'+' if kind == 'add' else '-'} {path} ({size:,} bytes{f', sha256 {sha256}' if sha256 else ''})"
        for kind, path, size, sha256 in plan.changes
    ]
    lines += [f"= {path}" for path in plan.unchanged]
    if not plan.changes:
        end = " and gets the tag" if plan.tag else ""
        lines.append(f"all files are there: commit {plan.parent} is read back{end}")
    return "\n".join([*lines, plan.card_diff] if plan.card_diff else lines)


def digests_of(files: ReleaseFiles) -> dict[str, FileDigests]:
    """Return the digests of the files of a release, sorted by path."""
    return {path: file_digests(files[path]) for path in sorted(files)}


def _compare(
    release: Mapping[str, FileDigests], there: Mapping[str, RepoFile], repo_type: RepoType
) -> tuple[tuple[FileChange, ...], tuple[str, ...]]:
    """Return what is to be done to files on the Hub to make them the release, and the files that are the same."""
    unchanged = tuple(path for path, digests in release.items() if path in there and digests.is_of(there[path]))
    adding = [FileChange("add", path, d.size, d.sha256) for path, d in release.items() if path not in unchanged]
    stale = [p for p in there if p not in release and any(fnmatchcase(p, pattern) for pattern in _OURS[repo_type])]
    deleting = [FileChange("delete", p, there[p].size, lfs.sha256 if (lfs := there[p].lfs) else "") for p in stale]
    return tuple(sorted(adding + deleting, key=lambda change: change.path)), unchanged


def _same_content(repository: Repository, tag: str, release: Mapping[str, FileDigests]) -> str:
    """Return the commit of a tag if it has the files of the release, and raise if it has others."""
    commit = repository.commit_of(tag)
    changes, _ = _compare(release, repository.tree(commit), repository.repo_type)
    if changes:
        differing = ", ".join(change.path for change in changes)
        raise UserError(
            f"tag {tag} of {repository.repo_type} {repository.repo_id} is there with other content ({differing}), and "
            "a tag is never moved",
            "publish this as the next version, with a tag of its own",
        )
    return commit


def _card_diff(before: bytes, files: ReleaseFiles) -> str:
    content = files[CARD]
    after = content.read_bytes() if isinstance(content, Path) else content
    names = (f"{CARD} on the Hub", f"{CARD} of this release")
    return "\n".join(difflib.unified_diff(_lines(before), _lines(after), *names, lineterm=""))


def _lines(text: bytes) -> list[str]:
    # Not splitlines(), which also splits at characters that end no line in Markdown.
    return text.decode(errors="replace").removesuffix("\n").split("\n") if text else []
