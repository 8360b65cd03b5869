"""The dataset folder: its layout and its manifest."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from generation.errors import UserError
from generation.files import file_digest, json_digest
from personamem_builder.manifest import Manifest, SplitEntry, read_manifest
from personamem_builder.table_files import CONFIGS, ConfigName, data_files, table_files

AUDIT: Final = "audit.json"

_AGAIN: Final = "build, import or download the dataset again"

_superseded: set[str] = set()
"""What has been warned about in this process."""


class SupersededWarning(UserWarning):
    """A dataset is loaded that another version has taken the place of."""


def question_files(folder: Path, split: str) -> list[Path]:
    """Return the files of the questions of a split, in order, as the manifest has them; they need not be there.

    Raises:
        UserError: There is no manifest, it has faults, or the dataset lacks the split.
    """
    return _files(folder, split, "benchmark")


def context_files(folder: Path, split: str) -> list[Path]:
    """Return the files of the shared contexts of a split, as `question_files`."""
    return _files(folder, split, "shared_contexts")


def _files(folder: Path, split: str, config: ConfigName) -> list[Path]:
    manifest = read_manifest(folder)
    check_split(manifest, split, folder)
    return [folder / name for name in table_files(manifest["files"], config, split)]


def check_parts(folder: Path) -> None:
    """Raise if of a table that is several files some are there and others are not.

    Raises:
        UserError: So it is; the first such table is named.
    """
    manifest = read_manifest(folder)
    for split in manifest["splits"]:
        for config in CONFIGS:
            files = [folder / name for name in table_files(manifest["files"], config, split)]
            absent = [path for path in files if not path.is_file()]
            if absent and len(absent) < len(files):
                raise UserError(f"{missing_files(absent)}, of {len(files)} files of a table", _AGAIN)


def missing_files(absent: Sequence[Path]) -> str:
    """Say which files are missing."""
    return f"{absent[0]} is missing" if len(absent) == 1 else f"{absent[0]} and {len(absent) - 1} more are missing"


def check_split(manifest: Manifest, split: str, folder: Path) -> None:
    """Raise if a dataset lacks a split.

    Raises:
        UserError: It does; the splits that it has are named.
    """
    if split not in manifest["splits"]:
        raise UserError(
            f"{folder} has no split {split!r}, it has {', '.join(manifest['splits'])}",
            "choose one of these, or import the files of the missing split",
        )


def splits_in(expression: str | None, splits: Iterable[str]) -> list[str]:
    """Return those of some splits that an expression of `datasets` names, such as `32k[:10]+128k`; all for None."""
    parts = {part.partition("[")[0].strip() for part in ("all" if expression is None else expression).split("+")}
    return [split for split in splits if split in parts or "all" in parts]


def dataset_digest(splits: Mapping[str, SplitEntry]) -> str:
    """Return the digest of a dataset: that of the digests of its tables."""
    return json_digest({split: entry["digests"] for split, entry in splits.items()})


class ContentDigest:
    """The sha256 of the rows of a table, as JSON with sorted keys, a line each.

    Unlike the digest of a Parquet file it does not depend on the version of the library that wrote the file, nor on how
    many files the table is.
    """

    def __init__(self) -> None:
        self._digest = hashlib.sha256()

    def update(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Add the next rows."""
        for row in rows:
            self._digest.update(json.dumps(row, sort_keys=True, separators=(",", ":")).encode() + b"\n")

    def hexdigest(self) -> str:
        """Return the digest of all rows so far."""
        return self._digest.hexdigest()


def content_digest(table: pa.Table) -> str:
    """Return the `ContentDigest` of a whole table."""
    digest = ContentDigest()
    for batch in table.to_batches(max_chunksize=1000):
        digest.update(batch.to_pylist())
    return digest.hexdigest()


def changed_files(folder: Path, names: Iterable[str] | None = None) -> list[str]:
    """Return the data files that are missing or whose bytes are not those of the manifest.

    `names`, as the manifest has them, are the files to look at; all by default.
    """
    files = read_manifest(folder)["files"]
    return [
        name
        for name in (files if names is None else names)
        if name not in files or not (folder / name).is_file() or file_digest(folder / name) != files[name]["sha256"]
    ]


def check_files(folder: Path, splits: Iterable[str]) -> None:
    """Raise unless the files of some splits are as they were written.

    Raises:
        UserError: They are not; all such files are named.
    """
    if damaged := changed_files(folder, data_files(read_manifest(folder)["files"], splits)):
        raise UserError(
            f"{folder}: {', '.join(damaged)} {'is' if len(damaged) == 1 else 'are'} not as the manifest says",
            _AGAIN,
        )


def is_whole(folder: Path) -> bool:
    """Say whether a folder is a dataset whose manifest and files are as they were written."""
    try:
        return not changed_files(folder)
    except UserError:
        return False


def warn_if_superseded(manifest: Manifest, origin: str) -> None:
    """Warn, once in a process, if a dataset, `origin` in words, says that another version has taken its place."""
    if (newer := manifest.get("superseded_by")) and manifest["digest"] not in _superseded:
        _superseded.add(manifest["digest"])
        # The caller's line is in `datasets`, lm-eval or a command of ours: it would say nothing.
        warnings.warn(f"{origin} is superseded by {newer}: load that instead", SupersededWarning, stacklevel=2)
