"""Reading what lm-eval leaves of PERSONA-Bench tasks: one `Run` for each results file and task."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from pydantic import BaseModel, Field, ValidationError

from generation.errors import UserError
from generation.files import file_digest
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
_SHOWN_FAULTS: Final = 20
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

    @property
    def is_whole(self) -> bool:
        """Whether all items of the split were asked."""
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


class _Fault(NamedTuple):
    what: str
    fix: str


class _Config(BaseModel):
    model: str
    model_args: dict[str, Any] | str | None = None
    gen_kwargs: dict[str, Any] | str | None = None


class _Asked(BaseModel):
    task: Literal["sentiment", "impact", "next_text"]
    condition: Literal["pconv", "pnonconv", "npconv"]
    form: str = ""


class _Metadata(BaseModel, extra="allow"):
    data: Path
    data_digests: dict[str, str]
    floors: dict[str, dict[str, dict[str, Any]]] = {}


class _Task(BaseModel):
    dataset_kwargs: _Asked
    metadata: _Metadata
    test_split: str
    output_type: str


class _Count(BaseModel):
    original: int
    effective: int


class _Results(BaseModel):
    config: _Config
    configs: dict[str, dict[str, Any]]
    model_name: str | None = None
    chat_template_sha: str | None = None
    system_instruction_sha: str | None = None
    n_samples: dict[str, _Count] = Field(alias="n-samples")


class _Sample(BaseModel):
    doc: dict[str, Any]
    filtered_resps: list[list[Any]]


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


def read_runs(paths: Sequence[Path], notes: list[str]) -> list[Run]:
    """Read the runs of results files and folders.

    Where one model, with the same settings, answered one task in one condition more than once, the newest whole run
    counts, or the newest partial one where there is no whole one.

    Args:
        paths: `results_<date>.json` files, or folders that are searched for such files.
        notes: Gets what was left out.

    Raises:
        UserError: There are no results, they have no samples beside them or broken ones, or they are of other data than
            their folder or than one another. Names all faults.
    """
    files = find_results(paths).files
    faults: list[_Fault] = [_Fault(f"{path}: no such file or folder", _START) for path in paths if not path.exists()]
    faults += [
        _Fault(f"{path}: not a results file with PERSONA-Bench tasks", "name results_<date>.json, or its folder")
        for path in paths
        if path.is_file() and path not in files
    ]
    runs = [run for path in files for run in _read_file(path, faults)]
    if not runs and not faults:
        faults.append(_Fault(f"{', '.join(map(str, paths))}: no results of a PERSONA-Bench task", _START))
    _raise_if_any(faults)
    runs = _newest(runs, notes)
    _check_data(runs)
    return runs


def _files(paths: Sequence[Path]) -> list[Path]:
    found: dict[Path, Path] = {}
    for path in paths:
        files = (
            [file for file in sorted(path.rglob("*.json")) if _NAME.fullmatch(file.name)] if path.is_dir() else [path]
        )
        for file in files:
            found.setdefault(file.resolve(), file)
    return list(found.values())


def _tasks_of(path: Path) -> dict[str, dict[str, Any]]:
    """Return the tasks of a results file, none of other files."""
    try:
        configs = json.loads(path.read_bytes())["configs"] if _NAME.fullmatch(path.name) else {}
        return {name: {"metadata": config.get("metadata") or {}} for name, config in configs.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _is_ours(config: Mapping[str, Any]) -> bool:
    return "data_digests" in (config.get("metadata") or {})


def _is_personamem(name: str, config: Mapping[str, Any]) -> bool:
    return name.startswith("personamem") or "data_digest" in config["metadata"]


def _read_file(path: Path, faults: list[_Fault]) -> list[Run]:
    try:
        results = _Results.model_validate_json(path.read_bytes())
        tasks = {
            name: _Task.model_validate(config) for name, config in sorted(results.configs.items()) if _is_ours(config)
        }
        date = path.name.removesuffix(".json").rpartition("_")[2]
        runs = []
        for name, task in tasks.items():
            samples = path.with_name(f"samples_{name}_{date}.jsonl")
            if not samples.exists():
                faults.append(_Fault(f"{path}: no samples beside it ({samples.name})", _KEEP))
                continue
            count = results.n_samples[name]
            before = len(faults)
            rows = list(_read_samples(samples, task, faults))
            items = {answer.item_id for _, answer in rows}
            if len(faults) == before and not len(items) == len(rows) == count.effective:
                what = f"has {len(rows)} answers to {len(items)} items, not to {count.effective}: truncated?"
                faults.append(_Fault(f"{samples}: {what}", _AGAIN))
            if len(faults) == before:
                runs.append(_run(path, date, results, task, count, rows))
    except OSError as error:
        faults.append(_Fault(f"{error.filename}: {error.strerror}", "see to the file"))
        return []
    except (ValidationError, KeyError) as error:
        faults.append(_Fault(f"{path}: not a results file of lm-eval: {_in_a_line(error)}", _AGAIN))
        return []
    return runs


def _read_samples(path: Path, task: _Task, faults: list[_Fault]) -> Iterator[tuple[Doc, metrics.Answer]]:
    kind = task.dataset_kwargs.task
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                sample = _Sample.model_validate_json(line)
                # The prompt is long, and no floor reads it.
                doc = {key: value for key, value in sample.doc.items() if key != "prompt"}
                given = _answers(kind, task.output_type, sample.filtered_resps)
                yield doc, metrics.score_answer(kind, doc["item_id"], doc["author"], doc["truth"], given)
            except (ValueError, KeyError, IndexError, TypeError) as error:
                what = f"{path}, line {number}: not a sample of lm-eval: {_in_a_line(error)}"
                faults.append(_Fault(what, _AGAIN))


def _answers(kind: str, output_type: str, given: Sequence[Sequence[Any]]) -> list[Any]:
    """Read an answer as the task did, see `task.PersonaBenchTask.process_results`."""
    if output_type == "multiple_choice":
        positive, negative = (float(choice[0]) for choice in given)
        return [None if positive == negative else positive > negative]
    return [metrics.parse(kind, text) for text in given[0]]


def _in_a_line(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return "; ".join(": ".join([*map(str, fault["loc"]), fault["msg"]]) for fault in error.errors())
    return f"no {error}" if isinstance(error, KeyError) else str(error)


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
        settings=tuple(sorted((key, _printable(str(value))) for key, value in settings.items() if value)),
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
            rule: {name: Estimate(**values) for name, values in scores.items()}
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


def _check_data(runs: Sequence[Run]) -> None:
    """Refuse runs on other data than those that their folder holds now, or than another run of their table."""
    faults: dict[str, _Fault] = {}
    held: dict[Path, str] = {}
    first: dict[tuple[object, ...], Run] = {}
    for run in runs:
        other = first.setdefault((run.task, run.released, run.split), run)
        for name, digest in run.digests.items():
            if (theirs := other.digests.get(name)) != digest:
                what = f"{run.path} is of other data than {other.path}: {name} has the digest {digest}, not {theirs}"
                faults.setdefault(what, _Fault(what, "report results of one dataset at a time"))
            if not has_data(run):
                continue
            path = run.data / name
            if path not in held:
                held[path] = file_digest(path) if path.is_file() else "none, as there is no such file"
            if (now := held[path]) != digest:
                what = f"{run.path} is of other data than {run.data} holds: {name} had the digest {digest}, now {now}"
                faults.setdefault(what, _Fault(what, "evaluate again, or bring back the data that were evaluated"))
    _raise_if_any(list(faults.values()))


def has_data(run: Run) -> bool:
    """Say whether the dataset folder that a run names is there."""
    return (run.data / MANIFEST).is_file()


def _raise_if_any(faults: Sequence[_Fault]) -> None:
    if faults:
        lines = [fault.what for fault in faults[:_SHOWN_FAULTS]]
        lines += [f"and {len(faults) - _SHOWN_FAULTS} more"] if len(faults) > _SHOWN_FAULTS else []
        raise UserError("\n".join(lines), "; ".join(dict.fromkeys(fault.fix for fault in faults)))
