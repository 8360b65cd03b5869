"""Reading what lm-eval leaves of PERSONA-Bench tasks: one `Run` for each results file and task."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import BaseModel, Field, model_validator

from generation.errors import UserError
from generation.files import file_digest
from generation.reading import as_model, as_one, bounded_lines, parse_json_line, read_json
from personamem_builder.persona_bench import metrics
from personamem_builder.persona_bench.prompts import Limits
from personamem_builder.persona_bench.write import MANIFEST
from personamem_builder.statistics import Estimate

Scores = Mapping[str, Estimate]
Doc = Mapping[str, Any]
Settings = tuple[tuple[str, str], ...]

_NAME: Final = re.compile(r".+_(?P<date>\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(?:\.\d+)?)\.json")
_START: Final = "evaluate a model first: personamem eval --tasks persona_bench --log_samples …"
_KEEP: Final = "evaluate with the flag --log_samples"
_AGAIN: Final = "evaluate again, with --log_samples"
_MOST_FAULTS: Final = 100
"""After so many the rest of a file is not looked at."""
_LONGEST_TASK: Final = 200
_MOST_ANSWERS: Final = 1000
_LIMITS: Final = {"history_chars": "history", "thread_chars": "thread", "text_chars": "text"}


class Run(NamedTuple):
    """One model's answers to one task in one condition.

    Attributes:
        model: Its name or path.
        settings: lm-eval's name of its kind, its arguments and what else shapes prompts and answers, by name.
        task: One of `TASKS`.
        condition: One of `CONDITIONS`.
        released: Whether the items and prompts are those of the released form.
        written: Whether the answer was written; else the log-likelihoods of the answers were compared.
        split: The split that was asked.
        data: The dataset folder, as the results name it.
        digests: Of the files that were read there.
        of: How many items the split has; more than there are answers in a partial run.
        date: As in the file's name; sorts by time.
        path: The results file.
        docs: The items, without their prompts.
        answers: The scored answers, in the order of the items.
        recorded_floors: The floors that the results hold.
        failed: How many items got no answer; they are in no score.
    """

    model: str
    settings: Settings
    task: str
    condition: str
    released: bool
    written: bool
    split: str
    data: Path
    digests: Mapping[str, str]
    of: int
    date: str
    path: Path
    docs: Sequence[Doc]
    answers: Sequence[metrics.Answer]
    recorded_floors: Mapping[str, Scores]
    failed: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether all items of the split were answered."""
        return len(self.answers) == self.of


class Found(NamedTuple):
    """Results files.

    Attributes:
        files: Those with PERSONA-Bench tasks.
        alone: Those of them with no other tasks.
        has_others: Whether there are results of personamem's own tasks too, or files that cannot be read.
    """

    files: list[Path]
    alone: list[Path]
    has_others: bool


class Reading(NamedTuple):
    """What was found.

    Attributes:
        runs: The runs.
        unreadable: What is wrong with the results that cannot be read.
    """

    runs: list[Run]
    unreadable: list[UserError]


_Whole = Annotated[int, Field(ge=0, lt=2**31)]
_Finite = Annotated[float, Field(allow_inf_nan=False)]


class _Config(BaseModel):
    model: str
    model_args: dict[str, Any] | str | None = None
    gen_kwargs: dict[str, Any] | str | None = None


class _Asked(BaseModel):
    task: Literal["sentiment", "impact", "next_text"]
    condition: Literal["pconv", "pnonconv", "npconv"]
    form: str = ""


class _Estimate(BaseModel):
    value: _Finite
    low: _Finite | None = None
    high: _Finite | None = None
    n: _Whole
    clusters: _Whole


class _Metadata(BaseModel, extra="allow"):
    data: Path
    data_digests: dict[str, str]
    floors: dict[str, dict[str, _Estimate]] = {}


class _Task(BaseModel):
    dataset_kwargs: _Asked
    metadata: _Metadata
    test_split: str
    output_type: Literal["multiple_choice", "generate_until"]


class _Count(BaseModel):
    original: _Whole
    effective: _Whole


class _Results(BaseModel):
    config: _Config
    configs: dict[str, dict[str, Any]]
    model_name: str | None = None
    chat_template_sha: str | None = None
    system_instruction_sha: str | None = None
    n_samples: dict[str, _Count] = Field(alias="n-samples")


