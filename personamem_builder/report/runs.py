"""Find what evaluations left on disk: one `Run` for each results file and task.

`personamem eval` leaves two files of one date: lm-eval's `results_<date>.json` and our
`predictions_<date>.jsonl`. Plain `lm_eval --log_samples` leaves `samples_<task>_<date>.jsonl` instead of the
second; that is read too. Results that cannot be read do not hide the others: all their faults are collected.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

from pydantic import BaseModel, Field, field_validator

from generation.errors import UserError
from generation.reading import as_model, as_one, clean_text, read_json
from personamem_builder.memory.summary import number
from personamem_builder.report.answers import (
    Answer,
    TaskAnswers,
    line_from_prediction,
    line_from_sample,
    read_answers,
)
from personamem_builder.schema import SPLITS

FLOOR_BACKEND: Final = "personamem-floor"
"""lm-eval's name of the model that answers by shortcut policies."""

NO_CONTEXT: Final = "_nocontext"
"""End of the name of a task that asks another task's questions without the conversation."""

FULL: Final = "full"
"""What a run shows of conversations unless it is told otherwise: all."""

NOTHING: Final = "none"
"""What a run shows that asks the questions alone."""

WRONG_USER: Final = "wrong-user"
"""The history of another user, which tells nothing about the answer."""

ORACLE: Final = "oracle"
"""The evidence alone."""

_NAME = re.compile(r".+_(?P<date>\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(?:\.\d+)?)\.json")
_START = "evaluate a model first: `personamem eval --help`"
_KEEP = "evaluate with `personamem eval`, which keeps the answers, or give lm_eval the flag `--log_samples`"
_ELSE = "remove it, or evaluate again with `personamem eval`"
_LONGEST_NAME = 500
_LONGEST_TASK = 200


class Shown(NamedTuple):
    """What a run showed of conversations: `--metadata memory=…`.

    Attributes:
        memory: `full`, another of the task's values, or the name of a memory system.
        settings: Those of the system, `k` among them, sorted by name.
        tainted: Questions for which the system returned text of the options that the history does not hold.
        failed: Questions for which the system failed.
        measures: What retrieval was worth, in words: `evidence recall 30.0 %`.
    """

    memory: str = FULL
    settings: tuple[tuple[str, str], ...] = ()
    tainted: int = 0
    failed: int = 0
    measures: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        """What was asked for, whatever came of it."""
        return self.memory, self.settings

    @property
    def label(self) -> str:
        """In words; empty for the whole history, and for nothing, which is told otherwise."""
        if self.memory in (FULL, NOTHING):
            return ""
        return ", ".join([self.memory, *(f"{name}={value}" for name, value in self.settings)])


class Subset(NamedTuple):
    """The questions that a run was restricted to.

    Attributes:
        file: The file that names them.
        size: How many they are.
        sha256: Of their ids; the same for the same questions.
    """

    file: str
    size: int
    sha256: str


@dataclass(frozen=True, eq=False)
class Run:
    """One model's answers to one task.

    Attributes:
        model: What people call the model: `floor: POLICY`, or its name or path.
        backend: lm-eval's name of the kind of model, such as `hf`.
        model_args: Arguments of the backend and what else shapes the prompt, sorted by name.
        task: Name of the lm-eval task.
        data_digest: Digest of the data that the task read; None where the results do not say.
        limit: lm-eval's `--limit` (a number of questions or a fraction below 1), or the number of questions that
            `--samples` chose, or that have answers where some are missing; None for a whole run.
        date: Date of the run as its file name has it; sorts by time.
        path: The results file.
        answers: The answers by question id; all have the same scores. Empty where every question failed.
        failed: The questions to which no answer came; they count nowhere.
        subset: The questions that it was restricted to; None where it was not.
        shown: What it showed of conversations.
        data: Where the task found its data, in words: the folder, if it was one.
        split: The split that it asked; None where that is not known.
        is_computed: Whether the answers are those of a floor that was computed for the report, and are in no file.
    """

    model: str
    backend: str
    model_args: tuple[tuple[str, str], ...]
    task: str
    data_digest: str | None
    limit: float | None
    date: str
    path: Path
    answers: Mapping[str, Answer]
    subset: Subset | None = None
    shown: Shown = field(default_factory=Shown)
    data: str | None = None
    split: str | None = None
    is_computed: bool = False
    failed: Mapping[str, Answer] = field(default_factory=dict)

    @property
    def asked(self) -> frozenset[str]:
        """The ids of all questions that were asked, also of those that failed."""
        return frozenset(self.answers) | frozenset(self.failed)

    @property
    def has_context(self) -> bool:
        """Whether it showed anything of conversations."""
        return not self.task.endswith(NO_CONTEXT) and self.shown.memory != NOTHING

    @property
    def is_floor(self) -> bool:
        """Whether a shortcut policy answered, not a model."""
        return self.backend == FLOOR_BACKEND

    @property
    def scores(self) -> list[str]:
        """Names of the run's scores, sorted; none where every question failed."""
        return sorted(next(iter(self.answers.values())).credits) if self.answers else []


