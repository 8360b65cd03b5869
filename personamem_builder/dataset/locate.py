"""Finding the data: a folder, a Hub repository, or the official release."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from generation.errors import UserError
from personamem_builder.dataset.folder import changed_files, check_split, is_dataset_folder, read_manifest
from personamem_builder.schema import SCHEMA_VERSION

ENVIRONMENT: Final = "PERSONAMEM_DATA"
"""Environment variable that names the data: a folder, or `ORG/NAME` on the Hub."""

DEFAULT_FOLDER: Final = "personamem"


@dataclass(frozen=True)
class DataSource:
    """A dataset folder, and how it was found.

    Attributes:
        folder: The folder.
        origin: In words, for the log and the results.
        digest: Content digest of the dataset.
    """

    folder: Path
    origin: str
    digest: str


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
    official_split: str | None = None,
) -> DataSource:
    """Find a dataset folder, downloading it when it is named by its place on the Hub.

    Args:
        data: A folder, or `ORG/NAME` (also `ORG/NAME@REVISION`) on the Hub. By default `PERSONAMEM_DATA`, which may
            hold either, then `./personamem`.
        revision: Branch, tag or commit on the Hub; ignored for folders.
        official_split: Where nothing else is found, fetch this split of the official release from the Hub, at the
            pinned revision, and convert it once into the cache.

    Raises:
        UserError: Nothing is found, or what is named is no dataset of ours.
    """
    named = data or os.environ.get(ENVIRONMENT)
    folder = find_folder(named)
    if folder is not None:
        origin = str(folder)
    elif named:
        folder, origin = _named(str(named), revision)
    elif official_split:
        folder, origin = _official(official_split)
    else:
        raise UserError(
            f"no data: neither a folder nor ORG/NAME was given, {ENVIRONMENT} is not set, and ./{DEFAULT_FOLDER} is "
            "no dataset folder",
            "make one: personamem import-official FOLDER --out personamem",
        )
    return DataSource(folder, origin, read_manifest(folder)["digest"])


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
        raise UserError(f"{folder} cannot be made: {error}", "set HF_HOME to a folder that can be written") from error
    return folder


def _named(name: str, revision: str | None) -> tuple[Path, str]:
    from personamem_builder.official.hub import download_dataset

    repo_id, _, pinned = name.partition("@")
    if Path(name).expanduser().exists() or repo_id.count("/") != 1 or name.startswith((".", "/", "~")):
        read_manifest(Path(name).expanduser())  # says what is wrong with it
    revision = pinned or revision
    return download_dataset(repo_id, revision), f"{repo_id}@{revision or 'main'} on the Hub"


def _official(split: str) -> tuple[Path, str]:
    from filelock import FileLock

    from personamem_builder.dataset.official import import_from_hub
    from personamem_builder.official.hub import OFFICIAL_REVISION

    folder = cache_folder() / f"official-{OFFICIAL_REVISION[:12]}-{split}-v{SCHEMA_VERSION}"
    with FileLock(folder.with_suffix(".lock")):  # the ranks of one run start together
        if not is_dataset_folder(folder) or changed_files(folder):
            shutil.rmtree(folder, ignore_errors=True)
            import_from_hub(folder, [split])
    return folder, f"the official release on the Hub at revision {OFFICIAL_REVISION}, split {split}"
