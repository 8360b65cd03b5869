"""The one way in for JSON and text that others wrote: bounded, and every fault named with its file and place."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from generation.errors import UserError

M = TypeVar("M", bound=BaseModel)

MAX_FILE_BYTES: Final = 256 * 2**20
"""Longest JSON or YAML file that is read into memory whole."""

MAX_DEPTH: Final = 100
"""Lists and mappings inside one another."""

MAX_DIGITS: Final = 19
"""Digits of a whole number: those of 64 bits."""

_DAMAGED: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


def clean_text(text: str) -> str:
    """Return a text that every encoder takes: lone surrogates and control characters become U+FFFD.

    Tabs and line ends stay.
    """
    return _DAMAGED.sub("\ufffd", text)


def clean(value: Any) -> Any:
    """Return data as JSON has them with `clean_text` applied to every string, keys included."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        return [clean(item) for item in value]
    if isinstance(value, dict):
        return {clean(key): clean(item) for key, item in value.items()}
    return value


def read_text(path: Path, hint: str = "") -> str:
    """Read a text file in UTF-8, with or without a byte order mark.

    Raises:
        UserError: It is absent, too long or in another encoding.
    """
    return decode(read_bytes(path, hint), str(path), hint)


def read_bytes(path: Path, hint: str = "") -> bytes:
    """Read a file whole.

    Raises:
        UserError: It is absent or too long.
    """
    try:
        with path.open("rb") as file:
            # A read sets aside all that it is asked for; of a pipe the size is not known.
            size = os.fstat(file.fileno()).st_size if path.is_file() else MAX_FILE_BYTES
            content = file.read(min(size, MAX_FILE_BYTES) + 1)
    except (OSError, ValueError) as error:  # ValueError: a path with a null character
        raise UserError(f"{path}: {getattr(error, 'strerror', None) or error}", hint) from error
    if len(content) > MAX_FILE_BYTES:
        raise UserError(f"{path} is longer than the limit of {MAX_FILE_BYTES // 2**20} MiB", hint)
    return content


def decode(content: bytes, where: str, hint: str = "") -> str:
    """Return bytes as UTF-8 text, without the byte order mark.

    Raises:
        UserError: They are in another encoding; the place is named.
    """
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        message = f"{where}, line {line}: byte {error.start} (0x{content[error.start]:02x}) is not UTF-8"
        raise UserError(message, hint or "save it in UTF-8") from error


def parse_json(text: str, where: str, hint: str = "") -> Any:
    """Parse JSON, with its strings made encodable (see `clean_text`).

    Raises:
        UserError: It is no JSON, is nested deeper than `MAX_DEPTH`, or holds a whole number of more than
            `MAX_DIGITS` digits.
    """
    try:
        value = json.loads(text, parse_int=_bounded_int)
    except RecursionError as error:
        raise UserError(f"{where}: {TOO_DEEP}", hint) from error
    except ValueError as error:
        raise UserError(f"{where} is not JSON: {error}", hint) from error
    if text.count("[") + text.count("{") > MAX_DEPTH and _is_too_deep(value):
        raise UserError(f"{where}: {TOO_DEEP}", hint)
    if "\\u" in text or _DAMAGED.search(text):
        value = clean(value)
    return value


TOO_DEEP: Final = f"lists and mappings are nested deeper than the limit of {MAX_DEPTH}"


def _bounded_int(digits: str) -> int:
    if len(digits.lstrip("-")) > MAX_DIGITS:
        raise ValueError(f"a whole number of {len(digits.lstrip('-')):,} digits is over the limit of {MAX_DIGITS}")
    return int(digits)


def _is_too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        inner = (item for outer in level for item in (outer.values() if isinstance(outer, dict) else outer))
        level = [item for item in inner if isinstance(item, (dict, list))]
    return bool(level)


def read_json(path: Path, hint: str = "") -> Any:
    """Read a JSON file.

    Raises:
        UserError: As `read_text` and `parse_json`.
    """
    return parse_json(read_text(path, hint), str(path), hint)