class _Doc(BaseModel):
    """An item; its prompt is long, and no floor reads it."""

    item_id: str
    author: str
    subreddit: str = ""
    parent_score: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None
    parent_text: str | None = None
    last_text: str | None = None
    truth: Any


class _Scored(_Doc):
    truth: Annotated[int, Field(ge=-(2**63), lt=2**63)]


class _Signed(_Doc):
    truth: bool


class _Text(_Doc):
    truth: str


_DOCS: Final[Mapping[str, type[_Doc]]] = {"sentiment": _Signed, "impact": _Scored, "next_text": _Text}


class _Sample(BaseModel):
    doc: dict[str, Any]
    filtered_resps: list[list[Any]] = Field(min_length=1, max_length=_MOST_ANSWERS)
    failed: bool = False

    @model_validator(mode="after")
    def _answered(self) -> _Sample:
        if not all(self.filtered_resps):
            raise ValueError("filtered_resps: an answer is empty")
        return self


def find_results(paths: Sequence[Path]) -> Found:
    """Look which results files have PERSONA-Bench tasks.

    Args:
        paths: `results_<date>.json` files, or folders that are searched for such files.
    """
    files, alone, has_others = [], [], False
    for path in _files(paths):
        tasks = _tasks_of(path)
        if any(map(_is_ours, tasks.values())):
            files.append(path)
            if all(map(_is_ours, tasks.values())):
                alone.append(path)
        has_others |= not tasks or any(_is_personamem(name, config) for name, config in tasks.items())
    return Found(files, alone, has_others)


def read_runs(paths: Sequence[Path], notes: list[str]) -> Reading:
    """Read the runs of results files and folders.

    Where one model, with the same settings, answered one task in one condition more than once, the newest whole run
    counts, or the newest partial one where there is no whole one.

    Args:
        paths: `results_<date>.json` files, or folders that are searched for such files.
        notes: Gets what was left out.

    Raises:
        UserError: There are no results, or none that can be read: they have no samples beside them or broken ones, or
            they are of other data than their folder; or runs are of other data than one another. Names all faults.
    """
    files = find_results(paths).files
    faults = [UserError(f"{path}: no such file or folder", _START) for path in paths if not _exists(path)]
    for path in paths:
        if _exists(path) and not _is_folder(path) and path not in files:
            hint = "name results_<date>.json, or its folder"
            faults.append(UserError(f"{path}: not a results file with PERSONA-Bench tasks", hint))
    runs = []
    for path in files:
        try:
            runs += _read_file(path, faults)
        except UserError as fault:
            faults.append(fault)
    if not runs and not faults:
        faults += [
            UserError(f"{path} names no task: it is damaged", _AGAIN) for path in _files(paths) if not _tasks_of(path)
        ]
        faults.append(UserError(f"{', '.join(map(str, paths))}: no results of a PERSONA-Bench task", _START))
    runs = _on_their_data(_newest(runs, notes), faults)
    if not runs:
        raise as_one(faults)
    _check_same_data(runs)
    return Reading(runs, faults)


# pathlib raises for names that are too long.
def _exists(path: Path) -> bool:
    return os.path.exists(path)  # noqa: PTH110


def _is_folder(path: Path) -> bool:
    return os.path.isdir(path)  # noqa: PTH112


def _files(paths: Sequence[Path]) -> list[Path]:
    found: dict[str, Path] = {}
    for path in paths:
        files = (
            [file for file in sorted(path.rglob("*.json")) if _NAME.fullmatch(file.name)]
            if _is_folder(path)
            else [path]
        )
        for file in files:
            found.setdefault(os.path.realpath(file), file)
    return list(found.values())


def _tasks_of(path: Path) -> dict[str, dict[str, Any]]:
    """Return the tasks of a results file, none of other files."""
    try:
        content = read_json(path) if _NAME.fullmatch(path.name) else None
    except UserError:
        return {}
    configs = content.get("configs") if isinstance(content, dict) else None
    found = configs.items() if isinstance(configs, dict) else ()
    return {name: {"metadata": _metadata(config)} for name, config in found}


