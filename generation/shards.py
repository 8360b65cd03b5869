"""Shards of a run: near-equal parts of its users, each a run in a folder of its own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic import BaseModel, ConfigDict, NonNegativeInt

from generation.errors import UserError
from generation.files import replacing
from generation.reading import read_model
from generation.record_files import named_write_errors
from generation.run_config import CONFIG, differences, numbers_shown, read_fingerprint, users_of

SHARDS: Final = "shards"
"""The folder in the folder of a run that has its shards."""

MAX_SHARDS: Final = 99_999
"""Most shards of a run: with more, their names would no longer be in order."""

DONE: Final = "done.json"
"""Says that a shard is finished."""

_NAME: Final = re.compile(r"(\d{5})-of-(\d{5})")


class Shard(NamedTuple):
    """One of several shards of a run or of an evaluation, `of` in all; the first has the number 1."""

    number: int
    of: int

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    @property
    def name(self) -> str:
        """The name of its folder: `00003-of-00016`."""
        return f"{self.number:05}-of-{self.of:05}"

    def users(self, users: range) -> range:
        """Return which of the users of a run are its own."""
        return users[len(users) * (self.number - 1) // self.of : len(users) * self.number // self.of]

    def fillers(self, fillers: int) -> int:
        """Return how many of the fillers of a run it makes: they belong to no user, so the first shard has them all."""
        return fillers if self.number == 1 else 0


class ShardDone(BaseModel):
    """The content of `done.json`.

    Attributes:
        records: Number of records of each stage.
        bytes: Size of each stage file.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    records: dict[str, NonNegativeInt]
    bytes: dict[str, NonNegativeInt]


def parse_shard(text: object) -> Shard:
    """Read `3/16`, the third of sixteen shards.

    Raises:
        UserError: It is no such text, or there is no such shard.
    """
    match = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text) if isinstance(text, str) else None
    number, count = map(int, match.groups()) if match else (0, 0)
    if not 1 <= number <= count:
        raise UserError(
            f"--shard {str(text)[:40]!r} names no shard", "give its number, from 1, and how many there are: 3/16"
        )
    return Shard(number, count)


def check_count(count: int, users: int) -> None:
    """Refuse more shards than a run has users.

    Raises:
        UserError: There are more.
    """
    if count > users:
        raise UserError(f"{count:,} shards are more than there are users ({users:,})", "give fewer shards")


def shards_there(folder: Path) -> dict[Shard, Path]:
    """Return the shards in the folder of a run, begun or finished, in order.

    Raises:
        UserError: Something else lies beside them, or they are of several counts.
    """
    found: dict[Shard, Path] = {}
    for path in sorted((folder / SHARDS).glob("[!.]*")):
        match = _NAME.fullmatch(path.name)
        shard = Shard(*map(int, match.groups())) if match else Shard(0, 0)
        if not 1 <= shard.number <= shard.of:
            raise UserError(f"{path} is not a shard of {folder}", "move it away")
        found[shard] = path
    counts = sorted({shard.of for shard in found})
    if len(counts) > 1:
        raise UserError(
            f"{folder / SHARDS} holds shards of several counts: {', '.join(map(str, counts))}",
            f"remove all but those of one count, e.g. rm -r {folder / SHARDS}/*-of-{counts[0]:05}",
        )
    return found


def finished_shards(folder: Path) -> list[Path]:
    """Return the folders of all shards of a run, in order, after checking that together they are the run.

    Raises:
        UserError: Shards are missing, not finished, changed since or of another run; they are named.
    """
    run, there = read_fingerprint(folder), shards_there(folder)
    if not there:
        raise UserError(
            f"{folder} has no shards yet", f"make them: personamem generate CONFIG --out {folder} --shards N"
        )
    count = next(iter(there)).of
    faults: dict[str, list[int]] = {}
    for shard in (Shard(number, count) for number in range(1, count + 1)):
        path = there.get(shard)
        if fault := "missing" if path is None else _fault(path):
            faults.setdefault(fault, []).append(shard.number)
        elif path is not None:
            _check_config(path, shard, run)
    if faults:
        listed = "; ".join(f"{fault}: {number_list(numbers)}" for fault, numbers in faults.items())
        first = Shard(min(number for numbers in faults.values() for number in numbers), count)
        raise UserError(
            f"{folder} lacks some of its {count} shards ({listed})",
            f"make them with the same configuration: personamem generate CONFIG --out {folder} --shards {count}, or "
            f"--shard {first} alone",
        )
    return list(there.values())


def _fault(path: Path) -> str:
    done = read_done(path)
    if done is None:
        return "not finished"
    return "" if is_unchanged(path, done) else "changed since they were finished"


def _check_config(path: Path, shard: Shard, run: dict[str, Any]) -> None:
    """Refuse a shard of another run, or with the users of another shard."""
    folder, found = path.parents[1], read_fingerprint(path)
    users = shard.users(users_of(run))
    again = f"rm -r {path}, then: personamem generate CONFIG --out {folder} --shard {shard}"
    if (own := users_of(found)) != users:
        raise UserError(
            f"{path} holds users {numbers_shown(own)}, and shard {shard} has users {numbers_shown(users)}", again
        )
    own_keys = {"first_persona", "personas", "fillers", "banks"}
    wanted = {key: value for key, value in run.items() if key not in own_keys}
    wanted["fillers"] = shard.fillers(run["fillers"])
    # The banks of fillers are named only where there are fillers.
    wanted["banks"] = {key: run.get("banks", {}).get(key) for key in found.get("banks", {})}
    found = {key: value for key, value in found.items() if key not in ("first_persona", "personas")}
    if keys := [key for key, _, _ in differences(found, wanted)]:
        raise UserError(f"{path} is of another configuration than {folder / CONFIG}: {', '.join(keys)} differ", again)


def read_done(folder: Path) -> ShardDone | None:
    """Return what is said of a finished shard; None if it is not finished.

    Raises:
        UserError: The file is damaged.
    """
    path = folder / DONE
    if not path.exists():
        return None
    return read_model(path, ShardDone, f"remove it and make the shard again: rm {path}")


def is_unchanged(folder: Path, done: ShardDone) -> bool:
    """Say whether the stage files of a shard are as large as they were when it was finished."""
    return done.bytes == _sizes(folder)


def mark_done(folder: Path, records: Mapping[str, int]) -> None:
    """Say that a shard is finished, with so many records of each stage.

    Raises:
        UserError: The file cannot be written.
    """
    path = folder / DONE
    done = ShardDone(records=dict(records), bytes=_sizes(folder))
    with named_write_errors(path), replacing(path) as part:
        part.write_text(done.model_dump_json(indent=2) + "\n", encoding="utf-8")


def drop_done(folder: Path) -> None:
    """Say no longer that a shard is finished.

    Raises:
        UserError: The file cannot be removed.
    """
    with named_write_errors(folder / DONE):
        (folder / DONE).unlink(missing_ok=True)


def _sizes(folder: Path) -> dict[str, int]:
    return {path.stem: path.stat().st_size for path in sorted((folder / "stages").glob("*.jsonl"))}


def number_list(numbers: Iterable[int]) -> str:
    """Return numbers in rising order as people, and Slurm, write them: `3,5-7`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ",".join("-".join(map(str, run)) for run in runs)
