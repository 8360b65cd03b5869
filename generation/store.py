"""A run folder: stage files of one JSON record a line, which grow in a fixed order and so can be resumed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from generation.errors import UserError
from generation.files import replacing
from generation.reading import as_model, json_lines, read_json
from generation.record_files import cut_from_persona, cut_half_line, named_write_errors, read_records, record_line
from generation.records import PERIODS, Record, Visible
from generation.run_lock import HOLDER, LOCK, refuse_while_written, writing_to

R = TypeVar("R", bound=BaseModel)

FORMAT_VERSION: Final = 6
"""Raised when the same configuration and banks give other records than before."""

_CONFIG: Final = "config.json"
_FAILED: Final = "failed.jsonl"
_RESTORE: Final = "restore it, or give another --out and run again"


class _Fingerprint(BaseModel):
    """What `config.json` must hold for a run to be read; what else shaped the run is there too."""

    model_config = ConfigDict(strict=True)

    seed: int
    personas: int = Field(ge=1)
    first_persona: int = Field(default=0, ge=0)
    persona_source: str | None
    persona_visible: Visible
    topics: list[str]
    periods: int = Field(ge=1, le=len(PERIODS))
    questions_per_topic: dict[str, int]
    fillers: int = Field(ge=0)
    backend: str | dict[str, str]
    llm: dict[str, Any] = {}


class FailedItem(BaseModel):
    """A line of `failed.jsonl`: an item of a stage that could not be made, and what was wrong with the replies."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    stage: str
    item: str
    reason: str