def _metadata(config: Any) -> dict[str, Any]:
    metadata = config.get("metadata") if isinstance(config, dict) else None
    return metadata if isinstance(metadata, dict) else {}


def _is_ours(config: Mapping[str, Any]) -> bool:
    return "data_digests" in _metadata(config)


def _is_personamem(name: str, config: Mapping[str, Any]) -> bool:
    return name.startswith("personamem") or "data_digest" in config["metadata"]


def _read_file(path: Path, faults: list[UserError]) -> list[Run]:
    where = f"{path} is not a results file of lm-eval"
    results = as_model(read_json(path, _AGAIN), _Results, where, _AGAIN)
    date = path.name.removesuffix(".json").rpartition("_")[2]
    runs = []
    for name, config in sorted(results.configs.items()):
        if not _is_ours(config):
            continue
        if not name.isprintable() or "/" in name or not 0 < len(name) <= _LONGEST_TASK:
            raise UserError(f"{where}: {_printable(repr(name))} is no name of a task", _AGAIN)
        task = as_model(config, _Task, f"{where}: configs.{name}", _AGAIN)
        if name not in results.n_samples:
            raise UserError(f"{where}: n-samples.{name}: Field required", _AGAIN)
        samples = path.with_name(f"samples_{name}_{date}.jsonl")
        if not os.path.lexists(samples):
            faults.append(UserError(f"{path}: no samples beside it ({samples.name})", _KEEP))
            continue
        count = results.n_samples[name]
        before = len(faults)
        rows = list(_read_samples(samples, task, faults))
        items = {doc["item_id"] for doc, _ in rows}
        if len(faults) == before and not len(items) == len(rows) == count.effective:
            what = f"has {len(rows)} answers to {len(items)} items, not to {count.effective}: truncated?"
            faults.append(UserError(f"{samples}: {what}", _AGAIN))
        answered = [(doc, answer) for doc, answer in rows if answer]
        if len(faults) == before and not answered:
            faults.append(UserError(f"{samples}: none of {len(rows)} items got an answer", "evaluate again"))
        if len(faults) == before:
            run = _run(path, date, results, task, count, answered)
            runs.append(run._replace(failed=len(rows) - len(answered)))
    return runs


def _read_samples(path: Path, task: _Task, faults: list[UserError]) -> Iterator[tuple[Doc, metrics.Answer | None]]:
    """Yield items and their scored answers, None where none came."""
    kind = task.dataset_kwargs.task
    before = len(faults)
    for number, line in bounded_lines(path, _AGAIN):
        where = f"{path}, line {number}"
        if len(faults) - before >= _MOST_FAULTS:
            faults.append(UserError(f"{where}: not read on, after {_MOST_FAULTS} faults", _AGAIN))
            return
        try:
            where = f"{where}: not a sample of lm-eval"
            sample = as_model(parse_json_line(line, where, _AGAIN), _Sample, where, _AGAIN)
            doc = as_model(sample.doc, _DOCS[kind], f"{where}: doc", _AGAIN)
            given = None if sample.failed else _answers(kind, task.output_type, sample.filtered_resps, where)
        except UserError as fault:
            faults.append(fault)
            continue
        scored = given and metrics.score_answer(kind, doc.item_id, doc.author, doc.truth, given)
        yield doc.model_dump(), scored or None


def _answers(kind: str, output_type: str, given: Sequence[Sequence[Any]], where: str) -> list[Any]:
    """Read an answer as the task did, see `task.PersonaBenchTask.process_results`."""
    if output_type == "multiple_choice":
        try:
            positive, negative = (float(choice[0]) for choice in given)
        except (ValueError, TypeError) as error:
            raise UserError(f"{where}: filtered_resps: not the log-likelihoods of two answers", _AGAIN) from error
        return [None if positive == negative else positive > negative]
    if not all(isinstance(text, str) for text in given[0]) or (kind != "next_text" and len(given[0]) != 1):
        raise UserError(f"{where}: filtered_resps: not the text of an answer", _AGAIN)
    return [metrics.parse(kind, text) for text in given[0]]


