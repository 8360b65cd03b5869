"""Files of records, one JSON line each with a digest of itself: written, read, and cut at a half-written line."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from generation.errors import UserError
from generation.files import replacing
from generation.reading import describe
from generation.records import Record

R = TypeVar("R", bound=BaseModel)

_PERSONA: Final = re.compile(rb'"persona_id":(\d+)')
_DIGEST: Final = "digest"


class LineSpan(NamedTuple):
    """Some lines of a file.

    Attributes:
        start: Where the first begins, in bytes.
        number: Of the first line, from 1.
    """

    start: int
    end: int
    number: int


def persona_spans(path: Path, persona_of: Callable[[bytes], int | None] | None = None) -> dict[int, LineSpan]:
    """Return where the records of each persona lie in a file, which is in the order of personas.

    Args:
        path: The file.
        persona_of: Returns the persona of a line, None if it does not tell; by default its `persona_id`.

    Raises:
        UserError: The file cannot be read, or a line is damaged beyond telling whose it is.
    """
    spans: dict[int, LineSpan] = {}
    at = 0
    for number, line in enumerate(_lines(path), start=1):
        persona_id = (persona_of or named_persona)(line)
        if persona_id is None:
            raise _damaged(path, number, "it names no persona")
        span = spans.get(persona_id, LineSpan(at, at, number))
        if span.end != at:
            raise _damaged(path, number, f"other lines stand between it and those of persona {persona_id}")
        at += len(line)
        spans[persona_id] = span._replace(end=at)
    return spans


def named_persona(line: bytes) -> int | None:
    """Return the persona that a line names, None if it names none."""
    match = _PERSONA.search(line)
    return int(match[1]) if match else None


def read_records(path: Path, kind: type[R], span: LineSpan | None = None) -> Iterator[R]:
    """Yield the records of a file, or those of some of its lines.

    Raises:
        UserError: The file cannot be read, or a line is damaged; it is named.
    """
    for number, line in enumerate(_lines(path, span), start=span.number if span else 1):
        yield _parse(path, number, line, kind)


def _lines(path: Path, span: LineSpan | None = None) -> Iterator[bytes]:
    try:
        file = path.open("rb")
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}", "restore the file, or make it anew") from error
    with file:
        if span is None:
            yield from file
        else:
            file.seek(span.start)
            yield from io.BytesIO(file.read(span.end - span.start))


def record_line(record: Record) -> bytes:
    """Return the line that a file holds of a record, with its digest."""
    text = record.model_dump_json(exclude_defaults=False)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return f'{text[:-1]},"{_DIGEST}":"{digest}"}}\n'.encode()


def _parse(path: Path, number: int, line: bytes, kind: type[R]) -> R:
    text, mark, digest = line.decode(errors="replace").rpartition(f',"{_DIGEST}":"')
    if not mark or not text:
        raise _damaged(path, number, "it does not end with a digest")
    text += "}"
    if digest.rstrip('"}\n') != hashlib.sha256(text.encode()).hexdigest()[:16]:
        raise _damaged(path, number, "its content does not fit its digest")
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        where = f"{path}, line {number}"
        raise UserError(f"{where}: {describe(error)}", "the run is of another version; give another --out") from error


def _damaged(path: Path, number: int, why: str) -> UserError:
    return UserError(
        f"{path}, line {number} is damaged: {why}",
        "restore the file, or remove it and run again: the stage and those after it are made anew",
    )


@contextmanager
def writing_lines(path: Path) -> Iterator[Callable[[bytes], int]]:
    """Give a function that writes lines to a file, which is there when the block ends well, or not at all."""
    with named_write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as part, part.open("wb") as file:
            yield file.write
            file.flush()


def cut_half_line(path: Path) -> None:
    """Cut what a kill left of a line at the end of a file."""
    with named_write_errors(path), path.open("rb+") as file:
        size = file.seek(0, os.SEEK_END)
        end = _end_of_lines(file, size)
        if end < size:
            file.truncate(end)


def cut_from_persona(path: Path, persona_id: int) -> None:
    """Cut the records of a persona, and of those after, from a file that is in the order of personas.

    Raises:
        UserError: A line is damaged beyond telling whose it is, or the file cannot be written.
    """
    end = max((span.end for id_, span in persona_spans(path).items() if id_ < persona_id), default=0)
    with named_write_errors(path), path.open("rb+") as file:
        if end < file.seek(0, os.SEEK_END):
            file.truncate(end)


def _end_of_lines(file: IO[bytes], size: int) -> int:
    """Return the position after the last line feed."""
    at = size
    while at > 0:
        start = max(0, at - 65536)
        file.seek(start)
        found = file.read(at - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        at = start
    return 0


@contextmanager
def named_write_errors(path: Path) -> Iterator[None]:
    """Turn an `OSError` of the block into a `UserError` that names the file and says what to do."""
    try:
        yield
    except OSError as error:
        problem = f"{path} cannot be written: {error.strerror}"
        hint = "give another --out, or mend the folder's rights"
        if error.errno == errno.ENOSPC:
            problem = f"{path} cannot be written: the disk is full"
            hint = "free some space and rerun the command; it goes on where it stopped"
        raise UserError(problem, hint) from error
