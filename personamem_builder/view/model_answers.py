"""What models answered, question by question, as the page shows it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from generation.errors import UserError
from personamem_builder.memory.controls import Full
from personamem_builder.report.groups import memory_mark
from personamem_builder.results.answers import ScoredAnswer
from personamem_builder.results.responses import read_responses
from personamem_builder.results.runs import Run

_NAMED: Final = 4
"""Runs that an error names."""

_LOWEST: Final = -1e9
"""Stands for a log-likelihood of minus infinity, which JSON cannot say."""


class ModelAnswer(NamedTuple):
    """A question as one run answered it, in the form that the page gets.

    Attributes:
        letters: The letter chosen, by the scores of the run: `""` where no option could be read, None where the file
            does not say.
        credits: From 0 to 1, by the scores of the run.
        response: What the model wrote; None where it only scored options.
        logprobs: The log-likelihood of each option; None where the model wrote.
    """

    letters: list[str | None]
    credits: list[float]
    skipped: bool
    truncated: bool
    response: str | None
    logprobs: list[float] | None


class RunAnswers(NamedTuple):
    """The answers of one run.

    Attributes:
        label: What the page calls it; no two runs are called the same.
        scores: Names of its scores; the first one decides what is right.
        notes: What a reader must know, such as that only some questions were asked.
        answers: By question id.
    """

    label: str
    split: str
    scores: list[str]
    notes: list[str]
    answers: Mapping[str, ModelAnswer]


def model_answers(
    runs: Sequence[Run],
    digest: str,
    question_ids: Mapping[str, Collection[str]],
    origin: str,
    longest: int | None = None,
) -> list[RunAnswers]:
    """Bring runs and the questions of a dataset, their ids by split, together; in the order of the runs.

    Errors call the dataset by its `origin`. Replies of more letters than `longest` are cut in the middle.

    Raises:
        UserError: A run is of another dataset, or answers questions that this one lacks.
    """
    _check_digests(runs, digest, origin)
    labels = [f"{run.model}{memory_mark(run)} · {run.task}" for run in runs]
    several = {label for label, count in Counter(labels).items() if count > 1}
    found = []
    for i, (run, label) in enumerate(zip(runs, labels, strict=True), 1):
        split = _split_of(run, question_ids, origin)
        name = f"{label} · run {i}, {run.date}" if label in several else label
        found.append(RunAnswers(name, split, run.scores, _notes(run, len(question_ids[split])), _answers(run, longest)))
    return found


def _check_digests(runs: Sequence[Run], digest: str, origin: str) -> None:
    other = [run for run in runs if run.data_digest not in (None, digest)]
    if other:
        lines = [f"{run.path}: {run.task} was run on the dataset {run.data_digest}" for run in other[:_NAMED]]
        lines += [f"and {len(other) - _NAMED} more"] * (len(other) > _NAMED)
        raise UserError(
            "\n".join([*lines, f"{origin} is the dataset {digest}"]),
            "view the dataset that was evaluated, or evaluate again on this one",
        )


def _split_of(run: Run, question_ids: Mapping[str, Collection[str]], origin: str) -> str:
    lacking = {
        split: next((asked for asked in run.asked if asked not in ids), None)
        for split, ids in question_ids.items()
        if run.split in (None, split)
    }
    for split, question_id in lacking.items():
        if question_id is None:
            return split
    question_id = next(iter(lacking.values()), min(run.asked))
    raise UserError(
        f"{run.path}: {run.task} answers question {question_id}, which {origin} lacks (in {', '.join(question_ids)})",
        "view the dataset, and the split, that was evaluated",
    )


def _notes(run: Run, questions: int) -> list[str]:
    notes = []
    if run.subset:
        notes.append(f"only the questions of {run.subset.file}")
    if len(run.answers) < questions:
        notes.append(f"answers to {len(run.answers)} of {questions} questions")
    if run.failed:
        notes.append(f"{len(run.failed)} questions failed")
    if run.shown.memory != Full.name:
        notes.append(f"memory: {run.shown.label or run.shown.memory}")
    return notes


def _answers(run: Run, longest: int | None) -> dict[str, ModelAnswer]:
    written = dict(read_responses(run))
    return {
        question_id: ModelAnswer(
            [_letter(answer, score) for score in run.scores],
            [answer.credits[score] for score in run.scores],
            answer.skipped,
            answer.truncated,
            _cut(written.get(question_id), longest),
            None if answer.option_logprobs is None else [_sayable(value) for value in answer.option_logprobs],
        )
        for question_id, answer in run.answers.items()
    }


def _cut(reply: str | None, longest: int | None) -> str | None:
    """Leave out the middle of a long reply: the answer stands at its end, or at its beginning."""
    if reply is None or longest is None or len(reply) <= longest:
        return reply
    half = longest // 2
    return f"{reply[:half]} […] {reply[-half:]}"


def _letter(answer: ScoredAnswer, score: str) -> str | None:
    return "" if score in answer.invalid else answer.predictions.get(score)


def _sayable(value: float) -> float:
    return value if math.isfinite(value) else _LOWEST
