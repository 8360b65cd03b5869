"""Pushes a release to the Hub: a plan that is only read, one commit, read back, and then the tag."""

from __future__ import annotations

import difflib
import hashlib
import logging
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, ParamSpec, TypeVar

from generation.errors import UserError
from generation.reading import decode, parse_json
from personamem_builder.dataset.folder import FORMAT, MANIFEST, contexts_path, questions_path
from personamem_builder.official.hub import explain_hub_error, hub_failures

if TYPE_CHECKING:
    from huggingface_hub import HfApi
    from huggingface_hub.hf_api import DatasetInfo, RepoFile

_log = logging.getLogger(__name__)

_P = ParamSpec("_P")
_T = TypeVar("_T")

_CARD: Final = "README.md"
_OURS: Final = (questions_path("*"), contexts_path("*"))
_BUSY: Final = (429, 500, 502, 503, 504)
_WAITS: Final = (2.0, 8.0)
"""Seconds before the second and the third try, where the Hub names none."""
_LONGEST_WAIT: Final = 300.0
_BLOCK: Final = 1 << 20
_LOG_IN: Final = "log in with `hf auth login` or set HF_TOKEN, with a token that may write"
_AGAIN: Final = "run the same command again: what has arrived is not sent again"


class Operation(NamedTuple):
    """A change of one file on the Hub.

    Attributes:
        kind: Whether the file is written or deleted.
        path: Its path in the repository.
        size: In bytes, of the file to come or to go.
        sha256: Its digest; empty where the Hub does not know that of a file that is deleted.
    """

    kind: Literal["add", "delete"]
    path: str
    size: int
    sha256: str


class Plan(NamedTuple):
    """What a push would do.

    Attributes:
        repo_id: `ORG/NAME` on the Hub.
        branch: Where the commit goes.
        tag: What the commit is called.
        private: Whether only some people can see the repository.
        create: The repository is not there yet.
        new_branch: The branch is not there yet, and starts at `parent`, or at the first commit of a new repository.
        parent: The commit under the new one; None where the repository is not there yet.
        operations: What differs from the parent, by path.
        unchanged: The files of the release that the parent has already.
        card_diff: How the card changes; empty if it does not.
        tagged: The commit that has the tag already, with this content; None if there is no such tag.
    """

    repo_id: str
    branch: str
    tag: str
    private: bool
    create: bool
    new_branch: bool
    parent: str | None
    operations: tuple[Operation, ...]
    unchanged: tuple[str, ...]
    card_diff: str
    tagged: str | None


class Pushed(NamedTuple):
    """What a push did.

    Attributes:
        commit: The commit that has the tag.
        tag: The tag.
        done: False if the tag was there before, with the same content, and nothing was done.
    """

    commit: str
    tag: str
    done: bool


class _Content(NamedTuple):
    """A file of the release, and the two names by which the Hub may know it."""

    size: int
    sha256: str
    git: str


def make_plan(
    repo_id: str, files: Mapping[str, Path | bytes], tag: str, *, branch: str = "main", private: bool = False
) -> Plan:
    """Compare a release with what the Hub has; nothing is written.

    Args:
        repo_id: `ORG/NAME` on the Hub.
        files: A file or its bytes, by path in the repository.
        tag: The tag of the release.
        branch: The branch to push to.
        private: Whether a new repository is to be private.

    Returns:
        What is to be done.

    Raises:
        UserError: The tag is there with other content, the repository is public though `private` is asked for, or
            the Hub does not answer.
    """
    with _explained(repo_id):
        api = _api()
        info = _find(api, repo_id)
        if info is None:
            if api.token is None:
                raise UserError(f"without a token, no dataset {repo_id} can be seen on {api.endpoint}", _LOG_IN)
            operations, _ = _compare(_measure(files), {})
            card_diff = _card_diff(b"", files)
            return Plan(repo_id, branch, tag, private, True, branch != "main", None, operations, (), card_diff, None)
        if private and not info.private:
            raise UserError(
                f"dataset {repo_id} is there, and public", "make it private in its settings, or leave out --private"
            )
        release = _measure(files)
        refs = _patiently(api.list_repo_refs, repo_id, repo_type="dataset")
        branches = {ref.name: ref.target_commit for ref in refs.branches}
        parent = branches.get(branch, branches.get("main"))
        plan = Plan(
            repo_id,
            branch,
            tag,
            bool(info.private),
            False,
            branch not in branches,
            parent,
            (),
            tuple(release),
            "",
            None,
        )
        if tag in (ref.name for ref in refs.tags):
            return plan._replace(new_branch=False, tagged=_same_content(api, repo_id, tag, release))
        there = _tree(api, repo_id, parent) if parent else {}
        operations, unchanged = _compare(release, there)
        card_diff = ""
        if parent and any(operation.path == _CARD for operation in operations):
            card_diff = _card_diff(_read(api, repo_id, parent, _CARD) if _CARD in there else b"", files)
        return plan._replace(operations=operations, unchanged=unchanged, card_diff=card_diff)


