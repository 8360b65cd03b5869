"""Read the answers of a run to single questions: our predictions files, or lm-eval's samples files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator

from generation.records import QUESTION_TYPES
from personamem_builder.schema import QUESTION_TYPE_ALIASES, option_letter

_AGAIN = "where a file was cut short or edited, run `personamem eval` again"

_UNKNOWN: Final = "unknown"
"""Stands for the letter of an option that was chosen, where lm-eval's samples do not tell which."""

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
        predictions: The letter chosen for each score, None where none could be read; absent where a file of
            lm-eval's samples does not tell.
        answer: The letter of the right option; None where the file does not tell.
        option_logprobs: The log-probability of each option; None where letters were read from what a model wrote.
        option_tokens: How many tokens each option has for the model; None where that is not known.
    """

    persona_id: int
    question_type: str
    n_options: int
    credits: Mapping[str, float]
    invalid: frozenset[str]
    skipped: bool
    truncated: bool
    predictions: Mapping[str, str | None] = field(default_factory=dict)
    answer: str | None = None
    option_logprobs: tuple[float, ...] | None = None
    option_tokens: tuple[int, ...] | None = None


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
    answer: str | None = None
    option_logprobs: tuple[float, ...] | None = None
    option_tokens: tuple[Annotated[int, Field(ge=1)], ...] | None = None

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
        for name in ("option_logprobs", "option_tokens"):
            values = getattr(self, name)
            if values is not None and len(values) != self.n_options:
                raise ValueError(f"{name} has {len(values)} values for {self.n_options} options")
        return self


class _Doc(BaseModel):
    question_id: str
    persona_id: int
    question_type: str
    all_options: list[str]
    answer_index: int | None = None


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
    logprobs = tokens = None
    if sample.filter == "none":
        metrics = {"acc": sample.acc, "acc_per_token": sample.acc_per_token}
        credits = {name: value for name, value in metrics.items() if value is not None}
        logprobs, tokens = (None, None) if sample.skipped else _option_scores(sample.filtered_resps)
        predictions: dict[str, str | None] = {name: _UNKNOWN for name in credits}
        if logprobs:
            predictions["acc"] = _best_letter(logprobs)
        if logprobs and tokens and "acc_per_token" in credits:
            predictions["acc_per_token"] = _best_letter([a / b for a, b in zip(logprobs, tokens, strict=True)])
    else:
        letters = {option_letter(i) for i in range(len(sample.doc.all_options))}
        # lm-eval saves every response as a string, so an answer without a letter may read "None"; the rule of
        # v1 may find several letters.
        response = str(sample.filtered_resps[0]).strip().strip("()").lower()
        credits = {sample.filter: sample.acc}
        predictions = {sample.filter: response if response and letters.issuperset(response) else None}
    head = sample.doc.model_dump(exclude={"all_options", "answer_index"})
    right = sample.doc.answer_index
    tail = {
        "skipped": sample.skipped,
        "truncated": sample.truncated,
        "answer": None if right is None else option_letter(right),
        "option_logprobs": logprobs,
        "option_tokens": tokens,
    }
    options = len(sample.doc.all_options)
    return Line.model_validate(
        {"task": task, **head, "n_options": options, "predictions": predictions, "credits": credits, **tail}
    )


def _option_scores(responses: Sequence[Any]) -> tuple[list[float] | None, list[int] | None]:
    """Return what lm-eval saved of `evaluation.scoring.OptionScore`: lists of strings such as `["-1.5", "False", "7"]`.

    None stands for what cannot be read: samples of other versions of lm-eval still have their credits.
    """
    try:
        logprobs = [float(response[0]) for response in responses]
        counts = [response[2] for response in responses if len(response) > 2 and response[2] not in (None, "None")]
        return logprobs, [int(count) for count in counts] if len(counts) == len(logprobs) else None
    except (TypeError, ValueError, IndexError, KeyError):
        return None, None


def _best_letter(values: Sequence[float]) -> str:
    return option_letter(max(range(len(values)), key=values.__getitem__))


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
        predictions={**(earlier.predictions if earlier else {}), **_told(line)},
        answer=line.answer,
        option_logprobs=line.option_logprobs,
        option_tokens=line.option_tokens,
    )


def _told(line: Line) -> dict[str, str | None]:
    return {name: letter for name, letter in line.predictions.items() if letter != _UNKNOWN}


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
