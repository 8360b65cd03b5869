"""Finding the data: a folder, or a repository on the Hub."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from generation.errors import UserError
from personamem_builder.dataset.contexts import GROUPS_KEPT, open_contexts
from personamem_builder.dataset.folder import check_parts, check_split, warn_if_superseded
from personamem_builder.manifest import is_dataset_folder, may_be_dataset, read_manifest
from personamem_builder.table_files import table_files

if TYPE_CHECKING:
    from personamem_builder.hub.download import HubFile

ENVIRONMENT: Final = "PERSONAMEM_DATA"
"""Environment variable that names the data: a folder, or `ORG/NAME` on the Hub."""

DEFAULT_FOLDER: Final = "personamem"


@dataclass(frozen=True)
class HubPlace:
    """Where on the Hub a dataset is: `ORG/NAME`, the revision asked for, and the full sha of its commit."""

    repo_id: str
    revision: str
    commit: str


@dataclass(frozen=True)
class DataSource:
    """A dataset folder, its content digest, and how it was found.

    `origin` says that in words, for the log and the results; `hub` is None for the user's own folder, or one made here.
    """

    folder: Path
    origin: str
    digest: str
    hub: HubPlace | None = None


def find_folder(data: str | os.PathLike[str] | None = None) -> Path | None:
    """Return the local dataset folder: `data`, else `PERSONAMEM_DATA`, else `./personamem`; None if there is none."""
    candidates = [data] if data is not None else [os.environ.get(ENVIRONMENT), DEFAULT_FOLDER]
    for candidate in candidates:
        if candidate and is_dataset_folder(Path(candidate).expanduser()):
            return Path(candidate).expanduser().resolve()
    return None


def resolve_data(
    data: str | os.PathLike[str] | None = None,
    revision: str | None = None,
    *,
    splits: Sequence[str] = (),
    contexts: bool = True,
) -> DataSource:
    """Find a dataset folder, downloading it when it is named by its place on the Hub.

    Args:
        data: A folder, or `ORG/NAME` (also `ORG/NAME@REVISION`) on the Hub. By default `PERSONAMEM_DATA`, which may
            hold either, then `./personamem`.
        revision: Branch, tag or commit on the Hub; ignored for folders.
        splits: The splits that are needed, all by default: of a dataset on the Hub the others are not fetched.
        contexts: Whether to fetch the shared contexts too.

    Raises:
        UserError: Nothing is found, or what is named is no dataset of ours.
    """
    source = find_data(data, revision, splits=splits, contexts=contexts)
    if source is None:
        raise UserError(
            f"no dataset: none was named, {ENVIRONMENT} is not set, and ./{DEFAULT_FOLDER} is not a dataset folder",
            "name one, or make one: personamem import-official FOLDER --out personamem",
        )
    return source


def find_data(
    data: str | os.PathLike[str] | None, revision: str | None, *, splits: Sequence[str], contexts: bool
) -> DataSource | None:
    """Return what `resolve_data` does, or None where nothing is named and no folder found.

    Raises:
        UserError: What is named is no dataset of ours.
    """
    named = data or os.environ.get(ENVIRONMENT)
    folder = find_folder(named)
    if folder is not None:
        return source_of(folder, str(folder))
    if named:
        return _named(str(named), revision, splits, contexts)
    if may_be_dataset(Path(DEFAULT_FOLDER)):
        read_manifest(Path(DEFAULT_FOLDER))  # says what is wrong with it
    return None


def hub_source(
    repo_id: str, revision: str | None = None, splits: Sequence[str] = (), *, contexts: bool = True
) -> DataSource:
    """Download a dataset from the Hub, whatever folder bears its name here; see `resolve_data`.

    Raises:
        UserError: It cannot be had, or is no dataset of ours.
    """
    from personamem_builder.hub.download import download_dataset

    if repo_id.count("/") != 1:
        raise UserError(f"{repo_id!r} cannot be a dataset on the Hub", "give ORG/NAME")
    folder = download_dataset(repo_id, revision, splits, contexts=contexts)
    place = HubPlace(repo_id, revision or "main", folder.name)
    return source_of(folder, f"{repo_id}@{place.revision} on the Hub", place)


def remote_contexts(repo_id: str, commit: str, split: str, owners: Mapping[str, int]) -> tuple[HubFile, ...]:
    """Return the files of shared contexts on the Hub, to be read in part, or none when those needed are here.

    What is needed are some contexts, given with their personas: so few files are looked into.

    Files that hold one of the contexts are downloaded as a whole, and verified, if as many row groups are needed as
    would not be kept in memory, since these would be fetched again and again; or if all are.

    Raises:
        UserError: The Hub fails, or it has other files than the manifest speaks of.
    """
    from personamem_builder.hub.download import HubFile, download_files

    folder = download_files(repo_id, commit, [])
    files = read_manifest(folder)["files"]
    names = table_files(files, "shared_contexts", split)
    if not all((folder / name).is_file() for name in names):
        remote = tuple(HubFile.of(repo_id, commit, name, files[name]) for name in names)
        store = open_contexts(folder, remote)
        groups = store.groups_of(owners)
        if len(groups) <= GROUPS_KEPT and store.places.has_more_groups_than(len(groups)):
            return remote
        names = [names[number] for number in sorted({number for number, _ in groups})]
    download_files(repo_id, commit, names)
    return ()


def split_folder(source: DataSource, split: str) -> Path:
    """Return the folder of a source after checking that it has a split.

    Raises:
        UserError: It lacks the split.
    """
    check_split(read_manifest(source.folder), split, source.folder)
    return source.folder


def cache_folder() -> Path:
    """Return the folder for datasets that are made when they are needed, beside the Hub's cache; it is there.

    Raises:
        UserError: It cannot be made.
    """
    from huggingface_hub import constants

    folder = Path(constants.HF_HOME) / "personamem"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder} cannot be made: {error}", "set HF_HOME to a writable folder") from error
    return folder


def source_of(folder: Path, origin: str, hub: HubPlace | None = None) -> DataSource:
    """Return a dataset folder as a source, with a warning if another version has taken its place.

    Raises:
        UserError: It is no dataset of ours, or a folder of the user's own lacks some files of a table.
    """
    manifest = read_manifest(folder)
    if hub is None:
        check_parts(folder)
    warn_if_superseded(manifest, origin)
    return DataSource(folder, origin, manifest["digest"], hub)


def _named(name: str, revision: str | None, splits: Sequence[str], contexts: bool) -> DataSource:
    repo_id, _, pinned = name.partition("@")
    if Path(name).expanduser().exists() or repo_id.count("/") != 1 or name.startswith((".", "/", "~")):
        read_manifest(Path(name).expanduser())  # says what is wrong with it
    return hub_source(repo_id, pinned or revision, splits, contexts=contexts)