def describe(plan: Plan) -> str:
    """Return a plan in words, for people."""
    lines = [
        f"dataset {plan.repo_id} ({'private' if plan.private else 'public'}), branch {plan.branch}, tag {plan.tag}"
    ]
    if plan.tagged:
        return "\n".join([*lines, f"tag {plan.tag} is there with exactly these files, at commit {plan.tagged}"])
    if plan.create:
        lines.append("the repository is new")
    if plan.new_branch:
        lines.append(f"branch {plan.branch} is new")
    lines += [
        f"{'+' if kind == 'add' else '-'} {path} ({size:,} bytes{f', sha256 {sha256}' if sha256 else ''})"
        for kind, path, size, sha256 in plan.operations
    ]
    lines += [f"= {path}" for path in plan.unchanged]
    if not plan.operations:
        lines.append(f"all files are there: commit {plan.parent} is read back and gets the tag")
    return "\n".join([*lines, plan.card_diff] if plan.card_diff else lines)


def push(plan: Plan, files: Mapping[str, Path | bytes]) -> Pushed:
    """Carry out a plan: one commit, which is read back and compared, and then gets the tag.

    A push that was interrupted is finished by making the plan again and pushing again.

    Args:
        plan: What `make_plan` returned for these files.
        files: The release.

    Returns:
        The commit and its tag.

    Raises:
        UserError: A file or the branch changed since the plan was made, a file on the Hub is not what was sent (all
            such files are named, and no tag is made), or the Hub refuses.
    """
    if plan.tagged:
        return Pushed(plan.tagged, plan.tag, done=False)
    release = _measure(files)
    for kind, path, _, sha256 in plan.operations:
        if kind == "add" and release[path].sha256 != sha256:
            raise UserError(f"{path} changed while it was published", "run the same command again")
    with _explained(plan.repo_id):
        api = _api()
        if api.token is None:
            raise UserError(f"nothing can be published on {api.endpoint} without a token", _LOG_IN)
        # A private repository where asked for, else what is usual in the organisation.
        if plan.create:
            _patiently(api.create_repo, plan.repo_id, repo_type="dataset", private=plan.private or None)
        if plan.new_branch:
            _patiently(api.create_branch, plan.repo_id, repo_type="dataset", branch=plan.branch, revision=plan.parent)
        commit = _commit(api, plan, files) if plan.operations or plan.parent is None else plan.parent
        _check_on_hub(api, plan.repo_id, commit, release)
        _tag(api, plan, commit)
    return Pushed(commit, plan.tag, done=True)


def current_version(repo_id: str, branch: str = "main") -> tuple[str, str] | None:
    """Return the newest version on a branch.

    Args:
        repo_id: `ORG/NAME` on the Hub.
        branch: The branch to look at.

    Returns:
        Its commit, and the version in its manifest; None if the repository, the branch or a manifest of ours is not
        there, or cannot be seen with this token.

    Raises:
        UserError: The Hub does not answer.
    """
    with _explained(repo_id):
        api = _api()
        info = _find(api, repo_id, branch)
        if info is None or info.sha is None or MANIFEST not in {file.rfilename for file in info.siblings or ()}:
            return None
        content = _read(api, repo_id, info.sha, MANIFEST)
    try:
        manifest = parse_json(decode(content, MANIFEST), MANIFEST)
    except UserError:
        return None
    is_ours = isinstance(manifest, dict) and manifest.get("format") == FORMAT and "version" in manifest
    return (info.sha, str(manifest["version"])) if is_ours else None


def _api() -> HfApi:
    from huggingface_hub import HfApi, get_token

    token = get_token()
    if token and not re.fullmatch("[!-~]+", token):  # it could not be sent, and the error would quote it
        raise UserError("the token has letters that no token has", _LOG_IN)
    return HfApi(token=token)


def _find(api: HfApi, repo_id: str, branch: str | None = None) -> DatasetInfo | None:
    """Return what the Hub says of a repository, or None if it or the branch is not there."""
    from huggingface_hub import constants
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError

    try:
        # The only call that has a time limit: it comes first.
        limit = constants.HF_HUB_ETAG_TIMEOUT
        return _patiently(api.dataset_info, repo_id, revision=branch, timeout=limit)
    except GatedRepoError:
        raise
    except (RepositoryNotFoundError, RevisionNotFoundError):
        return None


