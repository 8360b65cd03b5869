"""Find what evaluations left on disk, and say which benchmark it is of.

An evaluation leaves lm-eval's `results_<date>.json`, and beside it files of the same date with a line for each answer;
or one log of Inspect, which has both.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, Literal, NamedTuple, Protocol, TypeVar

from generation.errors import UserError
from generation.reading import as_model, as_one, bounded_lines, parse_json_line, read_json
from personamem_builder.results.settings import LmEvalResults, printable

Benchmark = Literal["personamem", "PERSONA-Bench"]
T = TypeVar("T")

FLAG: Final = "(!)"
"""Stands behind the name of a model that is flagged, and before the line that says why."""

FLAGGED_ABOVE: Final = 0.05
"""A run with a larger share of answers that say nothing is flagged."""

MOST_FAULTS: Final = 100
"""After so many faults the rest of a file is not looked at."""

_NAME: Final = re.compile(r".+_\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(?:\.\d+)?\.json")
START: Final = "evaluate a model first: `personamem eval --help`"
"""What to do where there are no results."""
RENAME: Final = "name results_<date>.json, or its folder"
"""What to do where another file is named."""
ELSE: Final = "remove it, or evaluate again with `personamem eval`"
"""What to do with a file that cannot be used."""

LOG_SUFFIX: Final = ".eval"
"""The files that Inspect writes end so."""

_LONGEST_TASK: Final = 200


class ResultsFile(NamedTuple):
    """A `results_<date>.json`.

    Attributes:
        path: Where it is.
        is_named: Whether a person named the file itself, not a folder that it lies in.
        content: Its JSON, not checked.
    """

    path: Path
    is_named: bool
    content: Any

    @property
    def date(self) -> str:
        """The date of the run, as the names of its files have it; sorts by time."""
        return self.path.name.removesuffix(".json").rpartition("_")[2]

    @property
    def benchmarks(self) -> dict[str, Benchmark | None] | None:
        """The benchmark of each task, None for a task of somebody else's; None where the file does not list tasks."""
        configs = self.content.get("configs") if isinstance(self.content, dict) else None
        if not isinstance(configs, dict):
            return None
        return {name: _benchmark(name, config) for name, config in configs.items()}

    def tasks(self, benchmark: Benchmark) -> list[str]:
        """Return the names of its tasks that are of a benchmark, sorted."""
        return sorted(name for name, own in (self.benchmarks or {}).items() if own == benchmark)

    def is_only(self, benchmark: Benchmark) -> bool:
        """Return whether all its tasks are of a benchmark; false where it has none."""
        return {*(self.benchmarks or {}).values()} == {benchmark}

    def read(self, benchmark: Benchmark) -> LmEvalResults:
        """Return what it says, after a check of its form and of the names of a benchmark's tasks.

        Raises:
            UserError: It is not of that form; names every fault.
        """
        results = as_model(self.content, LmEvalResults, f"{self.path} is not a results file of lm-eval", ELSE)
        check_task_names(self.path, self.tasks(benchmark))
        return results


class FoundResults(NamedTuple):
    """The results files in some places.

    Attributes:
        places: The places, as they were named.
        files: Each file once.
        misnamed: What is wrong with the places: they are not there, or hold no results.
        damaged: What is wrong with files that hold no JSON.
        logs: Logs of Inspect, see `inspect_logs`, each once.
    """

    places: Sequence[Path]
    files: list[ResultsFile]
    misnamed: list[UserError]
    damaged: list[UserError]
    logs: list[Path]