def json_lines(path: Path, hint: str = "") -> Iterator[tuple[int, Any]]:
    """Yield the number and the value of each line of a JSONL file that is not blank.

    Raises:
        UserError: As `read_text` and `parse_json`; the line is named.
    """
    # Not `splitlines`: a JSON string may hold other characters that end a line.
    for number, line in enumerate(read_text(path, hint).split("\n"), start=1):
        if line.strip():
            yield number, parse_json(line, f"{path}, line {number}", hint)


def read_model(path: Path, kind: type[M], hint: str = "") -> M:
    """Read a JSON file of a known form.

    Raises:
        UserError: As `read_json`, or the content has another form; all faults are named.
    """
    return as_model(read_json(path, hint), kind, str(path), hint)


def as_model(value: Any, kind: type[M], where: str, hint: str = "") -> M:
    """Return data in a known form.

    Raises:
        UserError: It has another form; all faults are named.
    """
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise UserError(f"{where}: {describe(error)}", hint) from error


def describe(error: ValidationError) -> str:
    """Return the faults of a validation as one line: where, what, and the value if it is short."""
    faults = [describe_fault(fault) for fault in error.errors()]
    more = len(faults) - _FAULTS_SHOWN
    return "; ".join(faults[:_FAULTS_SHOWN]) + (f"; and {more} more" if more > 0 else "")


_FAULTS_SHOWN: Final = 20


def describe_fault(fault: Any) -> str:
    """Return a fault of a validation in words."""
    where = ".".join(str(part) for part in fault["loc"])
    if fault["type"] == "extra_forbidden":
        return f"unknown key {where!r}"
    message = fault["msg"].removeprefix("Value error, ")
    value = repr(fault["input"])
    shown = f" (it is {value})" if len(value) < 60 and fault["type"] not in ("missing", "value_error") else ""
    return f"{where}: {message}{shown}" if where else message


MAX_LINE_BYTES: Final = 64 * 2**20
"""Longest line of a file that is read line by line."""


def bounded_lines(path: Path, hint: str = "") -> Iterator[tuple[int, bytes]]:
    """Yield the number and the bytes of each line that is not blank; one of them is in memory at a time.

    Raises:
        UserError: The file cannot be read, or a line is longer than `MAX_LINE_BYTES`.
    """
    try:
        file = path.open("rb")
    except (OSError, ValueError) as error:  # ValueError: a path with a null character
        raise UserError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}", hint) from error
    with file:
        number = 0
        while line := _next_line(file, path, hint):
            number += 1
            if len(line) > MAX_LINE_BYTES:
                raise UserError(f"{path}, line {number}: longer than the limit of {MAX_LINE_BYTES // 2**20} MiB", hint)
            if line.strip():
                yield number, line


def _next_line(file: IO[bytes], path: Path, hint: str) -> bytes:
    try:
        return file.readline(MAX_LINE_BYTES + 1)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}", hint) from error


def parse_json_line(line: bytes, where: str, hint: str = "") -> Any:
    """Parse a line of a JSONL file.

    Raises:
        UserError: As `parse_json`, or the line is not UTF-8.
    """
    try:
        text = line.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"{where}: byte {error.start + 1} (0x{line[error.start]:02x}) is not UTF-8"
        raise UserError(message, hint or "save it in UTF-8") from error
    return parse_json(text, where, hint)


_ERRORS_SHOWN: Final = 20


def as_one(errors: Sequence[UserError], head: str = "") -> UserError:
    """Return several errors as one, each hint once."""
    more = len(errors) - _ERRORS_SHOWN
    lines = [*([head] if head else []), *(error.message for error in errors[:_ERRORS_SHOWN])]
    lines += [f"and {more} more"] if more > 0 else []
    hints = dict.fromkeys(error.hint for error in errors if error.hint)
    return UserError("\n".join(lines), "; ".join(hints))
