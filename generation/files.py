"""Files and folders that are either whole or absent."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a path to write to; the file takes the place of `path` when the block ends well. Its folder must exist.

    The new file lies beside the old one until it is complete and on the disk, so that a kill or a full disk leaves
    the old one as it was.
    """
    # A process of another machine, or container, may have the same number.
    part = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        yield part
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def replacing_folder(out: Path) -> Iterator[Path]:
    """Give a new folder to fill; it takes the place of `out`, or of what that links to, when the block ends well.

    Until then the old one is as it was, also after a kill. Two processes that make the same folder wait for each other.
    """
    from filelock import FileLock

    if out.is_symlink():
        out = out.resolve()
    out.parent.mkdir(parents=True, exist_ok=True)
    name = hashlib.sha256(str(out.resolve()).encode()).hexdigest()[:16]
    with FileLock(Path(tempfile.gettempdir()) / f"personamem-{name}.lock"):
        for left in out.parent.glob(f".{out.name}.new-*"):  # by a run that was killed: the lock is ours
            shutil.rmtree(left, ignore_errors=True)
        yield from _swapped_in(out)


def _swapped_in(out: Path) -> Iterator[Path]:
    old = out.with_name(f".{out.name}.old")
    if old.exists() and not out.exists():  # killed between the two renames below
        old.rename(out)
    new = Path(tempfile.mkdtemp(prefix=f".{out.name}.new-", dir=out.parent))
    new.chmod(0o755)  # mkdtemp makes it private
    try:
        yield new
        _sync(new)
        shutil.rmtree(old, ignore_errors=True)
        if out.exists():
            out.rename(old)
        try:
            new.rename(out)
        except OSError:
            if old.exists():
                old.rename(out)
            raise
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _sync(folder: Path) -> None:
    for path in [*folder.rglob("*"), folder]:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def json_digest(value: Any) -> str:
    """Return the sha256 of a value as JSON with sorted keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def file_digest(*paths: Path) -> str:
    """Return the sha256 of a file's bytes, or of those of several files one after another."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            hashlib.file_digest(file, lambda: digest)
    return digest.hexdigest()
