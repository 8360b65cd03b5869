"""The runs of personamem's tasks: one `Run` for each results file and task.

`personamem eval` leaves two files of one date: lm-eval's `results_<date>.json` and our
`predictions_<date>.jsonl`. Plain `lm_eval --log_samples` leaves `samples_<task>_<date>.jsonl` instead of the
second; that is read too, and so are Inspect's logs. Results that cannot be read do not hide the others: all their
faults are collected.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

from generation.errors import UserError
from generation.reading import as_model, as_one, clean_text
from personamem_builder.memory.controls import Nothing
from personamem_builder.results.answers import ScoredAnswer, line_from_prediction, line_from_sample, read_answers
from personamem_builder.results.files import (
    ELSE,
    START,
    FoundResults,
    ReadRuns,
    ResultsFile,
    check_task_names,
    find_results,
    newest_runs,
)
from personamem_builder.results.inspect_logs import InspectLog, read_logs
from personamem_builder.results.model_names import ends_of, short_names
from personamem_builder.results.settings import (
    FLOOR_BACKEND,
    LmEvalResults,
    SampleCount,
    TaskConfig,
    printable,
)
from personamem_builder.results.shown import MemoryShown, Subset, memory_shown, subset_asked
from personamem_builder.schema import SPLITS

NO_CONTEXT: Final = "_nocontext"
"""End of the name of a task that asks another task's questions without the conversation."""

_KEEP: Final = "evaluate with `personamem eval`, which keeps the answers, or give lm_eval the flag `--log_samples`"


@dataclass(frozen=True, eq=False)
class Run:
    """One model's answers to one task.

    Attributes:
        model: What people call the model: `floor: POLICY`, its name, or the end of its path that tells it from others.
        backend: lm-eval's name of the kind of model, such as `hf`.
        model_args: Arguments of the backend and what else shapes the prompt, sorted by name.
        task: Name of the lm-eval task, with the split that it asked.
        data_digest: Digest of the data that the task read; None where the results do not say.
        limit: lm-eval's `--limit` (a number of questions or a fraction below 1), or the number of questions that
            `--samples` chose, or that have answers where some are missing; None for a whole run.
        date: Date of the run as its file name has it; sorts by time.
        path: The results file.
        answers: The answers by question id; all have the same scores. Empty where every question failed.
        failed: The questions to which no answer came; they count nowhere.
        subset: The questions that it was restricted to; None where it was not.
        shard: Which part of a run it is, such as `3/8`; None where it was not divided.
        shown: What it showed of conversations.
        data: Where the task found its data, in words: the folder, if it was one.
        hub: `ORG/NAME` and the commit on the Hub where it found them; None where they were not from there.
        split: The split that it asked; None where that is not known.
        is_computed: Whether a floor was computed for the report, whose answers are in no file.
        model_in_results: The model's whole name, or path, as the results have it; empty where there are none.
    """

    model: str
    backend: str
    model_args: tuple[tuple[str, str], ...]
    task: str
    data_digest: str | None
    limit: float | None
    date: str
    path: Path
    answers: Mapping[str, ScoredAnswer]
    subset: Subset | None = None
    shard: str | None = None
    shown: MemoryShown = field(default_factory=MemoryShown)
    data: str | None = None
    hub: tuple[str, str] | None = None
    split: str | None = None
    is_computed: bool = False
    failed: Mapping[str, ScoredAnswer] = field(default_factory=dict)
    model_in_results: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """All that the model may be called, what it is called here first."""
        return tuple(dict.fromkeys([self.model, *ends_of(self.model_in_results or self.model)]))

    @property
    def asked(self) -> frozenset[str]:
        """The ids of all questions that were asked, also of those that failed."""
        return frozenset(self.answers) | frozenset(self.failed)

    @property
    def is_whole(self) -> bool:
        """Whether it asked all questions."""
        return self.limit is None

    @property
    def asked_for(self) -> str:
        """What a note calls the questions."""
        return f"part {self.shard} of {self.task}" if self.shard else self.task

    @property
    def identity(self) -> tuple[object, ...]:
        """The same for runs of which the newest one counts."""
        subset = self.subset and self.subset.sha256
        return *self.model_key, self.data_digest, subset, self.shown.key, self.shard

    @property
    def model_key(self) -> tuple[object, ...]:
        """The same for runs of a task by the same model with the same arguments."""
        return self.task, self.model, self.backend, self.model_args

    @property
    def base_task(self) -> str:
        """The task, without the end that says that there was no context."""
        return self.task.removesuffix(NO_CONTEXT)

    @property
    def has_context(self) -> bool:
        """Whether it showed anything of conversations."""
        return not self.task.endswith(NO_CONTEXT) and self.shown.memory != Nothing.name

    @property
    def is_floor(self) -> bool:
        """Whether a shortcut policy answered, not a model."""
        return self.backend == FLOOR_BACKEND

    @property
    def scores(self) -> list[str]:
        """Names of the run's scores, sorted; none where every question failed."""
        return sorted(next(iter(self.answers.values())).credits) if self.answers else []


