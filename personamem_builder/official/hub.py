"""Reads from the Hugging Face Hub: the official release at a pinned commit, and datasets of personamem."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from generation.errors import UserError
from personamem_builder.schema import SPLITS

OFFICIAL_REPO_IDS: Final = ("bowen-upenn/PersonaMem", "bowen-upenn/PersonaMem-v1")
"""Both names of the release in public reports, in the order in which they are tried."""

OFFICIAL_REVISION: Final = "73dfd752d477d0c466cd441f1669397f5726d7ab"
"""The commit that is read unless the user asks for another."""

OFFICIAL_SHA256: Final = {
    "questions_32k.csv": "23f306a8d28b7ffcf133fe7dad09ade06fcb862fc7c3f19691362a5cd69409bd",
    "shared_contexts_32k.jsonl": "217247ebfec9e8442fc53570c795ab69f21aad08745f7de78d9beab51b122d4a",
}
"""Digests of the files at the pinned commit, as far as they are known."""

_BY_HAND: Final = "download the files by hand and use `personamem import-official FOLDER`"


@dataclass(frozen=True)
class ReleaseDownload:
    """The official release on this machine.

    Attributes:
        folder: The local snapshot, with the files of the requested splits.
        repo_id: The name under which the release was found.
        revision: The commit of the files.
    """

    folder: Path
    repo_id: str
    revision: str


def download_release(splits: Sequence[str] = SPLITS, *, revision: str = OFFICIAL_REVISION) -> ReleaseDownload:
    """Download the files of some splits of the official release, or find them in the local cache.

    Args:
        splits: The splits to fetch; the files of the others are left alone.
        revision: A commit, branch or tag; digests are checked at the pinned commit only.

    Returns:
        The folder with the files, and where they came from.

    Raises:
        UserError: The files cannot be had, or one of them is not what was published.
    """
    files = [name for s in splits for name in (f"questions_{s}.csv", f"shared_contexts_{s}.jsonl")]
    repo_id, folder = _snapshot(
        OFFICIAL_REPO_IDS,
        revision,
        patterns=files,
        required=files,
        missing_hint="ask for other splits or another revision",
        instead=f", or {_BY_HAND}",
    )
    if folder.name == OFFICIAL_REVISION:
        for name in files:
            _check_digest(folder / name)
    return ReleaseDownload(folder, repo_id, folder.name)


def download_dataset(repo_id: str, revision: str | None = None) -> Path:
    """Download a dataset that personamem made and published, or find it in the local cache.

    Args:
        repo_id: `ORG/NAME` on the Hub.
        revision: A commit, branch or tag; None for the newest commit.

    Returns:
        The local dataset folder.

    Raises:
        UserError: The dataset cannot be had, or personamem did not make it.
    """
    official = "this is the official release: use `personamem import-official --hub`"
    _, folder = _snapshot(
        (repo_id,),
        revision,
        patterns=["README.md", "manifest.json", "data/*.parquet"],
        required=["manifest.json"],
        missing_hint=official if repo_id in OFFICIAL_REPO_IDS else "this is not a dataset made by personamem",
    )
    return folder


def _check_digest(path: Path) -> None:
    """Raise if a digest is known for a file of the pinned commit and the file has another one."""
    expected = OFFICIAL_SHA256.get(path.name)
    if expected is None:
        return
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != expected:
        raise UserError(
            f"{path} is not the published file: expected sha256 {expected}, found {found}",
            # The snapshot is a link into the cache; without the file behind it, it would be linked again.
            f"delete {path.resolve()} and run the same command again, or {_BY_HAND}",
        )


def _snapshot(
    repo_ids: Sequence[str],
    revision: str | None,
    *,
    patterns: list[str],
    required: Sequence[str],
    missing_hint: str,
    instead: str = "",
) -> tuple[str, Path]:
    """Return the first of some dataset repositories that can be had, with its snapshot folder.

    The folder bears the name of its commit, whatever the revision is called.
    """
    from huggingface_hub import HfApi, constants, snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError, RepositoryNotFoundError

    failures = hub_failures()

    def fetch(repo_id: str, *, cached: bool) -> Path:
        path = snapshot_download(
            repo_id, repo_type="dataset", revision=revision, allow_patterns=patterns, local_files_only=cached
        )
        folder = Path(path)
        # Where the Hub falls silent in between, the folder of an earlier, interrupted download comes back.
        if absent := [name for name in required if not (folder / name).is_file()]:
            raise LocalEntryNotFoundError(f"{', '.join(absent)} did not arrive")
        return folder

    refusals: dict[str, Exception] = {}
    for repo_id in repo_ids:
        try:
            # One request with a time limit: without it, minutes pass before silence becomes an error.
            info = HfApi().dataset_info(repo_id, revision=revision, timeout=constants.HF_HUB_ETAG_TIMEOUT)
        except failures as refusal:
            refusals[repo_id] = refusal
            with suppress(*failures):
                return repo_id, fetch(repo_id, cached=True)
            continue
        names = {file.rfilename for file in info.siblings or ()}
        if missing := [name for name in required if name not in names]:
            where = f"dataset {repo_id} at revision {revision or 'main'}"
            raise UserError(f"{where} has no {' and no '.join(missing)}", missing_hint)
        try:
            return repo_id, fetch(repo_id, cached=False)
        except failures as error:
            raise explain_hub_error(error, repo_id, revision, instead) from error

    # That one of the names does not exist says less than whatever else went wrong.
    telling = {i: e for i, e in refusals.items() if type(e) is not RepositoryNotFoundError} or refusals
    reason = next(iter(telling.values()))
    raise explain_hub_error(reason, " or ".join(telling), revision, instead) from reason


def hub_failures() -> tuple[type[Exception], ...]:
    """Return the errors with which calls of the Hub client fail; importing it takes time."""
    from huggingface_hub.errors import HfHubHTTPError

    # What the Hub client does not wrap: errors of its HTTP library (which one depends on the version), and
    # RuntimeError, as its Xet transport reports a lost connection.
    http_error = cast("type[Exception]", HfHubHTTPError.__bases__[0])
    return (OSError, ValueError, RuntimeError, http_error)


def explain_hub_error(error: Exception, name: str, revision: str | None = None, instead: str = "") -> UserError:
    """Say in our words why a dataset could not be had from the Hub.

    Args:
        error: One of `hub_failures`.
        name: The dataset.
        revision: What was asked for.
        instead: What else the user may do, to be put after the hint.
    """
    from huggingface_hub import constants, errors

    hub = constants.ENDPOINT
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    log_in = "log in with `hf auth login` or set HF_TOKEN"
    if isinstance(error, errors.GatedRepoError):
        return UserError(f"dataset {name} is gated", f"ask for access on its page, then {log_in}{instead}")
    if isinstance(error, errors.RepositoryNotFoundError):
        return UserError(f"there is no dataset {name} at {hub}", f"if it is private, {log_in}{instead}")
    if isinstance(error, errors.RevisionNotFoundError):
        return UserError(f"dataset {name} has no revision {revision}", "give a commit, branch or tag of it")
    if isinstance(error, errors.HFValidationError):
        return UserError(f"{name!r} cannot be a dataset on the Hub: {reason}", "give ORG/NAME")
    if isinstance(error, OSError) and error.errno is not None:
        return UserError(
            f"cannot store dataset {name} in {constants.HF_HUB_CACHE}: {error.strerror}",
            "make space there, or set HF_HOME to a folder that can be written",
        )
    again = "check the connection and run the same command again, or set HF_ENDPOINT to a mirror"
    if isinstance(error, errors.HfHubHTTPError) and error.response.status_code in (401, 403):
        again = log_in
    return UserError(f"cannot download dataset {name} from {hub}: {reason}", f"{again}{instead}")
