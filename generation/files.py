"""Files that are either whole or absent."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a path to write to; the file takes the place of `path` when the block ends well.

    The new file lies beside the old one until it is complete and on the disk, so that a kill or a full disk leaves
    the old one as it was.

    Args:
        path: The file to make or replace; its folder must exist.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield part
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def file_digest(path: Path) -> str:
    """Return the sha256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