def read_runs(places: Iterable[Path]) -> ReadRuns[Run]:
    """Read the runs of results files, and of folders that are searched for them.

    Where one model, with the same arguments, answered one task on the same questions and with the same memory more
    than once, the newest whole run counts, or the newest partial run where there is no whole one. A part of a run does
    not count beside one that asked all its questions.

    Raises:
        UserError: Nothing was found, or nothing that can be read; names every file, line and fault.
    """
    return read_found(find_results(places))


def read_found(found: FoundResults, *, may_be_none: bool = False) -> ReadRuns[Run]:
    """Read the runs of what was found, as `read_runs` does; there may be none where there are other results."""
    faults = [*found.misnamed, *found.damaged]
    notes: list[str] = []
    runs: list[Run] = []
    for file in [*found.files, *read_logs(found.logs, faults, notes)]:
        try:
            runs += _read_file(file, faults, notes)
        except UserError as fault:
            faults.append(fault)
    runs = _without_merged_parts(newest_runs(runs, notes), notes)
    called = short_names(run.model for run in runs)
    runs = [replace(run, model=called[run.model], model_in_results=run.model) for run in runs]
    notes = [clean_text(note) for note in notes]
    if not runs and not may_be_none:
        what = "\n".join([f"{', '.join(map(str, found.places))}: no results of a personamem task", *notes])
        raise as_one(faults or [UserError(what, START)])
    return ReadRuns(runs, notes, faults)


def _without_merged_parts(runs: Sequence[Run], notes: list[str]) -> list[Run]:
    undivided = {run.identity: run for run in runs if run.shard is None}
    kept, left_out = [], Counter[Run]()
    for run in runs:
        whole = undivided.get((*run.identity[:-1], None))
        if run.shard is not None and whole is not None and run.asked <= whole.asked:
            left_out[whole] += 1
        else:
            kept.append(run)
    notes += [f"left out {n} parts of {run.model} on {run.task} ({run.path} counts)" for run, n in left_out.items()]
    return kept


def _read_file(file: ResultsFile, faults: list[UserError], notes: list[str]) -> list[Run]:
    names, listed = file.tasks("personamem"), file.benchmarks
    if listed is not None and not names:
        what = f"no personamem task, only {printable(', '.join(sorted(listed))) or 'none at all'}"
        if file.is_named:
            raise UserError(f"{file.path}: {what}", "leave this file out")
        notes.append(f"left out {file.path}: {what}")
        return []
    results = file.read("personamem")
    configs = {name: _config(file.path, name, results) for name in names}
    before = len(faults)
    tasks = _answers_beside(file, names, faults)
    if len(faults) > before:
        return []
    runs = []
    for name, answers in sorted(tasks.items()):
        given = {question_id: answer for question_id, answer in answers.items() if answer.outcome != "failed"}
        count = results.n_samples.get(name)
        if given and not any(answer.credits for answer in given.values()):
            notes.append(f"left out {file.path}: {printable(name)} has no scores, as after --predict_only")
        elif not answers:
            faults.append(UserError(f"{file.path}: no answers to task {printable(name)} beside it", _KEEP))
        else:
            if count and count.effective != len(answers):
                known = f"{len(answers)} of {count.effective} questions"
                notes.append(f"{file.path}: {printable(name)} has answers to {known}")
            runs.append(_run(file, name, configs.get(name, TaskConfig()), results, answers, given))
    return runs


