"""The dataset folder: its layout and its manifest."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

import pyarrow as pa

from generation.errors import UserError
from generation.files import file_digest, json_digest
from personamem_builder.manifest import ConfigName, Manifest, SplitEntry, data_files, read_manifest

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


CONFIGS: Final[Mapping[ConfigName, Callable[[str], str]]] = {
    "benchmark": questions_path,
    "shared_contexts": contexts_path,
}
"""The two tables, the default one first, and where the file of a split lies."""


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
    if damaged := changed_files(folder, data_files(splits)):
        raise UserError(
            f"{folder}: {', '.join(damaged)} {'is' if len(damaged) == 1 else 'are'} not as the manifest says",
            "build, import or download the dataset again",
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
