"""Datasets of personamem on the Hugging Face Hub: downloaded and verified, or read in part."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from pydantic import RootModel

from generation.errors import UserError
from generation.files import file_digest
from generation.reading import as_model, read_json
from personamem_builder.hub.failures import explain_hub_error, hub_failures
from personamem_builder.manifest import MANIFEST, FileEntry, Listing
from personamem_builder.table_files import data_files, table_files

OFFICIAL_REPO_IDS: Final = ("bowen-upenn/PersonaMem", "bowen-upenn/PersonaMem-v1")
"""Both names of the official release in public reports, in the order in which they are tried."""

_NOT_OURS: Final = "this is not a dataset made by personamem"


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
    _, folder = snapshot(
        (repo_id,),
        revision,
        patterns=["README.md", MANIFEST, "audit.json"],
        required=[MANIFEST],
        missing_hint=official if repo_id in OFFICIAL_REPO_IDS else _NOT_OURS,
    )
    listing = _read_listing(folder, repo_id)
    if unknown := [split for split in splits if split not in listing["splits"]]:
        raise UserError(
            f"dataset {repo_id} at revision {revision or 'main'} has no split {', '.join(unknown)}, it has "
            f"{', '.join(listing['splits'])}",
            "choose one of these",
        )
    names = data_files(listing["files"], splits) if splits else list(listing["files"])
    if not contexts:
        left = {name for split in listing["splits"] for name in table_files(listing["files"], "shared_contexts", split)}
        names = [name for name in names if name not in left]
    return download_files(repo_id, folder.name, names)


def download_contexts(repo_id: str, commit: str, splits: Iterable[str]) -> Path:
    """Download the shared contexts of some splits of a dataset of ours, as `download_files`."""
    folder = download_files(repo_id, commit, [])
    files = _read_listing(folder, repo_id)["files"]
    names = [name for split in splits for name in table_files(files, "shared_contexts", split)]
    return download_files(repo_id, commit, names)


def download_files(repo_id: str, commit: str, names: Iterable[str]) -> Path:
    """Download data files of a dataset of ours at a commit, or find them in the local cache, and verify them.

    Nothing is asked of the Hub for what is in the cache.

    Returns:
        The local dataset folder, which may lack other files.

    Raises:
        UserError: A file cannot be had, or it is not the one that the manifest speaks of.
    """
    from huggingface_hub import hf_hub_download

    names = list(names)
    try:
        paths = [
            Path(hf_hub_download(repo_id, name, repo_type="dataset", revision=commit)) for name in [MANIFEST, *names]
        ]
    except hub_failures() as error:
        raise explain_hub_error(error, repo_id, commit) from error
    folder = paths[0].parent
    files = _read_listing(folder, repo_id)["files"]
    damaged = [name for name in names if file_digest(folder / name) != files[name]["sha256"]]
    for name in damaged:
        # A later run must not find them in the cache, where the snapshot links to a file named by the Hub's checksum.
        (folder / name).resolve().unlink(missing_ok=True)
        (folder / name).unlink(missing_ok=True)
    if damaged:
        raise UserError(
            f"dataset {repo_id} at commit {commit}: {', '.join(damaged)} is not what its manifest says",
            "what arrived was deleted: rerun the command; if that does not help, the dataset is damaged on "
            "the Hub: take another revision, and tell its owner",
        )
    return folder


@dataclass(frozen=True)
class HubFile:
    """A file of a dataset on the Hub, to be read in part; nothing of it is kept on this machine.

    Size, digest and the least and greatest persona whose contexts it holds are those that the manifest says.
    """

    repo_id: str
    commit: str
    name: str
    size: int
    sha256: str
    personas: tuple[int, ...] = ()

    @classmethod
    def of(cls, repo_id: str, commit: str, name: str, entry: FileEntry) -> HubFile:
        """Return a file as the manifest has it."""
        personas = tuple(entry.get("personas", ()))
        return cls(repo_id, commit, name, entry["bytes"], entry["sha256"], personas)

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
        return cast("BinaryIO", _ExplainedFile(file, self))


class _ExplainedFile(io.RawIOBase):
    """An open file on the Hub whose failures are explained."""

    def __init__(self, file: Any, origin: HubFile) -> None:
        self._file = file
        self._origin = origin

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
            raise explain_hub_error(error, self._origin.repo_id, self._origin.commit) from error


def _read_listing(folder: Path, repo_id: str) -> Listing:
    try:
        return as_model(read_json(folder / MANIFEST), RootModel[Listing], MANIFEST).root
    except UserError as error:
        raise UserError(f"dataset {repo_id} has a {MANIFEST} that is not ours: {error.message}", _NOT_OURS) from error


def snapshot(
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
