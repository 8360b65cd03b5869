"""A run folder: stage files of one JSON record a line, which grow in a fixed order and so can be resumed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict

from generation.errors import UserError
from generation.reading import as_model, json_lines
from generation.record_files import cut_from_persona, cut_half_line, named_write_errors, read_records, record_line
from generation.records import Record
from generation.run_config import (
    CONFIG,
    differences,
    numbers_shown,
    path_exists,
    read_config,
    read_fingerprint,
    refuse_other,
    users_of,
    write_config,
)
from generation.run_lock import HOLDER, LOCK, refuse_while_written, writing_to
from generation.shards import SHARDS, Shard, finished_shards, shards_there

R = TypeVar("R", bound=BaseModel)

_FAILED: Final = "failed.jsonl"


class FailedItem(BaseModel):
    """A line of `failed.jsonl`: an item of a stage that could not be made, and what was wrong with the replies."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    stage: str
    item: str
    reason: str


class RunStore:
    """The folder of a run; what is damaged, or cannot be read or written, is a `UserError` that says what to do.

    Attributes:
        folder: The folder; `config.json` in it says what the run is made from, `stages/` holds a file a stage. A run in
            shards has `shards/` instead, a folder of this kind for each.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._shards: tuple[RunStore, ...] = ()

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
        path = folder / CONFIG
        if store.is_sharded:
            count = next((shard.of for shard in shards_there(folder)), "N")
            raise UserError(f"{folder} holds a run in shards", f"add --shards {count}, or give another --out")
        if not path_exists(path):
            store._make_folder()
            with writing_to(folder):
                if not path_exists(path):  # else another process was faster
                    store._begin(fingerprint)
        if store._lacks_users(fingerprint):
            with writing_to(folder):
                if store._lacks_users(fingerprint):  # else another process was faster
                    if before_growing is not None:
                        before_growing(store)
                    write_config(folder, fingerprint)
        store._make_stages()
        return store

    @classmethod
    def open_shard(
        cls, folder: Path, shard: Shard, fingerprint: dict[str, Any], own_fingerprint: dict[str, Any]
    ) -> RunStore:
        """Open a shard of a run to write to it, making both if they are not there.

        Several processes may do so at a time, on several machines: none waits for another.

        Args:
            folder: That of the run.
            shard: Which.
            fingerprint: What the whole run is made from.
            own_fingerprint: What the shard is made from.

        Raises:
            UserError: As `open`; or the run is not in shards, or in another number of them.
        """
        run = cls(folder)
        if not run.is_there():
            run._make_folder()
            write_config(folder, fingerprint)
        refuse_other(folder, read_config(folder), json.loads(json.dumps(fingerprint)))
        if (folder / "stages").exists():
            raise UserError(
                f"{folder} holds a run that is not in shards", "leave out --shard and --shards, or give another --out"
            )
        if others := {other.of for other in shards_there(folder)} - {shard.of}:
            [count] = others
            raise UserError(
                f"{folder} is made in {count} shards, and not in {shard.of}",
                f"give {count}, another --out, or remove the folder to make it anew (rm -r {folder})",
            )
        return cls.open(folder / SHARDS / shard.name, own_fingerprint)

    def _make_folder(self) -> None:
        """Make the folder, and refuse one of something else."""
        folder = self.folder
        if path_exists(folder):
            is_other = not folder.is_dir() or not all(map(_is_remnant, folder.iterdir()))
            if is_other and not self.is_there():  # else another process was faster
                raise UserError(f"{folder} exists and is not a run of personamem", "give another --out")
        with named_write_errors(folder / CONFIG):
            folder.mkdir(parents=True, exist_ok=True)

    def _begin(self, fingerprint: dict[str, Any]) -> None:
        path = self.folder / CONFIG
        with named_write_errors(path):
            for part in self.folder.glob(".config.json.*.part"):
                part.unlink()
            self._make_stages()
        write_config(self.folder, fingerprint)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Keep other processes from writing to the run, which must be there, while the block lasts.

        Shards must be finished, but are not locked.
        """
        read_config(self.folder)
        self.parts()
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
        return read_fingerprint(self.folder)

    def is_there(self) -> bool:
        """Say whether the folder holds a run, whole or begun."""
        return path_exists(self.folder / CONFIG)

    def users(self) -> range:
        """Return the numbers of the users that the run is to have."""
        return users_of(self.fingerprint())

    @property
    def is_sharded(self) -> bool:
        """Whether the stage files are in shards."""
        return path_exists(self.folder / SHARDS)

    def parts(self) -> tuple[RunStore, ...]:
        """Return the folders that hold the stage files, in the order of users: the shards, or this one.

        Shards are checked the first time: none may be missing, unfinished or of another run.
        """
        if not self.is_sharded:
            return (self,)
        if not self._shards:
            self._shards = tuple(map(RunStore, finished_shards(self.folder)))
        return self._shards

    def part_of(self, persona_id: int) -> RunStore:
        """Return the part that holds what there is of a user; the last one if the run has no such user."""
        parts = self.parts()
        return next((part for part in parts if persona_id in part.users()), parts[-1])

    def _lacks_users(self, fingerprint: dict[str, Any]) -> bool:
        """Say whether the run has fewer users than wanted, and refuse one that is another."""
        found, wanted = read_config(self.folder), json.loads(json.dumps(fingerprint))
        differing = {key for key, _, _ in differences(found, wanted)}
        if differing and differing <= {"personas", "first_persona"}:
            there, now = self.users(), users_of(wanted)
            if there.start == now.start and there.stop < now.stop:
                return True
            raise UserError(
                f"{self.folder} has users {numbers_shown(there)}, and users {numbers_shown(now)} are asked for: a run "
                "can get more users after its last, and keeps those it has",
                f"ask for users {numbers_shown(range(there.start, max(there.stop, now.stop)))} (--personas), or give "
                "another --out",
            )
        refuse_other(self.folder, found, wanted)
        return False

    def path(self, stage: str) -> Path:
        """Return the path of a stage file."""
        return self.folder / "stages" / f"{stage}.jsonl"

    def read(self, stage: str, kind: type[R]) -> Iterator[R]:
        """Yield the records of a stage, of all shards one after another."""
        for path in self.paths(stage):
            yield from read_records(path, kind)

    def paths(self, stage: str) -> list[Path]:
        """Return the files of a stage; one after another they are the stage."""
        return [part.finished(stage) for part in self.parts()]

    def finished(self, stage: str) -> Path:
        """Return the path of a stage file of a run, or of a shard, that is there."""
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
        if self.is_sharded:
            return [failure for part in self.parts() for failure in part.failures()]
        path = self.folder / _FAILED
        if not path_exists(path):
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


def _is_remnant(path: Path) -> bool:
    """Say whether a kill can have left this before the `config.json` of a run was whole."""
    if path.name == "stages":
        return path.is_dir() and not any(path.iterdir())
    return path.name in (LOCK, HOLDER) or path.match(".config.json.*.part")
