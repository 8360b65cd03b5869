"""Find what evaluations left on disk: one `Run` for each results file and task.

`personamem eval` leaves two files of one date: lm-eval's `results_<date>.json` and our
`predictions_<date>.jsonl`. Plain `lm_eval --log_samples` leaves `samples_<task>_<date>.jsonl` instead of the
second; that is read too. All faults of all files are collected into one `UserError`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic import BaseModel, Field, ValidationError

from generation.errors import UserError
from personamem_builder.memory.summary import number
from personamem_builder.report.answers import (
    Answer,
    Fault,
    explain,
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
_SHOWN_FAULTS = 20


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
        answers: The answers by question id; all have the same scores.
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
        """Names of the run's scores, sorted."""
        return sorted(next(iter(self.answers.values())).credits)


class Reading(NamedTuple):
    """The runs that were found, and what to tell people about those left out."""

    runs: list[Run]
    notes: list[str]


class _Config(BaseModel):
    model: str
    model_args: dict[str, Any] | str | None = None
    limit: float | None = None
    gen_kwargs: dict[str, Any] | str | None = None


class _Task(BaseModel):
    metadata: dict[str, Any] | None = None
    test_split: str | None = None


class _Count(BaseModel):
    original: int = 0
    effective: int


class _Results(BaseModel):
    """The parts of lm-eval's results file that the report needs."""

    config: _Config
    configs: dict[str, _Task]
    model_name: str | None = None
    chat_template_sha: str | None = None
    system_instruction_sha: str | None = None
    n_samples: dict[str, _Count] = Field(default={}, alias="n-samples")

    def is_ours(self, task: str) -> bool:
        return task.startswith("personamem") or "data_digest" in (self.configs[task].metadata or {})


def read_runs(results: Iterable[Path]) -> Reading:
    """Read the runs of results files and folders.

    Where one model, with the same arguments, answered one task on the same questions and with the same memory more
    than once, the newest whole run counts, or the newest partial run where there is no whole one.

    Args:
        results: `results_<date>.json` files, or folders that are searched for such files.

    Returns:
        The runs, and notes on what was left out.

    Raises:
        UserError: Nothing was found, or files are broken; names every file, line and fault.
    """
    faults: list[Fault] = []
    notes: list[str] = []
    runs: list[Run] = []
    for path, is_named in _find(results, faults):
        try:
            runs += _read_file(path, is_named, faults, notes)
        except OSError as error:
            faults.append(Fault(str(error.filename or path), error.strerror or str(error), "see to the file"))
    if not runs and not faults:
        faults.append(Fault(", ".join(map(str, results)), "no results of a personamem task", _START))
    if faults:
        raise _user_error(faults)
    return Reading(_newest(runs, notes), notes)


def _user_error(faults: Sequence[Fault]) -> UserError:
    lines = [f"{fault.where}: {fault.what}" for fault in faults[:_SHOWN_FAULTS]]
    if len(faults) > _SHOWN_FAULTS:
        lines.append(f"and {len(faults) - _SHOWN_FAULTS} more")
    # dict.fromkeys: each fix once, in order.
    return UserError("\n".join(lines), "; ".join(dict.fromkeys(fault.fix for fault in faults)))


def _find(results: Iterable[Path], faults: list[Fault]) -> list[tuple[Path, bool]]:
    """Return each results file once, and whether it was named itself."""
    found: dict[Path, tuple[Path, bool]] = {}
    for path in results:
        if path.is_dir():
            files = [file for file in sorted(path.rglob("*.json")) if _NAME.fullmatch(file.name)]
            if not files:
                faults.append(Fault(str(path), "no results_<date>.json in this folder", _START))
        elif not path.exists():
            files = []
            faults.append(Fault(str(path), "no such file or folder", _START))
        else:
            files = [path] if _NAME.fullmatch(path.name) else []
            if not files:
                faults.append(Fault(str(path), "not a results file", "name results_<date>.json, or its folder"))
        for file in files:
            found.setdefault(file.resolve(), (file, file == path))
    return list(found.values())


