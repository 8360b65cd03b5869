"""A run folder: stage files of one JSON record a line, which grow in a fixed order and so can be resumed."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from generation.errors import UserError
from generation.files import replacing
from generation.reading import as_model, describe, json_lines, read_json
from generation.records import PERIODS, Record
from generation.run_lock import HOLDER, LOCK, refuse_while_written, writing_to

R = TypeVar("R", bound=BaseModel)

_PERSONA: Final = re.compile(rb'"persona_id":(\d+)')
_DIGEST: Final = "digest"
_CONFIG: Final = "config.json"
_FAILED: Final = "failed.jsonl"
_RESTORE: Final = "restore it, or give another --out and run again"


class _Fingerprint(BaseModel):
    """What `config.json` must hold for a run to be read; what else shaped the run is there too."""

    model_config = ConfigDict(strict=True)

    seed: int
    personas: int = Field(ge=1)
    persona_source: str | None
    persona_visible: Literal["demographics", "full", "none"]
    topics: list[str]
    periods: int = Field(ge=1, le=len(PERIODS))
    questions_per_topic: dict[str, int]
    fillers: int = Field(ge=0)
    backend: str | dict[str, str]
    llm: dict[str, Any] = {}


class Failure(BaseModel):
    """A line of `failed.jsonl`: an item that could not be made.

    Attributes:
        stage: Its stage.
        item: Names it.
        reason: What was wrong with the replies.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    stage: str
    item: str
    reason: str


class RunStore:
    """The folder of a run.

    Attributes:
        folder: The folder; `config.json` in it says what the run is made from, `stages/` holds a file a stage.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def open(cls, folder: Path, fingerprint: dict[str, Any]) -> RunStore:
        """Open the folder of a run to write to it, making it if it is not there.

        Args:
            folder: The folder.
            fingerprint: Everything that shapes the records, by key.

        Raises:
            UserError: The folder holds another run, or something else, or cannot be written, or another process is
                writing to it.
        """
        store = cls(folder)
        path = folder / _CONFIG
        if not _exists(path):
            if _exists(folder) and not (folder.is_dir() and all(map(_is_remnant, folder.iterdir()))):
                raise UserError(f"{folder} exists and is no run of personamem", "give another --out")
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise _unwritable(path, error) from error
            with writing_to(folder):
                if not _exists(path):  # else another process was faster
                    store._begin(fingerprint)
        store._compare(fingerprint)
        store._make_stages()
        return store

    def _begin(self, fingerprint: dict[str, Any]) -> None:
        path = self.folder / _CONFIG
        try:
            for part in self.folder.glob(".config.json.*.part"):
                part.unlink()
            self._make_stages()
            with replacing(path) as part:
                part.write_text(json.dumps(fingerprint, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        except OSError as error:
            raise _unwritable(path, error) from error

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Keep other processes from writing to the run while the block lasts.

        Raises:
            UserError: There is no run, another process writes to it, or the folder cannot be written.
        """
        self._read_config()
        with writing_to(self.folder):
            yield

    def refuse_while_written(self) -> None:
        """Refuse to read the run while another process writes to it.

        Raises:
            UserError: One does.
        """
        refuse_while_written(self.folder)

    def _make_stages(self) -> None:
        stages = self.folder / "stages"
        try:
            stages.mkdir(exist_ok=True)
        except OSError as error:
            raise _unwritable(stages, error) from error

    def fingerprint(self) -> dict[str, Any]:
        """Return what the run is made from.

        Raises:
            UserError: There is no run in the folder, or its `config.json` is damaged.
        """
        found = self._read_config()
        as_model(found, _Fingerprint, str(self.folder / _CONFIG), _RESTORE)
        return found

    def _read_config(self) -> dict[str, Any]:
        path = self.folder / _CONFIG
        if not _exists(path):
            raise UserError(f"{self.folder} is no run", "make one: personamem generate CONFIG --out FOLDER")
        found = read_json(path, _RESTORE)
        if not isinstance(found, dict):
            raise UserError(f"{path} is damaged: it holds no mapping", _RESTORE)
        return found

    def _compare(self, fingerprint: dict[str, Any]) -> None:
        found, wanted = self._read_config(), json.loads(json.dumps(fingerprint))
        differences = list(_differences(found, wanted))
        if not differences:
            return
        shown = "; ".join(f"{key}: {_short(there)} there, {_short(now)} now" for key, there, now in differences)
        raise UserError(
            f"{self.folder} holds a run of another configuration: {shown}",
            f"give another --out, or remove the folder to make it anew (rm -r {self.folder})",
        )

    def path(self, stage: str) -> Path:
        """Return the path of a stage file."""
        return self.folder / "stages" / f"{stage}.jsonl"

    def read(self, stage: str, kind: type[R]) -> Iterator[R]:
        """Yield the records of a stage.

        Args:
            stage: Its name.
            kind: What its records are.

        Raises:
            UserError: The file is absent, or a line is damaged; it is named.
        """
        yield from read_records(self.finished(stage), kind)

    def finished(self, stage: str) -> Path:
        """Return the path of a stage file that is there.

        Raises:
            UserError: It is not.
        """
        path = self.path(stage)
        if not path.exists():
            hint = "finish the run: the same personamem generate command again"
            raise UserError(f"{path}: No such file or directory", hint)
        return path

    def resume(self, stage: str, kind: type[R]) -> Iterator[R]:
        """Yield the records that a stage has already, after cutting a line that a kill left half-written.

        Args:
            stage: Its name.
            kind: What its records are.

        Raises:
            UserError: A line other than a half-written last one is damaged.
        """
        path = self.path(stage)
        if not path.exists():
            return
        try:
            with path.open("rb+") as file:
                size = file.seek(0, os.SEEK_END)
                end = _end_of_lines(file, size)
                if end < size:
                    file.truncate(end)
        except OSError as error:
            raise _unwritable(path, error) from error
        yield from self.read(stage, kind)

    def touch(self, stage: str) -> None:
        """Make the file of a stage, if it is not there; it may stay empty.

        Raises:
            UserError: The file cannot be written.
        """
        try:
            self.path(stage).touch()
        except OSError as error:
            raise _unwritable(self.path(stage), error) from error

    def drop(self, stage: str) -> None:
        """Remove the file of a stage, if it is there.

        Raises:
            UserError: The file cannot be removed.
        """
        try:
            self.path(stage).unlink(missing_ok=True)
        except OSError as error:
            raise _unwritable(self.path(stage), error) from error

    def failures(self) -> list[Failure]:
        """Return the items that the last run could not make.

        Raises:
            UserError: The file that lists them is damaged.
        """
        path = self.folder / _FAILED
        if not _exists(path):
            return []
        hint = "remove it, and the same personamem generate command asks again for what is missing"
        return [as_model(value, Failure, f"{path}, line {number}", hint) for number, value in json_lines(path, hint)]

    def add_failure(self, failure: Failure) -> None:
        """Add an item to those that could not be made.

        Raises:
            UserError: The file cannot be written.
        """
        path = self.folder / _FAILED
        try:
            with path.open("a", encoding="utf-8") as file:
                file.write(failure.model_dump_json() + "\n")
        except OSError as error:
            raise _unwritable(path, error) from error

    def drop_failures(self) -> None:
        """Remove the list of items that could not be made, if it is there.

        Raises:
            UserError: The file cannot be removed.
        """
        path = self.folder / _FAILED
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise _unwritable(path, error) from error

    def append(self, stage: str, record: Record) -> None:
        """Write one record at the end of a stage file.

        Raises:
            UserError: The file cannot be written, for instance because the disk is full; what was written before is
                kept.
        """
        path = self.path(stage)
        try:
            with path.open("ab") as file:
                file.write(record_line(record))
        except OSError as error:
            raise _unwritable(path, error) from error


