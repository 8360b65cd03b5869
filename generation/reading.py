"""The one way in for YAML, JSON and text that others wrote: bounded, and every fault named with its file and place."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Final, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from generation.errors import UserError

M = TypeVar("M", bound=BaseModel)

MAX_FILE_BYTES: Final = 256 * 2**20
"""Longest JSON or YAML file that is read into memory whole."""

MAX_DEPTH: Final = 100
"""Lists and mappings inside one another."""

MAX_DIGITS: Final = 19
"""Digits of a whole number: those of 64 bits."""

MAX_NODES: Final = 100_000
"""Values of a YAML file, with those that an alias repeats counted each time."""

_DAMAGED: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
# libyaml is some ten times faster than the loader in Python; a few platforms lack it.
_SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# What PyYAML's constructors raise on scalars that look like a date or a number and are none.
_NOT_CONSTRUCTED: Final = (ValueError, TypeError, AttributeError, LookupError, OverflowError)


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

    Args:
        path: The file.
        hint: What to do where it cannot be read.

    Raises:
        UserError: It is absent, too long or in another encoding.
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
    return decode(content, str(path), hint)


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

    Args:
        text: One value.
        where: The file, and line if there are several, for the message.
        hint: What to do where it is no JSON.

    Raises:
        UserError: It is no JSON, is nested deeper than `MAX_DEPTH`, or holds a whole number of more than
            `MAX_DIGITS` digits.
    """
    try:
        value = json.loads(text, parse_int=_bounded_int)
    except RecursionError as error:
        raise UserError(f"{where}: {_TOO_DEEP}", hint) from error
    except ValueError as error:
        raise UserError(f"{where} is no JSON: {error}", hint) from error
    if text.count("[") + text.count("{") > MAX_DEPTH and _is_too_deep(value):
        raise UserError(f"{where}: {_TOO_DEEP}", hint)
    if "\\u" in text or _DAMAGED.search(text):
        value = clean(value)
    return value


_TOO_DEEP: Final = f"lists and mappings are nested deeper than the limit of {MAX_DEPTH}"


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

    Args:
        value: As JSON or YAML gave it.
        kind: The form.
        where: The file, and line if there are several, for the message.
        hint: What to do where it has another form.

    Raises:
        UserError: It has another form; all faults are named.
    """
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise UserError(f"{where}: {describe(error)}", hint) from error


def read_yaml(path: Path, hint: str = "") -> Any:
    """Read a YAML file.

    Raises:
        UserError: As `read_text` and `parse_yaml`.
    """
    return parse_yaml(read_text(path, hint), str(path), hint)


def parse_yaml(text: str, where: str, hint: str = "") -> Any:
    """Parse one YAML document with plain values only.

    Args:
        text: The document; its strings are made encodable (see `clean_text`).
        where: The file, for the message.
        hint: What to do where it is no such document.

    Raises:
        UserError: It is no YAML; a key stands twice in a mapping; a scalar is no value of its type, such as a date that
            does not exist; a whole number does not fit into 64 bits; or it is nested deeper than `MAX_DEPTH` or has
            more than `MAX_NODES` values.
    """
    try:
        if len(text) > 2 * MAX_NODES:  # a value takes two characters at least
            _check_events(text)
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None
            _check_size(node)
            value = loader.construct_document(node)
            return clean(value) if "\\" in text else value  # as they are, control characters are no YAML
        finally:
            loader.dispose()
    except RecursionError as error:
        raise UserError(f"{where}: {_TOO_DEEP}", hint) from error
    except yaml.YAMLError as error:
        raise UserError(f"{where} is no YAML: {_in_words(error)}", hint) from error


def _in_words(error: yaml.YAMLError) -> str:
    """Return what a YAML error says on one line, the place first."""
    if isinstance(error, yaml.MarkedYAMLError) and (mark := error.problem_mark or error.context_mark):
        return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem or error.context}"
    return " ".join(str(error).split())


class _Loader(_SafeLoader):  # type: ignore[misc]
    """Refuses a key that stands twice in a mapping, which YAML lets pass, and names the place of a faulty scalar."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        if isinstance(node, yaml.MappingNode):
            seen: set[tuple[str, str]] = set()
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                    if (key.tag, key.value) in seen:
                        raise _fault(f"the key {key.value!r} stands twice", key)
                    seen.add((key.tag, key.value))
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        try:
            value = super().construct_object(node, deep)
        except _NOT_CONSTRUCTED as error:
            kind = node.tag.rpartition(":")[2]
            shown = repr(node.value)[:60] if isinstance(node, yaml.ScalarNode) else "this"
            raise _fault(f"{shown} is no {kind}", node) from error
        if isinstance(value, int) and abs(value) >= 2**63:
            raise _fault("a whole number is beyond 64 bits", node)
        return value


def _check_events(text: str) -> None:
    """Raise where a document has too many values; none of them is kept in memory."""
    count = 0
    for event in yaml.parse(text, Loader=_SafeLoader):
        if isinstance(event, yaml.NodeEvent):
            count += 1
            if count > MAX_NODES:
                raise _fault(f"more than {MAX_NODES:,} values", event)


def _check_size(root: Any) -> None:
    """Raise where a document is too deep or, with its aliases written out, too large; nothing is written out."""
    measured: dict[int, tuple[int, int]] = {}
    under_way: set[int] = set()

    def measure(node: Any, depth: int) -> tuple[int, int]:
        """Return how many values a node holds, and how deep they are nested."""
        if isinstance(node, yaml.ScalarNode):
            return 1, 0
        key = id(node)
        if key in under_way:
            raise _fault("a value holds itself, by an alias", node)
        if key not in measured:
            if depth > MAX_DEPTH:
                raise _fault(_TOO_DEEP, node)
            under_way.add(key)
            inner = (part for pair in node.value for part in pair) if isinstance(node, yaml.MappingNode) else node.value
            sizes = [measure(part, depth + 1) for part in inner]
            under_way.remove(key)
            measured[key] = 1 + sum(size for size, _ in sizes), 1 + max((height for _, height in sizes), default=0)
        size, height = measured[key]
        if height > MAX_DEPTH:
            raise _fault(_TOO_DEEP, node)
        if size > MAX_NODES:
            raise _fault(f"more than {MAX_NODES:,} values, as its aliases repeat them", node)
        return size, height

    measure(root, 1)


def _fault(problem: str, node: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)


def describe(error: ValidationError) -> str:
    """Return the faults of a validation as one line: where, what, and the value if it is short."""
    faults = [_describe(fault) for fault in error.errors()]
    more = len(faults) - _FAULTS_SHOWN
    return "; ".join(faults[:_FAULTS_SHOWN]) + (f"; and {more} more" if more > 0 else "")


_FAULTS_SHOWN: Final = 20


def _describe(fault: Any) -> str:
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
    """Return several errors as one, each hint once.

    Args:
        errors: One or more.
        head: What stands above them.
    """
    more = len(errors) - _ERRORS_SHOWN
    lines = [*([head] if head else []), *(error.message for error in errors[:_ERRORS_SHOWN])]
    lines += [f"and {more} more"] if more > 0 else []
    hints = dict.fromkeys(error.hint for error in errors if error.hint)
    return UserError("\n".join(lines), "; ".join(hints))
