"""The dataset folder: its layout and its manifest."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from generation.errors import UserError
from generation.files import file_digest
from personamem_builder.schema import SCHEMA_VERSION

MANIFEST: Final = "manifest.json"
AUDIT: Final = "audit.json"
FORMAT: Final = "personamem"


def questions_path(split: str) -> str:
    """Return where the questions of a split lie, relative to the dataset folder."""
    return f"data/questions_{split}.parquet"


def contexts_path(split: str) -> str:
    """Return where the shared contexts of a split lie, relative to the dataset folder."""
    return f"data/shared_contexts_{split}.parquet"


def is_dataset_folder(folder: Path) -> bool:
    """Say whether a folder is a dataset that personamem wrote."""
    try:
        return bool(json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["format"] == FORMAT)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest of a dataset folder.

    Raises:
        UserError: There is none, or it belongs to a newer personamem.
    """
    if not is_dataset_folder(folder):
        raise UserError(
            f"{folder} is not a personamem dataset folder (no {MANIFEST} of ours in it)",
            "make one: personamem import-official FOLDER --out personamem",
        )
    manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    if manifest["schema_version"] > SCHEMA_VERSION:
        raise UserError(
            f"{folder} has schema version {manifest['schema_version']}, this personamem reads up to {SCHEMA_VERSION}",
            "pip install --upgrade personamem",
        )
    return manifest


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


def content_digest(table: pa.Table) -> str:
    """Return the sha256 of a table's rows, as JSON with sorted keys, a line each.

    Unlike the digest of a Parquet file it does not depend on the version of the library that wrote the file.
    """
    digest = hashlib.sha256()
    for batch in table.to_batches(max_chunksize=1000):
        for row in batch.to_pylist():
            digest.update(json.dumps(row, sort_keys=True, separators=(",", ":")).encode() + b"\n")
    return digest.hexdigest()


def changed_files(folder: Path) -> list[str]:
    """Return the data files that are missing or whose bytes are not those of the manifest."""
    files = read_manifest(folder)["files"]
    return [
        name
        for name, entry in files.items()
        if not (folder / name).is_file() or file_digest(folder / name) != entry["sha256"]
    ]