def _run(
    path: Path, date: str, results: _Results, task: _Task, count: _Count, rows: Sequence[tuple[Doc, metrics.Answer]]
) -> Run:
    args = _arguments(results.config.model_args)
    shown = task.metadata.model_extra or {}
    settings = {
        **args,
        "backend": results.config.model,
        **{key: shown[key] for key, name in _LIMITS.items() if key in shown and shown[key] != getattr(Limits(), name)},
        "chat_template": results.chat_template_sha and results.chat_template_sha[:8],
        "system_instruction": results.system_instruction_sha and results.system_instruction_sha[:8],
        "gen_kwargs": json.dumps(results.config.gen_kwargs, sort_keys=True) if results.config.gen_kwargs else None,
    }
    # An adapter makes another model of its base.
    adapters = [args[name] for name in ("peft", "delta") if name in args]
    name = args.get("pretrained") or args.get("model") or results.model_name or path.parent.name
    return Run(
        model=_printable(" + ".join([name, *adapters])),
        settings=tuple(sorted((_printable(key), _printable(str(value))) for key, value in settings.items() if value)),
        task=task.dataset_kwargs.task,
        condition=task.dataset_kwargs.condition,
        released=task.dataset_kwargs.form == "released",
        written=task.output_type != "multiple_choice",
        split=_printable(task.test_split),
        data=task.metadata.data,
        digests=task.metadata.data_digests,
        of=max(count.original, count.effective),
        date=date,
        path=path,
        docs=[doc for doc, _ in rows],
        answers=[answer for _, answer in rows],
        recorded_floors={
            rule: {name: Estimate(**estimate.model_dump()) for name, estimate in scores.items()}
            for rule, scores in task.metadata.floors.items()
        },
    )


def _arguments(model_args: dict[str, Any] | str | None) -> dict[str, str]:
    if isinstance(model_args, str):
        pairs = [pair.partition("=") for pair in model_args.split(",") if pair]
        return {name.strip(): value.strip() for name, _, value in pairs}
    return {name: str(value) for name, value in (model_args or {}).items()}


def _printable(name: str) -> str:
    """Return a name without control characters, which would steer the terminal."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in name)


def _newest(runs: Sequence[Run], notes: list[str]) -> list[Run]:
    best: dict[tuple[object, ...], Run] = {}
    # A try with --limit must not hide a whole run, so whole runs come last, the newest at the end.
    for run in sorted(runs, key=lambda run: (run.is_whole, run.date)):
        key = (run.model, run.settings, run.task, run.condition, run.released, run.written, run.split)
        if older := best.get(key):
            kind = "an older run" if older.is_whole == run.is_whole else "a partial run"
            notes.append(
                f"left out {kind} of {run.model} on {run.task}, {run.condition}: {older.path} ({run.path} counts)"
            )
        best[key] = run
    return list(best.values())


def _on_their_data(runs: Sequence[Run], faults: list[UserError]) -> list[Run]:
    """Leave out runs on other data than those that their folder holds now."""
    held: dict[Path, str] = {}
    fit = []
    for run in runs:
        changed = []
        for name, digest in run.digests.items() if has_data(run) else ():
            path = run.data / name
            if path not in held:
                held[path] = file_digest(path) if path.is_file() else "none, as there is no such file"
            if (now := held[path]) != digest:
                changed.append(f"{name} had the digest {_printable(digest)}, now {now}")
        if changed:
            what = f"{run.path} is of other data than {run.data} holds: {'; '.join(changed)}"
            faults.append(UserError(what, "evaluate again, or bring back the data that were evaluated"))
        else:
            fit.append(run)
    return fit


def _check_same_data(runs: Sequence[Run]) -> None:
    """Refuse runs on other data than another run of their table."""
    faults = {}
    first: dict[tuple[object, ...], Run] = {}
    for run in runs:
        other = first.setdefault((run.task, run.released, run.split), run)
        for name, digest in run.digests.items():
            if (theirs := other.digests.get(name)) != digest:
                known = f"{name} has the digest {_printable(digest)}, not {_printable(str(theirs))}"
                what = f"{run.path} is of other data than {other.path}: {known}"
                faults[what] = UserError(what, "report results of one dataset at a time")
    if faults:
        raise as_one(list(faults.values()))


def has_data(run: Run) -> bool:
    """Say whether the dataset folder that a run names is there."""
    return os.path.isfile(run.data / MANIFEST)  # noqa: PTH113, pathlib raises for names that are too long