def find_results(places: Iterable[Path]) -> FoundResults:
    """Find and read results files: those that are named, and those in folders that are named."""
    paths: dict[str, tuple[Path, bool]] = {}
    found = FoundResults([*places], [], [], [], [])
    for place in found.places:
        # os.path, as pathlib raises for names that are too long.
        if os.path.isdir(place):  # noqa: PTH112
            own = [path for path in sorted([*place.rglob("*.json"), *place.rglob(f"*{LOG_SUFFIX}")]) if _is_ours(path)]
            if not own:
                what = f"no results_<date>.json in this folder, nor *{LOG_SUFFIX} of Inspect"
                found.misnamed.append(UserError(f"{place}: {what}", START))
        elif not os.path.exists(place):  # noqa: PTH110
            own = []
            found.misnamed.append(UserError(f"{place}: no such file or folder", START))
        else:
            own = [place] if _is_ours(place) else []
            if not own:
                found.misnamed.append(UserError(f"{place}: not a results file", RENAME))
        for path in own:
            paths.setdefault(os.path.realpath(path), (path, path == place))
    for path, is_named in paths.values():
        if path.suffix == LOG_SUFFIX:
            found.logs.append(path)
            continue
        try:
            found.files.append(ResultsFile(path, is_named, read_json(path, ELSE)))
        except UserError as fault:
            found.damaged.append(fault)
    return found


def _is_ours(path: Path) -> bool:
    return path.suffix == LOG_SUFFIX or _NAME.fullmatch(path.name) is not None


def _benchmark(task: str, config: Any) -> Benchmark | None:
    metadata = config.get("metadata") if isinstance(config, dict) else None
    metadata = metadata if isinstance(metadata, dict) else {}
    if "data_digests" in metadata:
        return "PERSONA-Bench"
    return "personamem" if task.startswith("personamem") or "data_digest" in metadata else None


def check_task_names(path: Path, tasks: Iterable[str]) -> None:
    """Refuse names that would steer a terminal, or lead into another folder.

    Raises:
        UserError: There is such a name.
    """
    for task in tasks:
        if not task.isprintable() or "/" in task or not 0 < len(task) <= _LONGEST_TASK:
            raise UserError(f"{path}: {printable(repr(task))} is not the name of a task", ELSE)


def read_lines(
    path: Path, parse: Callable[[Any, str], T], faults: list[UserError], hint: str
) -> Iterator[tuple[str, T]]:
    """Yield the lines of a file of answers, each with the name of its place.

    A samples file holds every prompt, so it can be larger than the memory: one line of it is there at a time.

    Args:
        path: A JSON-lines file.
        parse: Makes something of the value of a line and the name of its place, or raises `UserError`.
        faults: Gets a fault for each line that cannot be used; after `MOST_FAULTS` the file is not read on.
        hint: What to do where there are faults.

    Raises:
        UserError: The file cannot be read.
    """
    before = len(faults)
    for number, raw in bounded_lines(path, hint):
        where = f"{path}, line {number}"
        if len(faults) - before >= MOST_FAULTS:
            faults.append(UserError(f"{where}: not read on, after {MOST_FAULTS} faults", hint))
            return
        try:
            value = parse(parse_json_line(raw, where, hint), where)
        except UserError as fault:
            faults.append(fault)
            continue
        yield where, value


class _Run(Protocol):
    @property
    def model(self) -> str: ...
    @property
    def date(self) -> str: ...
    @property
    def path(self) -> Path: ...
    @property
    def is_whole(self) -> bool: ...
    @property
    def asked_for(self) -> str: ...
    @property
    def identity(self) -> tuple[object, ...]: ...


R = TypeVar("R", bound=_Run)


@dataclass(frozen=True)
class ReadRuns(Generic[R]):
    """The runs of some results files.

    Attributes:
        runs: The runs.
        notes: What to tell people about those left out.
        unreadable: What is wrong with the results that cannot be read.
    """

    runs: list[R]
    notes: list[str]
    unreadable: Sequence[UserError] = ()


def newest_runs(runs: Iterable[R], notes: list[str]) -> list[R]:
    """Return for each identity the newest whole run, or the newest partial one; others are noted."""
    best: dict[tuple[object, ...], R] = {}
    # A try with --limit must not hide a whole run, so whole runs come last, the newest at the end.
    for run in sorted(runs, key=lambda run: (run.is_whole, run.date)):
        if older := best.get(run.identity):
            kind = "an older run" if older.is_whole == run.is_whole else "a partial run"
            notes.append(f"left out {kind} of {run.model} on {run.asked_for}: {older.path} ({run.path} counts)")
        best[run.identity] = run
    return list(best.values())


def left_out(unreadable: Sequence[UserError]) -> UserError:
    """Return the error with which a command ends that showed the other results."""
    return as_one(unreadable, "not everything could be read; what is shown is without:")
