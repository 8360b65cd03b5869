"""Keys never reach a screen, a log or a results file: what looks like one is replaced before it is written."""

from __future__ import annotations

import html
import io
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, Final, TextIO
from urllib.parse import quote, quote_plus

from generation.wrapped_stream import WrappedStream

_HIDDEN: Final = "[redacted]"
_SECRET_NAME: Final = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)S?$")
_SHORTEST: Final = 8
"""Characters of a value that is hidden; shorter ones are placeholders, such as `none`, that any word may hold."""

_QUOTES: Final = r"""(?: \\* ['"] )?"""
_HEADERS: Final = re.compile(
    rf"""(?ix)
    ( (?:proxy-)?authorization | x-api-key | api-key | x-goog-api-key | x-auth-token | set-cookie
    | cookie (?= \\*['"] ) )
    ( {_QUOTES} \s* (?: [:=] | (?<=['"]) , ) \s* [(\[]? \s* (?: b? \\* ['"] )? )
    (?: (?:bearer|basic|token|digest) \s+ )? [^\s'",;)}}\]\\]+
    """
)
_ARGUMENT: Final = re.compile(r"(?i)(?:api|auth|access|secret|private)[-_]?(?:key|token)$|password$|secret$")
_BEARER: Final = re.compile(r"(?i)\b(bearer\s+)[a-z0-9._~+/=-]{8,}")
_IN_URL: Final = re.compile(r"(?i)(\b[a-z][a-z0-9+.-]*://)[^\s/@'\"]+@")


def redact(text: str) -> str:
    """Return a text without keys.

    Hidden are the values of environment variables whose names end in KEY, TOKEN, SECRET, PASSWORD or CREDENTIALS, in
    every form in which a log may show them; what stands in the headers that carry keys; and passwords in URLs.
    """
    for form in _forms(_values()):
        text = text.replace(form, _HIDDEN)
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
    """Say whether what stands under a key is one of the other kind."""
    return isinstance(key, str) and bool(_HEADERS.match(f"{key}': 'value") or _ARGUMENT.search(key))


_given: Final[set[str]] = set()


def hide(value: str) -> None:
    """Have a key hidden from now on that was given in another way than by the environment."""
    _given.add(value.strip())


def _values() -> tuple[str, ...]:
    return tuple(sorted({value for name, value in os.environ.items() if _SECRET_NAME.search(name.upper())} | _given))


@lru_cache(maxsize=8)
def _forms(values: tuple[str, ...]) -> list[str]:
    """Return what to hide, longest first: one may be a part of another."""
    forms = {form for value in values for part in _parts(value) for form in _spellings(part)}
    return sorted((form for form in forms if len(form) >= _SHORTEST), key=lambda form: (-len(form), form))


def _parts(value: str) -> list[str]:
    """Return a value, and its lines if it has several: what is written comes line by line."""
    return [part for part in (value.strip(), *(line.strip() for line in value.splitlines())) if len(part) >= _SHORTEST]


def _spellings(value: str) -> Iterator[str]:
    """Yield the ways in which logs, errors, JSON, URLs and pages write a value."""
    data = value.encode(errors="surrogateescape")
    yield value
    yield from (repr(value)[1:-1], ascii(value)[1:-1], repr(data)[2:-1])
    yield from (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1])
    yield from (quote(data), quote(data, safe=""), quote_plus(data), html.escape(value))
    yield json.dumps(repr(value)[1:-1])[1:-1]


def hide_keys() -> None:
    """Make all that this process prints from now on go without keys."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, RedactingStream):
            setattr(sys, name, RedactingStream(stream))


class RedactingStream(WrappedStream):
    """A text stream that writes what it is given without keys.

    A line is held back until it is whole or the stream is flushed, as a key may come in pieces.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._held: list[str] = []

    def write(self, text: str, /) -> int:
        """Take a text; what are whole lines is written."""
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        with self._lock:
            end = max(text.rfind("\n"), text.rfind("\r")) + 1
            if end:
                whole = "".join([*self._held, text[:end]])
                self._held = []
                self._stream.write(redact(whole))
            if text[end:]:
                self._held.append(text[end:])
        return len(text)

    def writelines(self, lines: Iterable[Any], /) -> None:
        """Take several texts."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Write what is held back."""
        with self._lock:
            if self._held:
                held = "".join(self._held)
                self._held = []
                self._stream.write(redact(held))
            self._stream.flush()

    def close(self) -> None:
        """Write what is held back; the stream is the process's, and stays open."""
        if not self._stream.closed:
            self.flush()

    @property
    def buffer(self) -> io.BufferedIOBase:
        """The same stream for bytes."""
        return _RedactingBytes(self)


class _RedactingBytes(io.BufferedIOBase):
    """Takes bytes for a `RedactingStream`."""

    def __init__(self, text: RedactingStream) -> None:
        self._text = text

    def write(self, data: Any, /) -> int:
        encoding, errors = self._text.encoding or "utf-8", "replace"
        content = bytes(data)
        self._text.write(content.decode(encoding, errors))
        return len(content)

    def flush(self) -> None:
        self._text.flush()

    def close(self) -> None:
        self.flush()

    def isatty(self) -> bool:
        return self._text.isatty()

    def fileno(self) -> int:
        return self._text.fileno()

    def writable(self) -> bool:
        return True
