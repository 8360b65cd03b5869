"""The dataset folder: its layout and its manifest."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from generation.errors import UserError
from generation.files import file_digest
from personamem_builder.manifest import FORMAT as FORMAT
from personamem_builder.manifest import MANIFEST as MANIFEST
from personamem_builder.manifest import is_dataset_folder as is_dataset_folder
from personamem_builder.manifest import may_be_dataset as may_be_dataset
from personamem_builder.manifest import read_manifest as read_manifest

AUDIT: Final = "audit.json"

_superseded: set[str] = set()
"""What has been warned about in this process."""


class SupersededWarning(UserWarning):
    """A dataset is loaded that another version has taken the place of."""


def questions_path(split: str) -> str:
    """Return where the questions of a split lie, relative to the dataset folder."""
    return f"data/questions_{split}.parquet"


def contexts_path(split: str) -> str:
    """Return where the shared contexts of a split lie, relative to the dataset folder."""
    return f"data/shared_contexts_{split}.parquet"


def check_split(manifest: dict[str, Any], split: str, folder: Path) -> None:
    """Raise if a dataset lacks a split.

    Raises:
        UserError: It does; the splits that it has are named.
    """
    if split not in manifest["splits"]:
        raise UserError(
            f"{folder} has no split {split!r}, it has {', '.join(manifest['splits'])}",
            "choose one of these, or import the files of the missing split",
        )


def splits_in(expression: str | None, manifest: dict[str, Any]) -> list[str]:
    """Return the splits that an expression of `datasets` speaks of, such as `32k[:10]+128k`; all for None."""
    parts = {part.partition("[")[0].strip() for part in ("all" if expression is None else expression).split("+")}
    return [split for split in manifest["splits"] if split in parts or "all" in parts]


def dataset_digest(splits: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the digest of a dataset: that of the digests of its tables.

    Args:
        splits: The splits as the manifest has them.
    """
    digests = {split: entry["digests"] for split, entry in splits.items()}
    return hashlib.sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest()


def content_digest(table: pa.Table) -> str:
    """Return the sha256 of a table's rows, as JSON with sorted keys, a line each.

    Unlike the digest of a Parquet file it does not depend on the version of the library that wrote the file.
    """
    digest = hashlib.sha256()
    for batch in table.to_batches(max_chunksize=1000):
        for row in batch.to_pylist():
            digest.update(json.dumps(row, sort_keys=True, separators=(",", ":")).encode() + b"\n")
    return digest.hexdigest()


def changed_files(folder: Path, names: Iterable[str] | None = None) -> list[str]:
    """Return the data files that are missing or whose bytes are not those of the manifest.

    Args:
        folder: The dataset folder.
        names: The files to look at, as the manifest names them; all by default.
    """
    files = read_manifest(folder)["files"]
    return [
        name
        for name in (files if names is None else names)
        if name not in files or not (folder / name).is_file() or file_digest(folder / name) != files[name]["sha256"]
    ]


def is_whole(folder: Path) -> bool:
    """Say whether a folder is a dataset whose manifest and files are as they were written."""
    try:
        return not changed_files(folder)
    except UserError:
        return False


def warn_if_superseded(manifest: dict[str, Any], origin: str) -> None:
    """Warn, once in a process, if a dataset says that another version has taken its place.

    Args:
        manifest: The manifest of the dataset.
        origin: The dataset, in words.
    """
    if (newer := manifest.get("superseded_by")) and manifest["digest"] not in _superseded:
        _superseded.add(manifest["digest"])
        # The caller's line is in `datasets`, lm-eval or a command of ours: it would say nothing.
        warnings.warn(f"{origin} is superseded by {newer}: load that instead", SupersededWarning, stacklevel=2)
