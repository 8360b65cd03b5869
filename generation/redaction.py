"""Keys never reach a screen, a log or a results file: what looks like one is replaced before it is written."""

from __future__ import annotations

import os
import re
from typing import Any, Final, TextIO

_HIDDEN: Final = "[redacted]"
_SECRET_NAME: Final = re.compile(r"(?:^|_)(?:KEY|TOKEN|SECRET|PASSWORD)S?$")
_SHORTEST: Final = 8
"""Characters of a value that is hidden; shorter ones are placeholders, such as `none`, that any word may hold."""

_HEADERS: Final = re.compile(
    r"""(?ix)
    (authorization|x-api-key|api-key|x-goog-api-key|cookie|set-cookie) ( ['"]? \s* [:=,] \s* \(? \s* (?: b? ['"] )? )
    (?: (?:bearer|basic|token) \s+ )? [^\s'",;)}\]]+
    """
)
_BEARER: Final = re.compile(r"(?i)\b(bearer\s+)[a-z0-9._~+/=-]{8,}")
_IN_URL: Final = re.compile(r"(?i)(\bhttps?://)[^\s/@'\"]+@")


def redact(text: str) -> str:
    """Return a text without keys.

    Hidden are the values of environment variables whose names end in KEY, TOKEN, SECRET or PASSWORD, what stands in
    the headers that carry keys, and passwords in URLs.
    """
    for value in _secrets():
        text = text.replace(value, _HIDDEN)
    text = _HEADERS.sub(rf"\1\2{_HIDDEN}", text)
    text = _BEARER.sub(rf"\1{_HIDDEN}", text)
    return _IN_URL.sub(rf"\1{_HIDDEN}@", text)


def redact_data(value: Any) -> Any:
    """Return data as JSON has them with `redact` applied to every string that is a value."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {key: _HIDDEN if _is_header(key) else redact_data(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [redact_data(item) for item in value]
    return value


def _is_header(key: object) -> bool:
    return isinstance(key, str) and _HEADERS.match(f"{key}: value") is not None


def _secrets() -> list[str]:
    """Return the values to hide, longest first: one may be a part of another."""
    values = {value.strip() for name, value in os.environ.items() if _SECRET_NAME.search(name.upper())}
    return sorted((value for value in values if len(value) >= _SHORTEST), key=lambda value: (-len(value), value))


class RedactingStream:
    """A text stream that writes what it is given without keys; all else is the stream's own.

    Args:
        stream: Where it goes.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write a text without keys."""
        self._stream.write(redact(text))
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        """Write texts without keys."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
