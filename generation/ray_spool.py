"""Where large calls and results lie on their way to and from a Ray cluster."""

from __future__ import annotations

import platform
import uuid
from pathlib import Path
from typing import Final, NamedTuple

from generation.errors import UserError

LARGE: Final = 100_000
"""Bytes from which arguments and results go through files, where there is a folder for them. Ray sends what is smaller
along with a call or an answer, so that nothing of ours is ever in its object store but what workers start with."""

Sent = bytes | str
"""Bytes, or the name of the file of the spool that has them."""


class Spool(NamedTuple):
    """A folder that all machines of a cluster share; None where all bytes are small."""

    folder: Path | None

    def put(self, data: bytes) -> Sent:
        """Return what is to be sent for these bytes.

        Raises:
            UserError: The folder cannot be written.
        """
        if self.folder is None or len(data) < LARGE:
            return data
        name = uuid.uuid4().hex
        part = self.folder / f".{name}.part"
        try:
            part.write_bytes(data)
            part.replace(self.folder / name)
        except OSError as error:
            raise UserError(f"{self.folder} cannot be written by {platform.node()}: {error.strerror}") from error
        return name

    def get(self, sent: Sent) -> bytes:
        """Return the bytes that were sent; their file stays.

        Raises:
            UserError: It cannot be read.
        """
        if isinstance(sent, bytes):
            return sent
        path = self._path(sent)
        try:
            return path.read_bytes()
        except OSError as error:
            raise UserError(f"{path} cannot be read by {platform.node()}: {error.strerror}") from error

    def remove(self, sent: Sent) -> None:
        """Remove the file of what was sent, if there is one."""
        if isinstance(sent, str):
            self._path(sent).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        assert self.folder is not None
        return self.folder / name
