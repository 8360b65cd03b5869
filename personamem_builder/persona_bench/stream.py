"""JSON of any length, a value at a time, within bounds that hold before the parser sees a byte.

ijson streams, but its fast backend crashes the interpreter on whole numbers of more than 4,300 digits, and what it
calls the prefix of a value takes memory with the square of the depth. So the bytes are looked over first, and only its
plain events are used.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from types import ModuleType
from typing import IO, Any, Final

from generation.errors import UserError
from generation.reading import clean_text
from generation.resources import install_hint

MAX_DEPTH: Final = 10_000
"""Lists and objects inside one another: two for each reply to a reply."""

MAX_NUMBER: Final = 100
"""Characters of a number."""

_REST_OF_STRING: Final = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_STRINGS: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_BRACKETS: Final = re.compile(rb"[\[\]{}]")
_LONG_NUMBER: Final = re.compile(rb"[-+.0-9eE]{%d}" % (MAX_NUMBER + 1))
_NUMBER_AT_END: Final = re.compile(rb"[-+.0-9eE]*\Z")
_OPEN: Final = (b"[", b"{")
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_ESCAPES: Final = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.", re.DOTALL
)
"""Pairs of surrogates, then lone ones, then all other escapes."""
_MOST_HELD: Final = 2**20

Event = tuple[str, Any]


class JsonError(ValueError):
    """What is wrong with a JSON text, in words."""


class _Bounded:
    """A file that raises `JsonError` as soon as what was read of it is nested too deep or has too long a number.

    Lone surrogates, which the parser takes for damaged text, become U+FFFD.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._depth = 0
        self._in_string = False
        self._in_escape = False
        self._number = b""
        self._held = b""

    def read(self, size: int = -1) -> bytes:
        chunk = self._whole_escapes(size) if size else b""
        self._check(self._outside_strings(chunk))
        return chunk

    def _whole_escapes(self, size: int) -> bytes:
        """Return the next bytes, cut where no escape is cut, with lone surrogates replaced."""
        while True:
            more = self._file.read(size)
            chunk = self._held + more
            cut = len(chunk)
            if more and cut < _MOST_HELD:
                cut = 1 + max(chunk.rfind(b","), chunk.rfind(b" "))  # neither is ever part of an escape
            self._held = chunk[cut:]
            if cut or not more:
                break
        chunk = chunk[:cut]
        if _SURROGATE.search(chunk):
            chunk = _ESCAPES.sub(lambda escape: rb"\ufffd" if escape[1] else escape[0], chunk)
        return chunk

    def _outside_strings(self, chunk: bytes) -> bytes:
        """Return what of a chunk is in no string."""
        rest = chunk
        if self._in_escape and rest:
            rest, self._in_escape = rest[1:], False
        if self._in_string:
            end = self._end_of_string(rest)
            if end == len(rest):
                return b""
            rest = rest[end + 1 :]
        rest = _STRINGS.sub(b" ", rest)
        outside, quote, opened = rest.partition(b'"')
        self._in_string = bool(quote)
        if quote:
            self._end_of_string(opened)
        return outside

    def _end_of_string(self, rest: bytes) -> int:
        match = _REST_OF_STRING.match(rest)
        end = match.end() if match else 0
        if rest[end:] == b"\\":
            self._in_escape, end = True, end + 1
        return end

    def _check(self, outside: bytes) -> None:
        if _LONG_NUMBER.search(self._number + outside):
            raise JsonError(f"a number is longer than the limit of {MAX_NUMBER} characters")
        tail = _NUMBER_AT_END.search(outside)
        whole = tail is not None and tail.start() == 0
        self._number = (self._number if whole else b"") + (tail[0] if tail else b"")
        opened = outside.count(b"[") + outside.count(b"{")
        if self._depth + opened > MAX_DEPTH:
            for bracket in _BRACKETS.findall(outside):
                self._depth += 1 if bracket in _OPEN else -1
                if self._depth > MAX_DEPTH:
                    raise JsonError(f"lists and objects are nested deeper than the limit of {MAX_DEPTH:,}")
        else:
            self._depth += opened - outside.count(b"]") - outside.count(b"}")


def items(file: IO[bytes]) -> Iterator[Any]:
    """Yield the values of a list.

    Raises:
        JsonError: The file is no JSON, or beyond the bounds.
        UserError: There is no ijson.
    """
    events = _events(file)
    next(events, None)
    for event, value in events:
        if event == "end_array":
            break
        yield _build(events, event, value)
    _finish(events)


def entries(file: IO[bytes]) -> Iterator[tuple[str, Any]]:
    """Yield the keys and values of an object; raises as `items`."""
    events = _events(file)
    next(events, None)
    for event, key in events:
        if event == "end_map":
            break
        yield key, _build(events, *next(events))
    _finish(events)


def parse(text: bytes) -> Any:
    """Return one value; raises as `items`."""
    events = _events(io.BytesIO(text))
    value = _build(events, *next(events))
    _finish(events)
    return value


def _events(file: IO[bytes]) -> Iterator[Event]:
    ijson = _ijson()
    try:
        for event, value in ijson.basic_parse(_Bounded(file)):
            yield event, clean_text(value) if isinstance(value, str) else value
    except (ijson.JSONError, UnicodeDecodeError) as error:
        raise JsonError(_in_words(error)) from error


def _finish(events: Iterator[Event]) -> None:
    for _ in events:  # the parser tells what stands behind a value
        pass


def _build(events: Iterator[Event], event: str, value: Any) -> Any:
    """Return the value that starts with an event; nothing here calls itself, so that it may be deep."""
    if event not in ("start_map", "start_array"):
        return value
    outermost: Any = {} if event == "start_map" else []
    stack: list[Any] = []
    keys: list[str] = []
    key, container = "", outermost
    for event, value in events:
        if event == "map_key":
            key = value
            continue
        if event in ("end_map", "end_array"):
            if not stack:
                return outermost
            container, key = stack.pop(), keys.pop()
            continue
        made = {} if event == "start_map" else [] if event == "start_array" else value
        if isinstance(container, dict):
            container[key] = made
        else:
            container.append(made)
        if event in ("start_map", "start_array"):
            stack.append(container)
            keys.append(key)
            container = made
    raise JsonError("truncated JSON: the file ends within a value")


def _in_words(error: Exception) -> str:
    detail = error.args[0] if error.args and not isinstance(error, UnicodeDecodeError) else str(error)
    text = detail.decode(errors="replace") if isinstance(detail, bytes) else str(detail)
    if "EOF" in text or "ncomplete" in text:
        return "truncated JSON: the file ends within a value"
    return f"not JSON: {clean_text(text.splitlines()[0])}" if text else "not JSON"


def _ijson() -> ModuleType:
    try:
        import ijson
    except ImportError as error:
        raise UserError("reading PERSONA-Bench needs ijson", install_hint("persona-bench")) from error
    module: ModuleType = ijson
    return module