class Span(NamedTuple):
    """Some lines of a file.

    Attributes:
        start: Where the first begins, in bytes.
        end: Where the last ends.
        number: Of the first line, from 1.
    """

    start: int
    end: int
    number: int


def persona_spans(path: Path) -> dict[int, Span]:
    """Return where the records of each persona lie in a file, which is in the order of personas.

    Args:
        path: A file of JSON lines whose records have a `persona_id`.

    Raises:
        UserError: The file cannot be read, or a line is damaged beyond telling whose it is.
    """
    spans: dict[int, Span] = {}
    at = 0
    for number, line in enumerate(_lines(path), start=1):
        match = _PERSONA.search(line)
        if match is None:
            raise _damaged(path, number, "it names no persona")
        persona_id = int(match[1])
        span = spans.get(persona_id, Span(at, at, number))
        if span.end != at:
            raise _damaged(path, number, f"other lines stand between it and those of persona {persona_id}")
        at += len(line)
        spans[persona_id] = span._replace(end=at)
    return spans


def read_records(path: Path, kind: type[R], span: Span | None = None) -> Iterator[R]:
    """Yield the records of a file.

    Args:
        path: A file of JSON lines that each end with a digest.
        kind: What its records are.
        span: Which lines; all of them by default.

    Raises:
        UserError: The file cannot be read, or a line is damaged; it is named.
    """
    for number, line in enumerate(_lines(path, span), start=span.number if span else 1):
        yield _parse(path, number, line, kind)


def _lines(path: Path, span: Span | None = None) -> Iterator[bytes]:
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


@contextmanager
def writing_lines(path: Path) -> Iterator[Callable[[bytes], int]]:
    """Give a function that writes lines to a file, which is there when the block ends well, or not at all.

    Args:
        path: The file to make or replace.

    Raises:
        UserError: The file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as part, part.open("wb") as file:
            yield file.write
            file.flush()
    except OSError as error:
        raise _unwritable(path, error) from error


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a name that is too long, say: making it will tell
        return False


def _is_remnant(path: Path) -> bool:
    """Say whether a kill can have left this before the `config.json` of a run was whole."""
    if path.name == "stages":
        return path.is_dir() and not any(path.iterdir())
    return path.name in (LOCK, HOLDER) or path.match(".config.json.*.part")


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


def _end_of_lines(file: Any, size: int) -> int:
    """Return the position after the last line feed."""
    at = size
    while at > 0:
        start = max(0, at - 65536)
        file.seek(start)
        found = file.read(at - start).rfind(b"\n")
        if found >= 0:
            return start + int(found) + 1
        at = start
    return 0


def _unwritable(path: Path, error: OSError) -> UserError:
    if error.errno == errno.ENOSPC:
        hint = "free some space and run the same command again; it goes on where it stopped"
        return UserError(f"{path} cannot be written: the disk is full", hint)
    return UserError(f"{path} cannot be written: {error.strerror}", "give another --out, or mend the folder's rights")


def _differences(found: dict[str, Any], wanted: dict[str, Any], path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the keys that differ, with what each side has; of mappings the keys inside."""
    for key in {**found, **wanted}:
        there, now = found.get(key, "absent"), wanted.get(key, "absent")
        if isinstance(there, dict) and isinstance(now, dict):
            yield from _differences(there, now, f"{path}{key}.")
        elif there != now:
            yield f"{path}{key}", there, now


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}..."
