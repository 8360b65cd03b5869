"""One process at a time writes to the folder of a run."""

from __future__ import annotations

import datetime as dt
import errno
import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict, Field

from generation.errors import UserError
from generation.reading import read_model

LOCK: Final = ".lock"
"""The file that the operating system locks. It is empty: some versions of filelock empty it whenever they try."""

HOLDER: Final = ".lock.json"
"""Says who holds the lock. Only who fails to get the lock reads it, so what a kill left of it misleads nobody."""

_WAIT_SECONDS: Final = 1.0  # for a new holder to put its name in the place of one that was killed


class Holder(BaseModel):
    """Who writes to the folder of a run.

    Attributes:
        since: When it began, in UTC.
    """

    model_config = ConfigDict(frozen=True)

    pid: int = Field(ge=1)
    host: str = Field(max_length=300)
    since: dt.datetime
    command: str = Field(max_length=300)

    def __str__(self) -> str:
        since = self.since.astimezone(dt.UTC)
        return f"process {self.pid} on {self.host} since {since:%Y-%m-%d %H:%M:%S} UTC: {self.command}"


@contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """Keep other processes from writing to a run's folder, which must exist, while the block lasts.

    The operating system frees the lock when the process ends, however it ends.

    Raises:
        UserError: Another process writes to it, or it cannot be locked.
    """
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise _held(folder) from None
    except (
        OSError,
        NotImplementedError,
    ) as error:  # the latter from older versions, where the file system has no locks
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            reason = "the disk is full"
        raise UserError(
            f"{folder / LOCK} cannot be locked: {reason}",
            "mend the folder's rights or free some space, or give another folder, on a disk of this computer",
        ) from error
    try:
        _say_holder(folder)
        yield
    finally:
        with suppress(OSError):
            (folder / HOLDER).unlink(missing_ok=True)
        lock.release()


def refuse_while_written(folder: Path) -> None:
    """Refuse to read the folder of a run that another process is changing.

    Raises:
        UserError: One is.
    """
    if not (folder / LOCK).is_file():
        return
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=_WAIT_SECONDS)  # another reader may be looking at this moment
    except Timeout:
        raise _held(folder) from None
    except (OSError, NotImplementedError):  # a folder that cannot be locked cannot be written to either
        return
    lock.release()


def _say_holder(folder: Path) -> None:
    command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:2]])
    holder = Holder(
        pid=os.getpid(), host=socket.gethostname()[:300], since=dt.datetime.now(dt.UTC), command=command[:300]
    )
    with suppress(OSError):  # the lock holds without it; who reads half of it reads again
        (folder / HOLDER).write_text(holder.model_dump_json() + "\n", encoding="utf-8")


def _held(folder: Path) -> UserError:
    holder = _holder(folder)
    by = str(holder) if holder else "another process"
    return UserError(
        f"{folder} is being written by {by}",
        "wait until it has ended, or end it; the same command then goes on from what it has made",
    )


def _holder(folder: Path) -> Holder | None:
    """Return who holds the lock; None if it did not say so in a second."""
    end = time.monotonic() + _WAIT_SECONDS
    while True:
        try:
            holder = read_model(folder / HOLDER, Holder)
        except UserError:
            holder = None
        if holder is not None and not _is_gone(holder):
            return holder
        if time.monotonic() > end:
            return None
        time.sleep(0.02)


def _is_gone(holder: Holder) -> bool:
    if holder.host != socket.gethostname() or sys.platform == "win32":  # where `os.kill` kills, whatever the signal
        return False
    try:
        os.kill(holder.pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):  # it is another user's, or no number of a process
        return False
    return False
