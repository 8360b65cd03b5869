"""Reads from the Hugging Face Hub: the official release at a pinned commit, and datasets of personamem."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from generation.errors import UserError
from generation.files import file_digest
from generation.reading import as_model, read_json
from personamem_builder.manifest import MANIFEST, Listing
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

_NOT_OURS: Final = "this is not a dataset made by personamem"
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


def download_dataset(
    repo_id: str, revision: str | None = None, splits: Sequence[str] = (), *, contexts: bool = True
) -> Path:
    """Download a dataset that personamem made and published, or find it in the local cache, and verify its files.

    Args:
        repo_id: `ORG/NAME` on the Hub.
        revision: A commit, branch or tag; None for the newest commit.
        splits: The splits to fetch, all by default; beside their files come card, manifest and audit.
        contexts: Whether to fetch the shared contexts too, which are most of the bytes.

    Returns:
        The local dataset folder, whose name is the commit.

    Raises:
        UserError: The dataset cannot be had, personamem did not make it, it lacks a split, or a file is not the one
            that the manifest speaks of.
    """
    official = "this is the official release: use `personamem import-official --hub`"
    _, folder = _snapshot(
        (repo_id,),
        revision,
        patterns=["README.md", "manifest.json", "audit.json"],
        required=["manifest.json"],
        missing_hint=official if repo_id in OFFICIAL_REPO_IDS else _NOT_OURS,
    )
    manifest = _read_manifest(folder, repo_id)
    if unknown := [split for split in splits if split not in manifest["splits"]]:
        raise UserError(
            f"dataset {repo_id} at revision {revision or 'main'} has no split {', '.join(unknown)}, it has "
            f"{', '.join(manifest['splits'])}",
            "choose one of these",
        )
    wanted = {f"data/{kind}_{split}.parquet" for split in splits for kind in ("questions", "shared_contexts")}
    names = [
        name
        for name in manifest["files"]
        if (not splits or name in wanted) and (contexts or not name.startswith("data/shared_contexts_"))
    ]
    return download_files(repo_id, folder.name, names)


def download_files(repo_id: str, commit: str, names: Iterable[str]) -> Path:
    """Download data files of a dataset of ours, or find them in the local cache, and verify them.

    Nothing is asked of the Hub for what is in the cache.

    Args:
        repo_id: `ORG/NAME` on the Hub.
        commit: The full sha of the commit.
        names: The files, as the manifest names them.

    Returns:
        The local dataset folder, which may lack other files.

    Raises:
        UserError: A file cannot be had, or it is not the one that the manifest speaks of.
    """
    from huggingface_hub import hf_hub_download

    names = list(names)
    try:
        paths = [
            Path(hf_hub_download(repo_id, name, repo_type="dataset", revision=commit))
            for name in ["manifest.json", *names]
        ]
    except hub_failures() as error:
        raise explain_hub_error(error, repo_id, commit) from error
    folder = paths[0].parent
    files = _read_manifest(folder, repo_id)["files"]
    damaged = [name for name in names if file_digest(folder / name) != files[name]["sha256"]]
    for name in damaged:
        # A later run must not find them in the cache, where the snapshot links to a file named by the Hub's checksum.
        (folder / name).resolve().unlink(missing_ok=True)
        (folder / name).unlink(missing_ok=True)
    if damaged:
        raise UserError(
            f"dataset {repo_id} at commit {commit}: {', '.join(damaged)} is not what its manifest says",
            "what arrived was deleted: run the same command again; if that does not help, the dataset is damaged on "
            "the Hub: take another revision, and tell its owner",
        )
    return folder


@dataclass(frozen=True)
class HubFile:
    """A file of a dataset on the Hub, to be read in part; nothing of it is kept on this machine.

    Attributes:
        repo_id: `ORG/NAME` on the Hub.
        commit: The full sha of the commit.
        name: The file's path in the repository.
        size: Its bytes, as the manifest says.
        sha256: Its digest, as the manifest says.
    """

    repo_id: str
    commit: str
    name: str
    size: int
    sha256: str

    def open(self) -> BinaryIO:
        """Open the file; each read asks the Hub for just these bytes.

        Since a part has no digest, what is compared with the manifest is what the Hub says of the file.

        Raises:
            UserError: It cannot be had, or the Hub has another file than the manifest speaks of.
        """
        from huggingface_hub import HfFileSystem

        path = f"datasets/{self.repo_id}@{self.commit}/{self.name}"
        try:
            system = HfFileSystem()
            about = system.info(path)
            # Without a cache of its own: it would read megabytes ahead.
            file = system.open(path, "rb", cache_type="none")
        except hub_failures() as error:
            raise explain_hub_error(error, self.repo_id, self.commit) from error
        digest = (about.get("lfs") or {}).get("sha256", self.sha256)
        if (about["size"], digest) != (self.size, self.sha256):
            raise UserError(
                f"dataset {self.repo_id} at commit {self.commit}: {self.name} is not what its manifest says",
                "the dataset is damaged on the Hub: take another revision, and tell its owner",
            )
        return cast("BinaryIO", _Reader(file, self))


class _Reader(io.RawIOBase):
    """A file of the Hub whose failures are explained."""

    def __init__(self, file: Any, about: HubFile) -> None:
        self._file = file
        self._about = about

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(offset, whence)  # type: ignore[no-any-return]

    def tell(self) -> int:
        return self._file.tell()  # type: ignore[no-any-return]

    def read(self, size: int = -1) -> bytes:
        try:
            return self._file.read(size)  # type: ignore[no-any-return]
        except hub_failures() as error:
            raise explain_hub_error(error, self._about.repo_id, self._about.commit) from error


def _read_manifest(folder: Path, repo_id: str) -> dict[str, Any]:
    """Return the manifest of a downloaded dataset; what `dataset` checks of it later is not looked at here."""
    path = folder / MANIFEST
    try:
        content: dict[str, Any] = read_json(path)
        as_model(content, Listing, MANIFEST)
    except UserError as error:
        raise UserError(f"dataset {repo_id} has a {MANIFEST} that is not ours: {error.message}", _NOT_OURS) from error
    return content


def _check_digest(path: Path) -> None:
    """Raise if a digest is known for a file of the pinned commit and the file has another one."""
    expected = OFFICIAL_SHA256.get(path.name)
    if expected is None:
        return
    found = file_digest(path)
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
