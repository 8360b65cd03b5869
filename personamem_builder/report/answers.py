"""Read the answers of a run to single questions: our predictions files, or lm-eval's samples files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator

from generation.records import QUESTION_TYPES
from personamem_builder.schema import QUESTION_TYPE_ALIASES, option_letter

_AGAIN = "where a file was cut short or edited, run `personamem eval` again"

_Credit = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class Fault(NamedTuple):
    """Something wrong with a file: where (path, or path:line), what, and how to put it right."""

    where: str
    what: str
    fix: str


@dataclass(frozen=True)
class Answer:
    """One question as one run answered it.

    Attributes:
        persona_id: The persona that the question is about.
        question_type: One of the seven canonical types.
        n_options: Number of options to choose from.
        credits: A credit in [0, 1] for each score name; options that tie share a credit of 1.
        invalid: Names of the scores for which no option could be read from the answer.
        skipped: Whether the question was too long to be asked; its credits are 0.
        truncated: Whether the model saw a cut context.
    """

    persona_id: int
    question_type: str
    n_options: int
    credits: Mapping[str, float]
    invalid: frozenset[str]
    skipped: bool
    truncated: bool


class Line(BaseModel):
    """A line of a predictions file; columns that the report does not use are ignored."""

    task: str
    question_id: str
    persona_id: int
    question_type: str
    n_options: int = Field(ge=2)
    predictions: dict[str, str | None]
    credits: dict[str, _Credit] = Field(min_length=1)
    skipped: bool
    truncated: bool

    @field_validator("question_type")
    @classmethod
    def _canonical(cls, label: str) -> str:
        if label not in QUESTION_TYPE_ALIASES:
            raise ValueError(f"unknown question type {label!r}; known: {', '.join(QUESTION_TYPES)}")
        return QUESTION_TYPE_ALIASES[label]

    @model_validator(mode="after")
    def _consistent(self) -> Line:
        if missing := self.credits.keys() - self.predictions.keys():
            raise ValueError(f"no prediction for {', '.join(sorted(missing))}")
        if self.skipped and any(self.credits.values()):
            raise ValueError("a skipped question has a credit above 0")
        return self


class _Doc(BaseModel):
    question_id: str
    persona_id: int
    question_type: str
    all_options: list[str]


class _Sample(BaseModel):
    """A row of lm-eval's samples file: a row per question and filter, metrics beside the rest."""

    doc: _Doc
    filter: str
    filtered_resps: list[Any] = Field(min_length=1)
    acc: float
    acc_per_token: float | None = None
    skipped: bool
    truncated: bool


def line_from_prediction(raw: bytes) -> Line:
    """Parse a line of `predictions_<date>.jsonl`; raises pydantic's ValidationError."""
    return Line.model_validate_json(raw)


def line_from_sample(raw: bytes, task: str) -> Line:
    """Parse a line of `samples_<task>_<date>.jsonl`; raises pydantic's ValidationError.

    A generate task has a row per filter, and the filter's name is the name of the score. A log-likelihood
    task has the filter `none` and a metric per score; it always chooses an option.
    """
    sample = _Sample.model_validate_json(raw)
    if sample.filter == "none":
        metrics = {"acc": sample.acc, "acc_per_token": sample.acc_per_token}
        credits = {name: value for name, value in metrics.items() if value is not None}
        predictions: dict[str, str | None] = dict.fromkeys(credits, "unknown")
    else:
        letters = {option_letter(i) for i in range(len(sample.doc.all_options))}
        # lm-eval saves every response as a string, so an answer without a letter may read "None"; the rule of
        # v1 may find several letters.
        response = str(sample.filtered_resps[0]).strip().strip("()").lower()
        credits = {sample.filter: sample.acc}
        predictions = {sample.filter: response if response and letters.issuperset(response) else None}
    head = sample.doc.model_dump(exclude={"all_options"})
    tail = {"skipped": sample.skipped, "truncated": sample.truncated}
    options = len(sample.doc.all_options)
    return Line.model_validate(
        {"task": task, **head, "n_options": options, "predictions": predictions, "credits": credits, **tail}
    )


def read_answers(path: Path, parse: Callable[[bytes], Line], faults: list[Fault]) -> dict[str, dict[str, Answer]]:
    """Read a file of answers.

    Args:
        path: A JSON-lines file.
        parse: Makes a `Line` of a line of it, or raises pydantic's ValidationError.
        faults: Gets a fault for each line that cannot be used.

    Returns:
        The answers by task and question id.
    """
    tasks: dict[str, dict[str, Answer]] = {}
    # A samples file holds every prompt, so it can be larger than the memory: read it line by line.
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            if not raw.strip():
                continue
            try:
                line = parse(raw)
            except ValidationError as error:
                faults.append(Fault(f"{path}:{number}", explain(error), _AGAIN))
                continue
            answers = tasks.setdefault(line.task, {})
            earlier = answers.get(line.question_id)
            if earlier and earlier.credits.keys() & line.credits.keys():
                what = f"question {line.question_id!r} is there twice for task {line.task}"
                faults.append(Fault(f"{path}:{number}", what, _AGAIN))
                continue
            answers[line.question_id] = _merge(earlier, line)
    return {task: _fill(path, task, answers, faults) for task, answers in tasks.items()}


def explain(error: ValidationError) -> str:
    """Return pydantic's complaints in a line: `credits.acc: Field required; …`."""
    return "; ".join(
        f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" if fault["loc"] else fault["msg"]
        for fault in error.errors()
    )


def _merge(earlier: Answer | None, line: Line) -> Answer:
    nothing_chosen = {name for name in line.credits if line.predictions[name] is None and not line.skipped}
    return Answer(
        persona_id=line.persona_id,
        question_type=line.question_type,
        n_options=line.n_options,
        credits={**(earlier.credits if earlier else {}), **line.credits},
        invalid=(earlier.invalid if earlier else frozenset()) | nothing_chosen,
        skipped=line.skipped,
        truncated=line.truncated,
    )


def _fill(path: Path, task: str, answers: dict[str, Answer], faults: list[Fault]) -> dict[str, Answer]:
    """Give a skipped question every score of its task; other questions must have them all."""
    scores = sorted({name for answer in answers.values() for name in answer.credits})
    filled = {}
    for question_id, answer in answers.items():
        missing = [name for name in scores if name not in answer.credits]
        if missing and not answer.skipped:
            what = f"question {question_id!r} of {task} lacks the score {', '.join(missing)}, which others have"
            faults.append(Fault(str(path), what, _AGAIN))
        filled[question_id] = replace(answer, credits={**dict.fromkeys(missing, 0.0), **answer.credits})
    return filled