class Reading(NamedTuple):
    """What was found.

    Attributes:
        runs: The runs.
        notes: What to tell people about those left out.
        unreadable: What is wrong with the results that cannot be read.
    """

    runs: list[Run]
    notes: list[str]
    unreadable: Sequence[UserError] = ()


class _Config(BaseModel):
    model: str
    model_args: dict[str, Any] | str | None = None
    limit: float | None = Field(default=None, allow_inf_nan=False)
    gen_kwargs: dict[str, Any] | str | None = None


_Whole = Annotated[int, Field(ge=0, lt=2**31)]


class _Measured(BaseModel):
    measure: str
    value: float = Field(allow_inf_nan=False)
    unit: str


class _Metadata(BaseModel):
    """What our tasks say of themselves, and of the memory that was shown."""

    data: str | None = None
    data_digest: str | None = None
    roles: str | None = None
    overlength: str | None = None
    subset: str = ""
    subset_size: _Whole = 0
    subset_sha256: str | None = None
    memory: str = FULL
    settings: dict[str, Any] | None = None
    k: int | None = None
    memory_tainted: _Whole = 0
    memory_failed: _Whole = 0
    memory_measures: list[_Measured] = []


class _Task(BaseModel):
    metadata: _Metadata = _Metadata()
    test_split: str | None = None

    @field_validator("metadata", mode="before")
    @classmethod
    def _is_there(cls, value: Any) -> Any:
        return _Metadata() if value is None else value


class _Count(BaseModel):
    original: _Whole = 0
    effective: _Whole


class _Results(BaseModel):
    """The parts of lm-eval's results file that the report needs."""

    config: _Config
    configs: dict[str, dict[str, Any]]
    model_name: str | None = None
    chat_template_sha: str | None = None
    system_instruction_sha: str | None = None
    n_samples: dict[str, _Count] = Field(default={}, alias="n-samples")


def read_runs(results: Iterable[Path]) -> Reading:
    """Read the runs of results files and folders.

    Where one model, with the same arguments, answered one task on the same questions and with the same memory more
    than once, the newest whole run counts, or the newest partial run where there is no whole one.

    Args:
        results: `results_<date>.json` files, or folders that are searched for such files.

    Returns:
        The runs, notes on what was left out, and what could not be read.

    Raises:
        UserError: Nothing was found, or nothing that can be read; names every file, line and fault.
    """
    results = list(results)
    reading = read_all(results)
    if not reading.runs:
        notes = "".join(f"\n{note}" for note in reading.notes)
        nothing = UserError(f"{', '.join(map(str, results))}: no results of a personamem task{notes}", _START)
        raise as_one(reading.unreadable or [nothing])
    return reading


def read_all(results: Iterable[Path]) -> Reading:
    """Read what can be read, as `read_runs` does; there may be no runs."""
    faults: list[UserError] = []
    notes: list[str] = []
    runs: list[Run] = []
    for path, is_named in _find(results, faults):
        try:
            runs += _read_file(path, is_named, faults, notes)
        except UserError as fault:
            faults.append(fault)
    runs = _newest(runs, notes)
    return Reading(runs, [clean_text(note) for note in notes], faults)


def left_out(unreadable: Sequence[UserError]) -> UserError:
    """Return the error with which a command ends that showed the other results."""
    return as_one(unreadable, "not everything could be read; what is shown is without:")