def _tree(api: HfApi, repo_id: str, commit: str) -> dict[str, RepoFile]:
    from huggingface_hub.hf_api import RepoFile

    def entries() -> list[RepoFile]:
        tree = api.list_repo_tree(repo_id, repo_type="dataset", revision=commit, recursive=True)
        return [entry for entry in tree if isinstance(entry, RepoFile)]

    return {entry.path: entry for entry in _patiently(entries)}


def _compare(
    release: Mapping[str, _Content], there: Mapping[str, RepoFile]
) -> tuple[tuple[Operation, ...], tuple[str, ...]]:
    """Return what is to be done to files on the Hub to make them the release, and the files that are the same."""
    unchanged = tuple(path for path, content in release.items() if path in there and _is_same(there[path], content))
    adding = [Operation("add", path, c.size, c.sha256) for path, c in release.items() if path not in unchanged]
    stale = [p for p in there if p not in release and any(fnmatchcase(p, pattern) for pattern in _OURS)]
    deleting = [Operation("delete", p, there[p].size, lfs.sha256 if (lfs := there[p].lfs) else "") for p in stale]
    return tuple(sorted(adding + deleting, key=lambda operation: operation.path)), unchanged


def _is_same(entry: RepoFile, content: _Content) -> bool:
    return entry.lfs.sha256 == content.sha256 if entry.lfs else entry.blob_id == content.git


def _same_content(api: HfApi, repo_id: str, tag: str, release: Mapping[str, _Content]) -> str:
    """Return the commit of a tag if it has the files of the release, and raise if it has others."""
    commit = _commit_of(api, repo_id, tag)
    operations, _ = _compare(release, _tree(api, repo_id, commit))
    if operations:
        differing = ", ".join(operation.path for operation in operations)
        raise UserError(
            f"tag {tag} of dataset {repo_id} is there with other content ({differing}), and a tag is never moved",
            "publish this as the next version, with a tag of its own",
        )
    return commit


def _commit_of(api: HfApi, repo_id: str, tag: str) -> str:
    return str(_patiently(api.dataset_info, repo_id, revision=tag).sha)


def _card_diff(before: bytes, files: Mapping[str, Path | bytes]) -> str:
    content = files[_CARD]
    after = content.read_bytes() if isinstance(content, Path) else content
    names = (f"{_CARD} on the Hub", f"{_CARD} of this release")
    return "\n".join(difflib.unified_diff(_lines(before), _lines(after), *names, lineterm=""))


def _lines(text: bytes) -> list[str]:
    # Not splitlines(), which also splits at characters that end no line in Markdown.
    return text.decode(errors="replace").removesuffix("\n").split("\n") if text else []


def _commit(api: HfApi, plan: Plan, files: Mapping[str, Path | bytes]) -> str:
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    def source(content: Path | bytes) -> str | bytes:
        # The client takes a `~` at the beginning for the home folder.
        return str(content.absolute()) if isinstance(content, Path) else content

    operations = [
        CommitOperationAdd(operation.path, source(files[operation.path]))
        if operation.kind == "add"
        else CommitOperationDelete(operation.path, is_folder=False)
        for operation in plan.operations
    ]
    commit = _patiently(
        api.create_commit,
        plan.repo_id,
        operations,
        commit_message=f"Release {plan.tag}",
        repo_type="dataset",
        revision=plan.branch,
        parent_commit=plan.parent,
    )
    return commit.oid


def _check_on_hub(api: HfApi, repo_id: str, commit: str, release: Mapping[str, _Content]) -> None:
    """Read every file of the release back, and raise if one is not what was sent."""
    there = _tree(api, repo_id, commit)
    faults = [f"{path} is not there" for path in release if path not in there]
    for path in (path for path in release if path in there):
        with _downloaded(api, repo_id, commit, path) as file:
            found = _measure_one(file)
        if found != release[path]:
            faults.append(f"{path} has sha256 {found.sha256} and not {release[path].sha256}")
    if faults:
        raise UserError(
            f"dataset {repo_id} at commit {commit} is not what was sent, and gets no tag: {'; '.join(faults)}",
            "run the same command again; if the same is said, ask the people of the Hub",
        )


def _tag(api: HfApi, plan: Plan, commit: str) -> None:
    from huggingface_hub.errors import HfHubHTTPError

    try:
        _patiently(api.create_tag, plan.repo_id, repo_type="dataset", tag=plan.tag, revision=commit)
    except HfHubHTTPError as error:
        # Made by the request whose answer was lost, or by somebody else.
        if _status(error) != 409 or _commit_of(api, plan.repo_id, plan.tag) != commit:
            raise