def _config(path: Path, name: str, results: LmEvalResults) -> TaskConfig:
    where = f"{path} is not a results file of our tasks: configs.{printable(name)}"
    return as_model(results.configs[name], TaskConfig, where, ELSE)


def _answers_beside(
    file: ResultsFile, tasks: Iterable[str], faults: list[UserError]
) -> dict[str, dict[str, ScoredAnswer]]:
    """Return the answers by task, for all tasks of the results that are ours."""
    if isinstance(file, InspectLog):
        return file.answers(faults)
    answers: dict[str, dict[str, ScoredAnswer]] = {task: {} for task in tasks}
    predictions = file.path.with_name(f"predictions_{file.date}.jsonl")
    if os.path.lexists(predictions):
        answers |= read_answers(predictions, line_from_prediction, faults)
        check_task_names(predictions, answers)
        return answers
    samples = {task: file.path.with_name(f"samples_{task}_{file.date}.jsonl") for task in answers}
    if missing := [path.name for path in samples.values() if not os.path.lexists(path)]:
        what = f"no answers beside it: neither {predictions.name} nor {', '.join(missing)}"
        faults.append(UserError(f"{file.path}: {what}", _KEEP))
        return {}
    for task, path in samples.items():
        answers |= read_answers(path, partial(line_from_sample, task=task), faults)
    return answers


def _run(
    file: ResultsFile,
    task: str,
    config: TaskConfig,
    results: LmEvalResults,
    answers: Mapping[str, ScoredAnswer],
    given: Mapping[str, ScoredAnswer],
) -> Run:
    metadata = config.metadata
    count = results.n_samples.get(task)
    everything = count is not None and 0 < count.original == count.effective == len(answers)
    missing = count is not None and count.effective != len(answers)
    return Run(
        model=printable(results.model or file.path.parent.name),
        backend=printable(results.config.model),
        model_args=results.settings(
            roles=None if metadata.roles == "normalised" else metadata.roles,
            overlength="left" if metadata.overlength == "left" else None,
            instruction=metadata.instruction_sha256 and metadata.instruction_sha256[:8],
            explain="true" if metadata.explain else None,
        ),
        task=_named_after_split(task, metadata.split),
        data_digest=None if metadata.data_digest is None else printable(metadata.data_digest),
        # A --limit beyond the last question leaves none out.
        limit=None if everything else results.config.limit or _chosen(count) or (len(answers) if missing else None),
        date=file.date,
        path=file.path,
        answers=given,
        subset=subset_asked(metadata),
        shard=metadata.shard and printable(metadata.shard),
        shown=memory_shown(metadata),
        data=metadata.data,
        hub=(metadata.repo, metadata.commit) if metadata.repo and metadata.commit else None,
        split=config.test_split or _split_in(task),
        failed={question_id: answer for question_id, answer in answers.items() if question_id not in given},
    )


def _split_in(task: str) -> str | None:
    return next((split for split in SPLITS if f"_{split}" in task), None)


def _named_after_split(task: str, split: str | None) -> str:
    """Return a task's name with the split that it asked (`--metadata split=…`) in place of its file's own."""
    own = _split_in(task)
    return task if own is None or split is None else task.replace(own, printable(split), 1)


def _chosen(count: SampleCount | None) -> int | None:
    """Return how many questions `--samples` chose, None if all were asked."""
    return count.effective if count and count.effective < count.original else None
