"""A text stream around another one, which it seems to be."""

from __future__ import annotations

import io
import threading
from typing import Any, TextIO


class WrappedStream(io.TextIOBase):
    """Says of itself what the other stream says; what is written is for subclasses."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = threading.RLock()  # a signal's handler may write while its thread writes

    def flush(self) -> None:
        """Pass on what the stream holds back."""
        self._stream.flush()

    def isatty(self) -> bool:
        """Say whether it goes to a terminal."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """Return the number of the file, for its size and kind; what is written there is not looked at."""
        return self._stream.fileno()

    def writable(self) -> bool:
        """Say that it can be written to."""
        return True

    @property
    def closed(self) -> bool:
        """Whether the stream is closed."""
        return self._stream.closed

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """That of the stream."""
        return self._stream.encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        """What becomes of characters that the encoding lacks."""
        return self._stream.errors

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