def _find(results: Iterable[Path], faults: list[UserError]) -> list[tuple[Path, bool]]:
    """Return each results file once, and whether it was named itself."""
    found: dict[str, tuple[Path, bool]] = {}
    for path in results:
        # os.path, as pathlib raises for names that are too long.
        if os.path.isdir(path):  # noqa: PTH112
            files = [file for file in sorted(path.rglob("*.json")) if _NAME.fullmatch(file.name)]
            if not files:
                faults.append(UserError(f"{path}: no results_<date>.json in this folder", _START))
        elif not os.path.exists(path):  # noqa: PTH110
            files = []
            faults.append(UserError(f"{path}: no such file or folder", _START))
        else:
            files = [path] if _NAME.fullmatch(path.name) else []
            if not files:
                faults.append(UserError(f"{path}: not a results file", "name results_<date>.json, or its folder"))
        for file in files:
            found.setdefault(os.path.realpath(file), (file, file == path))
    return list(found.values())


def _read_file(path: Path, is_named: bool, faults: list[UserError], notes: list[str]) -> list[Run]:
    content = read_json(path, _ELSE)
    configs = content.get("configs") if isinstance(content, dict) else None
    if isinstance(configs, dict) and not any(_is_ours(name, config) for name, config in configs.items()):
        what = f"no personamem task, only {_printable(', '.join(sorted(configs))) or 'none at all'}"
        if is_named:
            raise UserError(f"{path}: {what}", "leave this file out")
        notes.append(f"left out {path}: {what}")
        return []
    results = as_model(content, _Results, f"{path} is not a results file of lm-eval", _ELSE)
    tasks = {name: _task(path, name, results) for name, own in results.configs.items() if _is_ours(name, own)}
    before = len(faults)
    answers = _answers_beside(path, tasks, faults)
    if len(faults) > before:
        return []
    for name in [name for name, own in answers.items() if own.given and not any(a.credits for a in own.given.values())]:
        notes.append(f"left out {path}: {_printable(name)} has no scores, as after --predict_only")
        del answers[name]
    for name, (given, failed) in answers.items():
        expected = results.n_samples.get(name)
        if not given and not failed:
            faults.append(UserError(f"{path}: no answers to task {_printable(name)} beside it", _KEEP))
        elif expected and expected.effective != len(given) + len(failed):
            known = f"{len(given) + len(failed)} of {expected.effective} questions"
            notes.append(f"{path}: {_printable(name)} has answers to {known}")
    return [
        _run(path, name, tasks.get(name, _Task()), results, own)
        for name, own in sorted(answers.items())
        if own.given or own.failed
    ]


def _is_ours(name: str, config: Any) -> bool:
    metadata = config.get("metadata") if isinstance(config, dict) else None
    return name.startswith("personamem") or (isinstance(metadata, dict) and "data_digest" in metadata)


def _task(path: Path, name: str, results: _Results) -> _Task:
    where = f"{path} is not a results file of our tasks: configs.{_printable(name)}"
    return as_model(results.configs[name], _Task, where, _ELSE)


def _answers_beside(path: Path, tasks: Iterable[str], faults: list[UserError]) -> dict[str, TaskAnswers]:
    """Return the answers by task, for all tasks of the results that are ours."""
    answers = {task: TaskAnswers({}, {}) for task in tasks}
    date = _date(path)
    predictions = path.with_name(f"predictions_{date}.jsonl")
    if os.path.lexists(predictions):
        answers |= read_answers(predictions, line_from_prediction, faults)
        _check_names(predictions, answers)
        return answers
    _check_names(path, answers)
    samples = {task: path.with_name(f"samples_{task}_{date}.jsonl") for task in answers}
    if missing := [file.name for file in samples.values() if not os.path.lexists(file)]:
        what = f"no answers beside it: neither {predictions.name} nor {', '.join(missing)}"
        faults.append(UserError(f"{path}: {what}", _KEEP))
        return {}
    for task, file in samples.items():
        answers |= read_answers(file, partial(line_from_sample, task=task), faults)
    return answers


def _check_names(path: Path, tasks: Iterable[str]) -> None:
    """Refuse names that would steer a terminal, or lead into another folder."""
    for task in tasks:
        if not task.isprintable() or "/" in task or not 0 < len(task) <= _LONGEST_TASK:
            raise UserError(f"{path}: {_printable(repr(task))} is no name of a task", _ELSE)