class RunStore:
    """The folder of a run; what is damaged, or cannot be read or written, is a `UserError` that says what to do.

    Attributes:
        folder: The folder; `config.json` in it says what the run is made from, `stages/` holds a file a stage.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def open(
        cls, folder: Path, fingerprint: dict[str, Any], before_growing: Callable[[RunStore], None] | None = None
    ) -> RunStore:
        """Open the folder of a run to write to it, making it if it is not there.

        A run that differs only in that it has fewer users, all of them the first of those wanted, is to have them all
        from now on: what it has of them stays.

        Args:
            folder: The folder.
            fingerprint: What the run is made from.
            before_growing: What to do with a run that is about to get more users.

        Raises:
            UserError: The folder holds another run, or something else, or cannot be written, or another process is
                writing to it.
        """
        store = cls(folder)
        path = folder / _CONFIG
        if not _exists(path):
            if _exists(folder) and not (folder.is_dir() and all(map(_is_remnant, folder.iterdir()))):
                raise UserError(f"{folder} exists and is no run of personamem", "give another --out")
            with named_write_errors(path):
                folder.mkdir(parents=True, exist_ok=True)
            with writing_to(folder):
                if not _exists(path):  # else another process was faster
                    store._begin(fingerprint)
        if store._lacks_users(fingerprint):
            with writing_to(folder):
                if store._lacks_users(fingerprint):  # else another process was faster
                    if before_growing is not None:
                        before_growing(store)
                    store._write_config(fingerprint)
        store._make_stages()
        return store

    def _begin(self, fingerprint: dict[str, Any]) -> None:
        path = self.folder / _CONFIG
        with named_write_errors(path):
            for part in self.folder.glob(".config.json.*.part"):
                part.unlink()
            self._make_stages()
        self._write_config(fingerprint)

    def _write_config(self, fingerprint: dict[str, Any]) -> None:
        path = self.folder / _CONFIG
        with named_write_errors(path), replacing(path) as part:
            part.write_text(json.dumps(fingerprint, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Keep other processes from writing to the run, which must be there, while the block lasts."""
        self._read_config()
        with writing_to(self.folder):
            yield

    def refuse_while_written(self) -> None:
        """Refuse to read the run while another process writes to it."""
        refuse_while_written(self.folder)

    def _make_stages(self) -> None:
        stages = self.folder / "stages"
        with named_write_errors(stages):
            stages.mkdir(exist_ok=True)

    def fingerprint(self) -> dict[str, Any]:
        """Return what the run is made from."""
        found = self._read_config()
        as_model(found, _Fingerprint, str(self.folder / _CONFIG), _RESTORE)
        return found

    def is_there(self) -> bool:
        """Say whether the folder holds a run, whole or begun."""
        return _exists(self.folder / _CONFIG)

    def users(self) -> range:
        """Return the numbers of the users that the run is to have."""
        return _users(self.fingerprint())

    def _read_config(self) -> dict[str, Any]:
        path = self.folder / _CONFIG
        if not _exists(path):
            raise UserError(f"{self.folder} is no run", "make one: personamem generate CONFIG --out FOLDER")
        found = read_json(path, _RESTORE)
        if not isinstance(found, dict):
            raise UserError(f"{path} is damaged: it holds no mapping", _RESTORE)
        return _in_words_of_today(found)

    def _lacks_users(self, fingerprint: dict[str, Any]) -> bool:
        """Say whether the run has fewer users than wanted, and refuse one that is another."""
        found, wanted = self._read_config(), json.loads(json.dumps(fingerprint))
        differences = list(_differences(found, wanted))
        if not differences:
            return False
        if {key for key, _, _ in differences} <= {"personas", "first_persona"}:
            there, now = self.users(), _users(wanted)
            if there.start == now.start and there.stop < now.stop:
                return True
            raise UserError(
                f"{self.folder} has users {numbers_shown(there)}, and users {numbers_shown(now)} are asked for: a run "
                "can get more users after its last, and keeps those it has",
                f"ask for users {numbers_shown(range(there.start, max(there.stop, now.stop)))} (--personas), or give "
                "another --out",
            )
        shown = "; ".join(f"{key}: {_short(there)} there, {_short(now)} now" for key, there, now in differences)
        raise UserError(
            f"{self.folder} holds a run of another configuration: {shown}",
            f"give another --out, or remove the folder to make it anew (rm -r {self.folder})",
        )

    def path(self, stage: str) -> Path:
        """Return the path of a stage file."""
        return self.folder / "stages" / f"{stage}.jsonl"

    def read(self, stage: str, kind: type[R]) -> Iterator[R]:
        """Yield the records of a stage."""
        yield from read_records(self.finished(stage), kind)

    def finished(self, stage: str) -> Path:
        """Return the path of a stage file that is there."""
        path = self.path(stage)
        if not path.exists():
            hint = "finish the run: the same personamem generate command again"
            raise UserError(f"{path}: No such file or directory", hint)
        return path

    def resume(self, stage: str, kind: type[R]) -> Iterator[R]:
        """Yield the records that a stage has already, after cutting a line that a kill left half-written."""
        path = self.path(stage)
        if not path.exists():
            return
        cut_half_line(path)
        yield from self.read(stage, kind)

    def touch(self, stage: str) -> None:
        """Make the file of a stage, if it is not there; it may stay empty."""
        with named_write_errors(self.path(stage)):
            self.path(stage).touch()

    def drop(self, stage: str) -> None:
        """Remove the file of a stage, if it is there."""
        with named_write_errors(self.path(stage)):
            self.path(stage).unlink(missing_ok=True)

    def failures(self) -> list[FailedItem]:
        """Return the items that the last run could not make."""
        path = self.folder / _FAILED
        if not _exists(path):
            return []
        hint = "remove it, and the same personamem generate command asks again for what is missing"
        return [as_model(value, FailedItem, f"{path}, line {number}", hint) for number, value in json_lines(path, hint)]

    def cut(self, stage: str, persona_id: int) -> None:
        """Remove what a stage has of a user and of those after, if its file is there."""
        path = self.path(stage)
        if path.exists():
            cut_half_line(path)
            cut_from_persona(path, persona_id)

    def add_failure(self, failure: FailedItem) -> None:
        """Add an item to those that could not be made."""
        path = self.folder / _FAILED
        with named_write_errors(path), path.open("a", encoding="utf-8") as file:
            file.write(failure.model_dump_json() + "\n")

    def drop_failures(self) -> None:
        """Remove the list of items that could not be made, if it is there."""
        path = self.folder / _FAILED
        with named_write_errors(path):
            path.unlink(missing_ok=True)

    def append(self, stage: str, record: Record) -> None:
        """Write one record at the end of a stage file; what was written before is kept where that fails."""
        path = self.path(stage)
        with named_write_errors(path), path.open("ab") as file:
            file.write(record_line(record))


def numbers_shown(users: range) -> str:
    """Return the numbers of users as people write them: `0-4`."""
    return f"{users.start}-{users.stop - 1}"


def _users(fingerprint: dict[str, Any]) -> range:
    first = fingerprint.get("first_persona", 0)
    return range(first, first + fingerprint["personas"])


def _in_words_of_today(config: dict[str, Any]) -> dict[str, Any]:
    """Return a `config.json` as this version writes it.

    Up to format 5 `demographics` were without the occupation; otherwise the same configuration gave the same records.
    """
    version = config.get("format_version")
    if not isinstance(version, int) or version >= FORMAT_VERSION:
        return config
    visible = config.get("persona_visible")
    return {
        **config,
        "persona_visible": "no_occupation" if visible == "demographics" else visible,
        "format_version": FORMAT_VERSION if version == FORMAT_VERSION - 1 else version,
    }


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
