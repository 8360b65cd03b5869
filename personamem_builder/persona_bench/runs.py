"""The runs of PERSONA-Bench tasks: one `Run` for each results file and task, with the samples beside it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple, cast

from pydantic import BaseModel, Field, model_validator

from generation.errors import UserError
from generation.files import file_digest
from generation.reading import as_model, as_one
from personamem_builder.persona_bench import metrics
from personamem_builder.persona_bench.prompts import LIMITS, Limits
from personamem_builder.persona_bench.records import ItemDoc
from personamem_builder.persona_bench.write import MANIFEST
from personamem_builder.results.files import RENAME, ReadRuns, ResultsFile, find_results, newest_runs, read_lines
from personamem_builder.results.model_names import short_names
from personamem_builder.results.settings import Count, LmEvalResults, SampleCount, printable
from personamem_builder.statistics import Estimate

Scores = Mapping[str, Estimate]
Settings = tuple[tuple[str, str], ...]

_NAMED: Final = 3
"""So many files at most are named where none is of this benchmark."""
_START: Final = "evaluate a model first: personamem eval --tasks persona_bench --log_samples …"
_KEEP: Final = "evaluate with the flag --log_samples"
_AGAIN: Final = "evaluate again, with --log_samples"
_MOST_ANSWERS: Final = 1000


class Run(NamedTuple):
    """One model's answers to one task in one condition.

    Attributes:
        settings: lm-eval's name of its kind, its arguments and what else shapes prompts and answers, by name.
        released: Whether the items and prompts are those of the released form.
        written: Whether the answer was written; else the log-likelihoods of the answers were compared.
        data: The dataset folder, as the results name it.
        digests: Of the files that were read there.
        of: How many items the split has; more than there are answers in a partial run.
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
    docs: Sequence[ItemDoc]
    answers: Sequence[metrics.ScoredItem]
    recorded_floors: Mapping[str, Scores]
    failed: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether all items of the split were answered."""
        return len(self.answers) == self.of

    @property
    def asked_for(self) -> str:
        """What a note calls the items."""
        return f"{self.task}, {self.condition}"

    @property
    def identity(self) -> tuple[object, ...]:
        """The same for runs of which the newest one counts."""
        return self.model, self.settings, self.task, self.condition, self.released, self.written, self.split


_Finite = Annotated[float, Field(allow_inf_nan=False)]


class _DatasetArguments(BaseModel):
    task: Literal["sentiment", "impact", "next_text"]
    condition: Literal["pconv", "pnonconv", "npconv"]
    form: str = ""


class _Estimate(BaseModel):
    value: _Finite
    low: _Finite | None = None
    high: _Finite | None = None
    n: Count
    clusters: Count


class _Metadata(BaseModel, extra="allow"):
    data: Path
    data_digests: dict[str, str]
    floors: dict[str, dict[str, _Estimate]] = {}


class _TaskConfig(BaseModel):
    dataset_kwargs: _DatasetArguments
    metadata: _Metadata
    test_split: str
    output_type: Literal["multiple_choice", "generate_until"]


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


def read_runs(places: Sequence[Path]) -> ReadRuns[Run]:
    """Read the runs of results files, and of folders that are searched for them.

    Where one model, with the same settings, answered one task in one condition more than once, the newest whole run
    counts, or the newest partial one where there is no whole one.

    Raises:
        UserError: There are no results, or none that can be read; or as `read_files`. Names all faults.
    """
    found = find_results(places)
    files = [file for file in found.files if file.tasks("PERSONA-Bench")]
    others = [file.path for file in found.files if file.is_named and file not in files]
    faults = [*found.misnamed]
    faults += [UserError(f"{path}: not a results file with PERSONA-Bench tasks", RENAME) for path in others]
    read = read_files(files)
    if read.runs:
        # A file that holds no JSON may be of another benchmark: it is told where there is nothing else.
        return ReadRuns(read.runs, read.notes, [*faults, *read.unreadable])
    looked_at = ", ".join(file.path.name for file in found.files[:_NAMED])
    what = "no results of a PERSONA-Bench task" + (f" in {looked_at}" if looked_at else "")
    nothing = UserError(f"{', '.join(map(str, places))}: {what}", _START)
    raise as_one([*faults, *(read.unreadable or [*found.damaged, nothing])])


def read_files(files: Iterable[ResultsFile]) -> ReadRuns[Run]:
    """Read what can be read of some results files; there may be no runs.

    Unreadable are also those that have no samples beside them or broken ones, or are of other data than their folder.

    Raises:
        UserError: Runs are of other data than one another.
    """
    faults: list[UserError] = []
    notes: list[str] = []
    runs: list[Run] = []
    for file in files:
        try:
            runs += _read_file(file, faults)
        except UserError as fault:
            faults.append(fault)
    runs = _on_their_data(newest_runs(runs, notes), faults)
    called = short_names(run.model for run in runs)
    runs = [run._replace(model=called[run.model]) for run in runs]
    _check_same_data(runs)
    return ReadRuns(runs, notes, faults)


def _read_file(file: ResultsFile, faults: list[UserError]) -> list[Run]:
    results = file.read("PERSONA-Bench")
    where = f"{file.path} is not a results file of lm-eval"
    runs = []
    for name in file.tasks("PERSONA-Bench"):
        task = as_model(results.configs[name], _TaskConfig, f"{where}: configs.{name}", _AGAIN)
        if name not in results.n_samples:
            raise UserError(f"{where}: n-samples.{name}: Field required", _AGAIN)
        samples = file.path.with_name(f"samples_{name}_{file.date}.jsonl")
        if not os.path.lexists(samples):
            faults.append(UserError(f"{file.path}: no samples beside it ({samples.name})", _KEEP))
            continue
        count = results.n_samples[name]
        before = len(faults)
        rows = [row for _, row in read_lines(samples, partial(_scored_sample, task=task), faults, _AGAIN)]
        items = {doc["item_id"] for doc, _ in rows}
        if len(faults) == before and not len(items) == len(rows) == count.effective:
            what = f"has {len(rows)} answers to {len(items)} items, not to {count.effective}: truncated?"
            faults.append(UserError(f"{samples}: {what}", _AGAIN))
        if len(faults) == before and not any(answer for _, answer in rows):
            faults.append(UserError(f"{samples}: none of {len(rows)} items got an answer", "evaluate again"))
        if len(faults) == before:
            runs.append(_run(file, results, task, count, rows))
    return runs


def _scored_sample(value: Any, where: str, task: _TaskConfig) -> tuple[ItemDoc, metrics.ScoredItem | None]:
    """Return an item and its scored answer, None where none came."""
    kind = task.dataset_kwargs.task
    where = f"{where}: not a sample of lm-eval"
    sample = as_model(value, _Sample, where, _AGAIN)
    doc = as_model(sample.doc, _DOCS[kind], f"{where}: doc", _AGAIN)
    item = cast(ItemDoc, doc.model_dump())
    if sample.failed:
        return item, None
    answers = _answers(kind, task.output_type, sample.filtered_resps, where)
    return item, metrics.score_answer(kind, doc.item_id, doc.author, doc.truth, answers)


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
    file: ResultsFile,
    results: LmEvalResults,
    task: _TaskConfig,
    count: SampleCount,
    rows: Sequence[tuple[ItemDoc, metrics.ScoredItem | None]],
) -> Run:
    shown = task.metadata.model_extra or {}
    limits = {
        key: shown[key] for key, least in LIMITS.items() if key in shown and shown[key] != getattr(Limits(), least)
    }
    answered = [(doc, answer) for doc, answer in rows if answer]
    return Run(
        model=printable(results.model or file.path.parent.name),
        settings=results.settings(backend=results.config.model, **limits),
        task=task.dataset_kwargs.task,
        condition=task.dataset_kwargs.condition,
        released=task.dataset_kwargs.form == "released",
        written=task.output_type != "multiple_choice",
        split=printable(task.test_split),
        data=task.metadata.data,
        digests=task.metadata.data_digests,
        of=max(count.original, count.effective),
        date=file.date,
        path=file.path,
        docs=[doc for doc, _ in answered],
        answers=[answer for _, answer in answered],
        recorded_floors={
            rule: {name: Estimate(**estimate.model_dump()) for name, estimate in scores.items()}
            for rule, scores in task.metadata.floors.items()
        },
        failed=len(rows) - len(answered),
    )


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
                changed.append(f"{name} had the digest {printable(digest)}, now {now}")
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
                known = f"{name} has the digest {printable(digest)}, not {printable(str(theirs))}"
                what = f"{run.path} is of other data than {other.path}: {known}"
                faults[what] = UserError(what, "report results of one dataset at a time")
    if faults:
        raise as_one(list(faults.values()))


def has_data(run: Run) -> bool:
    """Say whether the dataset folder that a run names is there."""
    return os.path.isfile(run.data / MANIFEST)  # noqa: PTH113, pathlib raises for names that are too long
