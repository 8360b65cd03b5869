"""Dataset folders whose Parquet was damaged, with a manifest that says so of itself."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from generation.files import file_digest

Rows = list[dict[str, Any]]
Damage = Callable[[Rows], object]

QUESTIONS = "data/questions_32k.parquet"
CONTEXTS = "data/shared_contexts_32k.parquet"


def damaged(folder: Path, out: Path, name: str, damage: Damage) -> Path:
    """Copy a dataset with the rows of a file changed.

    Args:
        folder: The dataset.
        out: The copy.
        name: Of the file.
        damage: Changes the rows in place.
    """
    shutil.copytree(folder, out)
    table = pq.read_table(out / name)
    rows = table.to_pylist()
    damage(rows)
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), out / name)
    return seal(out, name)


def with_table(folder: Path, out: Path, name: str, change: Callable[[pa.Table], pa.Table]) -> Path:
    """Copy a dataset with the table of a file changed; arguments as for `damaged`."""
    shutil.copytree(folder, out)
    pq.write_table(change(pq.read_table(out / name)), out / name)
    return seal(out, name)


def with_bytes(folder: Path, out: Path, name: str, change: Callable[[bytes], bytes]) -> Path:
    """Copy a dataset with the bytes of a file changed; arguments as for `damaged`."""
    shutil.copytree(folder, out)
    (out / name).write_bytes(change((out / name).read_bytes()))
    return seal(out, name)


def seal(folder: Path, name: str) -> Path:
    """Have the manifest name the file as it is now, as whoever made it by hand would."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    manifest["files"][name] = {"bytes": (folder / name).stat().st_size, "sha256": file_digest(folder / name)}
    path.write_text(json.dumps(manifest), encoding="utf-8")
    return folder