def _run(path: Path, task: str, config: _Task, results: _Results, answers: TaskAnswers) -> Run:
    args = _arguments(results.config.model_args)
    metadata = config.metadata
    count = results.n_samples.get(task)
    asked = len(answers.given) + len(answers.failed)
    everything = count is not None and 0 < count.original == count.effective == asked
    missing = count is not None and count.effective != asked
    settings = args | _prompt_settings(results, metadata)
    digest = metadata.data_digest
    return Run(
        model=_printable(_model_name(results, args) or path.parent.name),
        backend=_printable(results.config.model),
        model_args=tuple(sorted((_printable(name), _printable(value)) for name, value in settings.items())),
        task=task,
        data_digest=None if digest is None else _printable(digest),
        # A --limit beyond the last question leaves none out.
        limit=None if everything else results.config.limit or _chosen(count) or (asked if missing else None),
        date=_date(path),
        path=path,
        answers=answers.given,
        subset=_subset(metadata),
        shown=_shown(metadata),
        data=metadata.data,
        split=config.test_split or _split_of(task),
        failed=answers.failed,
    )


def _shown(metadata: _Metadata) -> Shown:
    settings = dict(metadata.settings or {})
    if metadata.k is not None:
        settings["k"] = metadata.k
    return Shown(
        _printable(metadata.memory),
        tuple(sorted((_printable(name), _printable(str(value))) for name, value in settings.items())),
        metadata.memory_tainted,
        metadata.memory_failed,
        tuple(f"{_printable(line.measure)} {number(line.value, line.unit)}" for line in metadata.memory_measures),
    )


def _printable(name: str) -> str:
    """Return a name without control characters: it must not steer the terminal that shows it, or break a line."""
    shown = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in name)
    if len(shown) <= _LONGEST_NAME:
        return shown
    # What tells two names apart may come late.
    return f"{shown[:_LONGEST_NAME]}… ({hashlib.sha256(shown.encode()).hexdigest()[:8]})"


def _split_of(task: str) -> str | None:
    return next((split for split in SPLITS if f"_{split}" in task), None)


def _subset(metadata: _Metadata) -> Subset | None:
    if metadata.subset_sha256 is None:
        return None
    return Subset(_printable(Path(metadata.subset).name), metadata.subset_size, _printable(metadata.subset_sha256))


def _prompt_settings(results: _Results, metadata: _Metadata) -> dict[str, str]:
    """Return what else shapes the prompt, where it is not the default: runs that differ in it are not the same."""
    settings = {
        "roles": None if metadata.roles == "normalised" else metadata.roles,
        "overlength": "left" if metadata.overlength == "left" else None,
        "chat_template": results.chat_template_sha and results.chat_template_sha[:8],
        "system_instruction": results.system_instruction_sha and results.system_instruction_sha[:8],
        "gen_kwargs": json.dumps(results.config.gen_kwargs, sort_keys=True) if results.config.gen_kwargs else None,
    }
    return {name: value for name, value in settings.items() if value}


def _chosen(count: _Count | None) -> int | None:
    """Return how many questions `--samples` chose, None if all were asked."""
    return count.effective if count and count.effective < count.original else None


def _date(path: Path) -> str:
    match = _NAME.fullmatch(path.name)
    if match is None:
        raise ValueError(f"not the name of a results file: {path}")
    return match["date"]


def _arguments(model_args: dict[str, Any] | str | None) -> dict[str, str]:
    if isinstance(model_args, str):
        pairs = [pair.partition("=") for pair in model_args.split(",") if pair]
        return {name.strip(): value.strip() for name, _, value in pairs}
    return {name: str(value) for name, value in (model_args or {}).items()}


def _model_name(results: _Results, args: Mapping[str, str]) -> str | None:
    if results.config.model == FLOOR_BACKEND:
        return f"floor: {args.get('policy', 'longest')}"
    # An adapter makes another model of its base.
    adapters = [args[name] for name in ("peft", "delta") if name in args]
    name = args.get("pretrained") or args.get("model") or results.model_name
    return " + ".join([name, *adapters]) if name else None


def _newest(runs: Sequence[Run], notes: list[str]) -> list[Run]:
    best: dict[tuple[object, ...], Run] = {}
    # A try with --limit must not hide a whole run, so whole runs come last, the newest at the end.
    for run in sorted(runs, key=lambda run: (run.limit is None, run.date)):
        subset = run.subset and run.subset.sha256
        key = (run.model, run.backend, run.model_args, run.task, run.data_digest, subset, run.shown.key)
        if older := best.get(key):
            kind = "a partial run" if older.limit is not None and run.limit is None else "an older run"
            notes.append(f"left out {kind} of {run.model} on {run.task}: {older.path} ({run.path} counts)")
        best[key] = run
    return list(best.values())