def _read_file(path: Path, is_named: bool, faults: list[Fault], notes: list[str]) -> list[Run]:
    try:
        results = _Results.model_validate_json(path.read_bytes())
    except ValidationError as error:
        what = f"not a results file of lm-eval: {explain(error)}"
        faults.append(Fault(str(path), what, "remove it, or evaluate again with `personamem eval`"))
        return []
    before = len(faults)
    answers = _answers_beside(path, results, faults)
    if len(faults) > before:
        return []
    if not answers:
        what = f"no personamem task, only {', '.join(sorted(results.configs)) or 'none at all'}"
        if is_named:
            faults.append(Fault(str(path), what, "leave this file out"))
        else:
            notes.append(f"left out {path}: {what}")
        return []
    for task, given in answers.items():
        expected = results.n_samples.get(task)
        if not given:
            faults.append(Fault(str(path), f"no answers to task {task} beside it", _KEEP))
        elif expected and expected.effective != len(given):
            notes.append(f"{path}: {task} has answers to {len(given)} of {expected.effective} questions")
    return [_run(path, task, results, given) for task, given in sorted(answers.items()) if given]


def _answers_beside(path: Path, results: _Results, faults: list[Fault]) -> dict[str, dict[str, Answer]]:
    """Return the answers by task, for all tasks of the results that are ours."""
    answers: dict[str, dict[str, Answer]] = {task: {} for task in results.configs if results.is_ours(task)}
    date = _date(path)
    predictions = path.with_name(f"predictions_{date}.jsonl")
    if predictions.exists():
        return answers | read_answers(predictions, line_from_prediction, faults)
    samples = {task: path.with_name(f"samples_{task}_{date}.jsonl") for task in answers}
    if missing := [file.name for file in samples.values() if not file.exists()]:
        what = f"no answers beside it: neither {predictions.name} nor {', '.join(missing)}"
        faults.append(Fault(str(path), what, _KEEP))
        return {}
    for task, file in samples.items():
        answers |= read_answers(file, partial(line_from_sample, task=task), faults)
    return answers


def _run(path: Path, task: str, results: _Results, answers: dict[str, Answer]) -> Run:
    args = _arguments(results.config.model_args)
    config = results.configs.get(task, _Task())
    metadata = config.metadata or {}
    digest, data = metadata.get("data_digest"), metadata.get("data")
    count = results.n_samples.get(task)
    everything = count is not None and 0 < count.original == count.effective == len(answers)
    missing = count is not None and count.effective != len(answers)
    settings = args | _prompt_settings(results, metadata)
    return Run(
        model=_printable(_model_name(results, args) or path.parent.name),
        backend=results.config.model,
        model_args=tuple(sorted((name, _printable(value)) for name, value in settings.items())),
        task=task,
        data_digest=None if digest is None else str(digest),
        # A --limit beyond the last question leaves none out.
        limit=None if everything else results.config.limit or _chosen(count) or (len(answers) if missing else None),
        date=_date(path),
        path=path,
        answers=answers,
        subset=_subset(metadata),
        shown=_shown(metadata),
        data=None if data is None else str(data),
        split=config.test_split or _split_of(task),
    )


def _shown(metadata: Mapping[str, Any]) -> Shown:
    settings = dict(metadata.get("settings") or {})
    if metadata.get("k") is not None:
        settings["k"] = metadata["k"]
    return Shown(
        _printable(str(metadata.get("memory", FULL))),
        tuple(sorted((_printable(str(name)), _printable(str(value))) for name, value in settings.items())),
        int(metadata.get("memory_tainted", 0)),
        int(metadata.get("memory_failed", 0)),
        tuple(
            f"{_printable(str(line['measure']))} {number(line['value'], line['unit'])}"
            for line in metadata.get("memory_measures", ())
        ),
    )


def _printable(name: str) -> str:
    """Return a name without control characters: it must not steer the terminal that shows it, or break a line."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in name)


def _split_of(task: str) -> str | None:
    return next((split for split in SPLITS if f"_{split}" in task), None)


def _subset(metadata: Mapping[str, Any]) -> Subset | None:
    if "subset_sha256" not in metadata:
        return None
    file = _printable(Path(str(metadata.get("subset"))).name)
    return Subset(file, int(metadata.get("subset_size", 0)), str(metadata["subset_sha256"]))


def _prompt_settings(results: _Results, metadata: Mapping[str, Any]) -> dict[str, str]:
    """Return what else shapes the prompt, where it is not the default: runs that differ in it are not the same."""
    settings = {
        "roles": None if metadata.get("roles") == "normalised" else metadata.get("roles"),
        "overlength": "left" if metadata.get("overlength") == "left" else None,
        "chat_template": results.chat_template_sha and results.chat_template_sha[:8],
        "system_instruction": results.system_instruction_sha and results.system_instruction_sha[:8],
        "gen_kwargs": json.dumps(results.config.gen_kwargs, sort_keys=True) if results.config.gen_kwargs else None,
    }
    return {name: str(value) for name, value in settings.items() if value}


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