@contextmanager
def _downloaded(api: HfApi, repo_id: str, commit: str, path: str) -> Iterator[Path]:
    """Give a file as the Hub has it now, which the user's cache may not be."""
    with tempfile.TemporaryDirectory(prefix="personamem-") as folder:
        download = partial(api.hf_hub_download, repo_id, path, repo_type="dataset", revision=commit, cache_dir=folder)
        yield Path(_patiently(download))


def _read(api: HfApi, repo_id: str, commit: str, path: str) -> bytes:
    with _downloaded(api, repo_id, commit, path) as file:
        return file.read_bytes()


def _measure(files: Mapping[str, Path | bytes]) -> dict[str, _Content]:
    return {path: _measure_one(files[path]) for path in sorted(files)}


def _measure_one(content: Path | bytes) -> _Content:
    size = content.stat().st_size if isinstance(content, Path) else len(content)
    sha256, git = hashlib.sha256(), hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    for block in _blocks(content):
        sha256.update(block)
        git.update(block)
    return _Content(size, sha256.hexdigest(), git.hexdigest())


def _blocks(content: Path | bytes) -> Iterator[bytes]:
    if isinstance(content, bytes):
        yield content
        return
    with content.open("rb") as file:
        while block := file.read(_BLOCK):
            yield block


def _patiently(call: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Call the Hub, and again after a while where it says that it is busy.

    The client itself tries some requests again; which ones, and on what answers, depends on its version.
    """
    for wait in _WAITS:
        try:
            return call(*args, **kwargs)
        except hub_failures() as error:
            seconds = _asked_wait(error, wait)
            if _status(error) not in _BUSY or seconds > _LONGEST_WAIT:
                raise
            _log.warning("the Hub is busy (HTTP %s): trying again in %.0f s", _status(error), seconds)
        time.sleep(seconds)
    return call(*args, **kwargs)


def _asked_wait(error: Exception, usual: float) -> float:
    """Return for how many seconds the Hub asks us to wait: `Retry-After: 3`, or `RateLimit: "api";r=0;t=3`."""
    headers: Mapping[str, str] = getattr(getattr(_telling(error), "response", None), "headers", {})
    rate = re.search(r"r=0;\s*t=(\d+)", headers.get("RateLimit", ""))
    asked = headers.get("Retry-After", rate[1] if rate else "")
    return float(asked) if asked.isdecimal() else usual


def _telling(error: Exception) -> Exception:
    """Return the error, of this one and its causes, that carries the answer of the Hub; else the first cause."""
    cause: BaseException | None = error
    while isinstance(cause, Exception):
        error = cause
        if getattr(error, "response", None) is not None:
            break
        cause = error.__cause__
    return error


def _status(error: Exception) -> int | None:
    return getattr(getattr(_telling(error), "response", None), "status_code", None)


@contextmanager
def _explained(repo_id: str) -> Iterator[None]:
    """Turn what goes wrong in the block, between us and the Hub, into an error for people."""
    try:
        yield
    except hub_failures() as error:
        raise _explain(error, repo_id) from error


def _explain(error: Exception, repo_id: str) -> UserError:
    from huggingface_hub import constants, errors

    hub, told = constants.ENDPOINT, _telling(error)
    if isinstance(told, errors.RepositoryNotFoundError | errors.HFValidationError):
        return explain_hub_error(told, repo_id)
    match _status(error):
        case 400:  # a card or the name of a branch; the client adds what the Hub has against it
            return UserError(f"{hub} refuses this: {_reason(error)}", "change it and run the command again")
        case 401:
            return UserError(f"{hub} does not know the token", _LOG_IN)
        case 403:
            return UserError(
                f"the token may not write to dataset {repo_id}",
                "use one that may (HF_TOKEN), or publish under a name of your own",
            )
        case 404 | 409 | 412:
            return UserError(
                f"dataset {repo_id} was changed by somebody else meanwhile ({_reason(told)})",
                "run the same command again: it compares with what is there now; "
                "if it says the same, this token cannot see what is there",
            )
        case status if status in _BUSY:
            return UserError(f"{hub} is busy (HTTP {status})", f"wait a while, then {_AGAIN}")
    return UserError(
        f"publishing dataset {repo_id} on {hub} stopped: {_reason(told)}", f"check the connection, then {_AGAIN}"
    )


def _reason(error: Exception) -> str:
    """Return the message of an error in one line, without what is secret in it."""
    text = " ".join(str(error).split()) or type(error).__name__
    # The addresses of uploads are signed.
    return re.sub(r"(https?://[^\s?'\"]+)\?[^\s'\"]+", r"\1", text)
