"""Finding the data: a folder, a Hub repository, or the official release."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from generation.errors import UserError
from personamem_builder.contexts import GROUPS_KEPT, open_contexts
from personamem_builder.dataset.folder import (
    AUDIT,
    MANIFEST,
    check_split,
    contexts_path,
    is_dataset_folder,
    is_whole,
    may_be_dataset,
    questions_path,
    read_manifest,
    warn_if_superseded,
)
from personamem_builder.schema import SCHEMA_VERSION

if TYPE_CHECKING:
    from personamem_builder.official.hub import HubFile

ENVIRONMENT: Final = "PERSONAMEM_DATA"
"""Environment variable that names the data: a folder, or `ORG/NAME` on the Hub."""

DEFAULT_FOLDER: Final = "personamem"


@dataclass(frozen=True)
class HubPlace:
    """Where on the Hub a dataset is.

    Attributes:
        repo_id: `ORG/NAME`.
        revision: What was asked for: a branch, tag or commit.
        commit: The full sha of the commit that this is.
    """

    repo_id: str
    revision: str
    commit: str


@dataclass(frozen=True)
class DataSource:
    """A dataset folder, and how it was found.

    Attributes:
        folder: The folder.
        origin: In words, for the log and the results.
        digest: Content digest of the dataset.
        hub: Where it was downloaded from; None if it is the user's own folder, or was made here.
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
    official_split: str | None = None,
) -> DataSource:
    """Find a dataset folder, downloading it when it is named by its place on the Hub.

    Args:
        data: A folder, or `ORG/NAME` (also `ORG/NAME@REVISION`) on the Hub. By default `PERSONAMEM_DATA`, which may
            hold either, then `./personamem`.
        revision: Branch, tag or commit on the Hub; ignored for folders.
        splits: The splits that are needed, all by default: of a dataset on the Hub the others are not fetched.
        contexts: Whether to fetch the shared contexts too.
        official_split: Where nothing else is found, fetch this split of the official release from the Hub, at the
            pinned revision, and convert it once into the cache.

    Raises:
        UserError: Nothing is found, or what is named is no dataset of ours.
    """
    named = data or os.environ.get(ENVIRONMENT)
    folder = find_folder(named)
    if folder is None and named:
        return _named(str(named), revision, splits, contexts)
    if folder is None and may_be_dataset(Path(DEFAULT_FOLDER)):
        read_manifest(Path(DEFAULT_FOLDER))  # says what is wrong with it
    if folder is not None:
        origin = str(folder)
    elif official_split:
        folder, origin = _official(official_split)
    else:
        raise UserError(
            f"no data: neither a folder nor ORG/NAME was given, {ENVIRONMENT} is not set, and ./{DEFAULT_FOLDER} is "
            "no dataset folder",
            "make one: personamem import-official FOLDER --out personamem",
        )
    return _source(folder, origin)


def hub_source(
    repo_id: str, revision: str | None = None, splits: Sequence[str] = (), *, contexts: bool = True
) -> DataSource:
    """Download a dataset from the Hub, whatever folder bears its name here.

    Args:
        repo_id: `ORG/NAME`.
        revision: Branch, tag or commit; None for the newest commit.
        splits: As in `resolve_data`.
        contexts: As in `resolve_data`.

    Raises:
        UserError: It cannot be had, or is no dataset of ours.
    """
    from personamem_builder.official.hub import download_dataset

    if repo_id.count("/") != 1:
        raise UserError(f"{repo_id!r} cannot be a dataset on the Hub", "give ORG/NAME")
    folder = download_dataset(repo_id, revision, splits, contexts=contexts)
    place = HubPlace(repo_id, revision or "main", folder.name)
    return _source(folder, f"{repo_id}@{place.revision} on the Hub", place)


def remote_contexts(repo_id: str, commit: str, split: str, shared_context_ids: Iterable[str]) -> HubFile | None:
    """Return the file of shared contexts on the Hub, to be read in part, or None when it is here as a whole.

    It is downloaded as a whole, and verified, if as many of its row groups are needed as would not be kept in memory,
    since these would be fetched again and again; or if all are.

    Args:
        repo_id: `ORG/NAME`.
        commit: The full sha of the commit.
        split: The split.
        shared_context_ids: The contexts that are needed.

    Raises:
        UserError: The Hub fails, or it has another file than the manifest speaks of.
    """
    from personamem_builder.official.hub import HubFile, download_files

    folder = download_files(repo_id, commit, [])
    name = contexts_path(split)
    if not (folder / name).is_file():
        entry = read_manifest(folder)["files"][name]
        remote = HubFile(repo_id, commit, name, entry["bytes"], entry["sha256"])
        store = open_contexts(folder, remote)
        if store.count_groups(shared_context_ids) < min(store.num_groups, GROUPS_KEPT + 1):
            return remote
    download_files(repo_id, commit, [name])
    return None


def split_folder(source: DataSource, split: str) -> Path:
    """Return the folder of a source after checking that it has a split.

    Raises:
        UserError: It lacks the split.
    """
    check_split(read_manifest(source.folder), split, source.folder)
    return source.folder


def copy_dataset(folder: Path, out: Path, splits: Sequence[str] = ()) -> Path:
    """Copy a dataset folder out of the Hub's cache.

    Args:
        folder: The folder in the cache.
        out: The folder to make; it is either whole or absent.
        splits: The splits to copy, all by default.

    Returns:
        The new folder.

    Raises:
        UserError: There is something else already, or it cannot be written.
    """
    files = read_manifest(folder)["files"]
    wanted = {path(split) for split in splits for path in (questions_path, contexts_path)}
    names = [name for name in files if name in wanted or not splits]
    names += [name for name in ("README.md", MANIFEST, AUDIT) if (folder / name).is_file()]
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out} exists and is not empty", "choose another --out, or delete it")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as parts:
            part = Path(parts) / "dataset"
            for name in names:
                (part / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(folder / name, part / name)  # what the links of the cache point to
            part.replace(out)
    except OSError as error:
        raise UserError(f"{out} cannot be written: {error}", "make space there, or choose another --out") from error
    return out


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
        raise UserError(f"{folder} cannot be made: {error}", "set HF_HOME to a folder that can be written") from error
    return folder


def _source(folder: Path, origin: str, hub: HubPlace | None = None) -> DataSource:
    manifest = read_manifest(folder)
    warn_if_superseded(manifest, origin)
    return DataSource(folder, origin, manifest["digest"], hub)


def _named(name: str, revision: str | None, splits: Sequence[str], contexts: bool) -> DataSource:
    repo_id, _, pinned = name.partition("@")
    if Path(name).expanduser().exists() or repo_id.count("/") != 1 or name.startswith((".", "/", "~")):
        read_manifest(Path(name).expanduser())  # says what is wrong with it
    return hub_source(repo_id, pinned or revision, splits, contexts=contexts)


def _official(split: str) -> tuple[Path, str]:
    from filelock import FileLock

    from personamem_builder.dataset.official import import_from_hub
    from personamem_builder.official.hub import OFFICIAL_REVISION

    folder = cache_folder() / f"official-{OFFICIAL_REVISION[:12]}-{split}-v{SCHEMA_VERSION}"
    with FileLock(folder.with_suffix(".lock")):  # the ranks of one run start together
        if not is_whole(folder):
            shutil.rmtree(folder, ignore_errors=True)
            import_from_hub(folder, [split])
    return folder, f"the official release on the Hub at revision {OFFICIAL_REVISION}, split {split}"
