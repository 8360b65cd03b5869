"""Read the answers of a run to single questions: our predictions files, or lm-eval's samples files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from generation.errors import UserError
from generation.reading import as_model
from generation.records import QUESTION_TYPES
from personamem_builder.results.files import MOST_FAULTS, read_lines
from personamem_builder.schema import QUESTION_TYPE_ALIASES, AnswerOutcome, best_letter, option_letter, option_letters
from personamem_builder.usage import AnswerUsage

MAX_OPTIONS: Final = 26
"""Options have a letter each."""

_AGAIN: Final = "where a file was cut short or edited, run `personamem eval` again"
_SHOWN: Final = 60

_UNKNOWN: Final = "unknown"
"""Stands for the letter of an option that was chosen, where lm-eval's samples do not tell which."""

_Credit = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
_PersonaId = Annotated[int, Field(ge=-(2**31), lt=2**31)]
_Tokens = Annotated[int, Field(ge=1, lt=2**31)]
_Count = Annotated[int, Field(ge=0, lt=2**31)]


@dataclass(frozen=True)
class ScoredAnswer:
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
        outcome: How the answer came about; that of a question that failed has no credits.
        usage: What it took.
        unseen: Probability that an endpoint gave to none of the letters; None where it did not score them.
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
    outcome: AnswerOutcome = "answered"
    usage: AnswerUsage = field(default_factory=AnswerUsage)
    unseen: float | None = None


class PredictionLine(BaseModel):
    """A line of a predictions file; columns that the report does not use are ignored."""

    model_config = ConfigDict(strict=True)

    task: str = Field(min_length=1, max_length=200)
    question_id: str = Field(min_length=1)
    persona_id: _PersonaId
    question_type: str
    n_options: int = Field(ge=2, le=MAX_OPTIONS)
    predictions: dict[str, str | None]
    credits: dict[str, _Credit]
    skipped: bool
    truncated: bool
    answer: str | None = None
    option_logprobs: list[float] | None = None
    option_tokens: list[_Tokens] | None = None
    # Older files do not say how an answer came about: then one came.
    outcome: AnswerOutcome = "answered"
    finish_reason: str | None = None
    # Nor what it took, which nobody knows of local models anyway.
    seconds: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    prompt_tokens: _Count | None = None
    reply_tokens: _Count | None = None
    cached_tokens: _Count | None = None
    unseen: float | None = Field(default=None, ge=0, le=1)

    @model_validator(mode="before")
    @classmethod
    def _without_credits_where_it_failed(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("outcome") == "failed":
            return values | {"predictions": {}, "credits": {}, "option_logprobs": None, "option_tokens": None}
        return values

    @field_validator("question_type")
    @classmethod
    def _canonical(cls, label: str) -> str:
        if label not in QUESTION_TYPE_ALIASES:
            raise ValueError(f"unknown question type {_short(label)}; known: {', '.join(QUESTION_TYPES)}")
        return QUESTION_TYPE_ALIASES[label]

    @field_validator("credits")
    @classmethod
    def _named(cls, credits: dict[str, float]) -> dict[str, float]:
        for name in credits:
            if not name.isprintable() or not 0 < len(name) <= _SHOWN:
                raise ValueError(f"{_short(name)} is not the name of a score")
        return credits

    @model_validator(mode="after")
    def _consistent(self) -> PredictionLine:
        if missing := self.credits.keys() - self.predictions.keys():
            raise ValueError(f"no prediction for {', '.join(sorted(missing))}")
        if self.skipped and any(self.credits.values()):
            raise ValueError("a skipped question has a credit above 0")
        if self.answer is not None and self.answer not in (letters := option_letters(self.n_options)):
            raise ValueError(f"answer: {_short(self.answer)} is none of the letters {letters[0]} to {letters[-1]}")
        for name in ("option_logprobs", "option_tokens"):
            values = getattr(self, name)
            if values is not None and len(values) != self.n_options:
                raise ValueError(f"{name} has {len(values)} values for {self.n_options} options")
        return self


def _short(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…")


class _Doc(BaseModel):
    question_id: str
    persona_id: _PersonaId
    question_type: str
    all_options: list[str] = Field(min_length=2, max_length=MAX_OPTIONS)
    answer_index: int | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _consistent(self) -> _Doc:
        if self.answer_index is not None and self.answer_index >= len(self.all_options):
            raise ValueError(f"answer_index is {self.answer_index}, of {len(self.all_options)} options")
        return self


class _Sample(BaseModel):
    """A row of lm-eval's samples file: a row per question and filter, metrics beside the rest."""

    doc: _Doc
    filter: str
    filtered_resps: list[Any] = Field(min_length=1)
    acc: _Credit | None = None
    acc_per_token: _Credit | None = None
    skipped: bool
    truncated: bool
    failed: bool = False
    cut: bool = False
    refused: bool = False

    @property
    def outcome(self) -> AnswerOutcome:
        return "failed" if self.failed else "refused" if self.refused else "cut" if self.cut else "answered"


def line_from_prediction(value: Any, where: str) -> PredictionLine:
    """Return a line of `predictions_<date>.jsonl`; raises `UserError`."""
    return as_model(value, PredictionLine, where, _AGAIN)


def line_from_sample(value: Any, where: str, task: str) -> PredictionLine:
    """Return a line of `samples_<task>_<date>.jsonl`; raises `UserError`.

    A generate task has a row per filter, and the filter's name is the name of the score. A log-likelihood
    task has the filter `none` and a metric per score; it always chooses an option.
    """
    sample = as_model(value, _Sample, where, _AGAIN)
    logprobs = tokens = None
    letters = option_letters(len(sample.doc.all_options))
    if sample.filter == "none":
        metrics = {"acc": sample.acc, "acc_per_token": sample.acc_per_token}
        credits = {name: value for name, value in metrics.items() if value is not None}
        if not sample.skipped:
            logprobs, tokens = _option_scores(sample.filtered_resps, len(letters))
        predictions: dict[str, str | None] = {name: _UNKNOWN for name in credits}
        if logprobs:
            predictions["acc"] = best_letter(logprobs)
        if logprobs and tokens and "acc_per_token" in credits:
            predictions["acc_per_token"] = best_letter([a / b for a, b in zip(logprobs, tokens, strict=True)])
    else:
        # lm-eval saves every response as a string, so an answer without a letter may read "None"; the rule of
        # v1 may find several letters.
        response = str(sample.filtered_resps[0]).strip().strip("()").lower()
        credits = {} if sample.acc is None else {sample.filter: sample.acc}
        predictions = {sample.filter: response if response and set(letters).issuperset(response) else None}
    head = sample.doc.model_dump(exclude={"all_options", "answer_index"})
    right = sample.doc.answer_index
    tail = {
        "skipped": sample.skipped,
        "truncated": sample.truncated,
        "answer": None if right is None else option_letter(right),
        "option_logprobs": logprobs,
        "option_tokens": tokens,
        "outcome": sample.outcome,
    }
    line = {"task": task, **head, "n_options": len(letters), "predictions": predictions, "credits": credits, **tail}
    return as_model(line, PredictionLine, where, _AGAIN)


def _option_scores(responses: Sequence[Any], count: int) -> tuple[list[float] | None, list[int] | None]:
    """Return what lm-eval saved of `evaluation.scoring.OptionScore`: lists of strings such as `["-1.5", "False", "7"]`.

    None stands for what cannot be read: samples of other versions of lm-eval still have their credits.
    """
    try:
        logprobs = [float(response[0]) for response in responses]
        told = [response[2] for response in responses if len(response) > 2 and response[2] not in (None, "None")]
        tokens = [int(number) for number in told]
    except (TypeError, ValueError, LookupError, OverflowError):
        return None, None
    if len(logprobs) != count:
        return None, None
    return logprobs, tokens if len(tokens) == count and all(0 < number < 2**31 for number in tokens) else None


def read_answers(
    path: Path, parse: Callable[[Any, str], PredictionLine], faults: list[UserError]
) -> dict[str, dict[str, ScoredAnswer]]:
    """Read a file of answers, see `collect_answers`.

    Args:
        path: A JSON-lines file.
        parse: Makes a `PredictionLine` of the value of a line and the name of its place, or raises `UserError`.
        faults: Gets a fault for each line that cannot be used.

    Raises:
        UserError: The file cannot be read.
    """
    return collect_answers(path, read_lines(path, parse, faults, _AGAIN), faults)


def collect_answers(
    path: Path, lines: Iterable[tuple[str, PredictionLine]], faults: list[UserError]
) -> dict[str, dict[str, ScoredAnswer]]:
    """Put the lines of a file together, each of which comes with the name of its place.

    Returns:
        The answers by task and question id. Those of a task that did not fail have the same scores, or none after
        `--predict_only`.
    """
    tasks: dict[str, dict[str, ScoredAnswer]] = {}
    for where, line in lines:
        answers = tasks.setdefault(line.task, {})
        earlier = answers.get(line.question_id)
        if earlier is None or earlier.outcome == line.outcome == "failed":
            answers[line.question_id] = _merge(None, line)  # lm-eval's samples have a failure once for each filter
        elif "failed" in (earlier.outcome, line.outcome) or earlier.credits.keys() & line.credits.keys():
            what = f"question {_short(line.question_id)} appears twice for task {_short(line.task)}"
            faults.append(UserError(f"{where}: {what}", _AGAIN))
        else:
            answers[line.question_id] = _merge(earlier, line)
    return {name: _fill(path, name, answers, faults) for name, answers in tasks.items()}


def _merge(earlier: ScoredAnswer | None, line: PredictionLine) -> ScoredAnswer:
    nothing_chosen = {name for name in line.credits if line.predictions[name] is None and not line.skipped}
    return ScoredAnswer(
        persona_id=line.persona_id,
        question_type=line.question_type,
        n_options=line.n_options,
        credits={**(earlier.credits if earlier else {}), **line.credits},
        invalid=(earlier.invalid if earlier else frozenset()) | nothing_chosen,
        skipped=line.skipped,
        truncated=line.truncated,
        predictions={**(earlier.predictions if earlier else {}), **_told(line)},
        answer=line.answer,
        option_logprobs=None if line.option_logprobs is None else tuple(line.option_logprobs),
        option_tokens=None if line.option_tokens is None else tuple(line.option_tokens),
        outcome=line.outcome,
        usage=AnswerUsage(line.seconds, line.prompt_tokens, line.reply_tokens, line.cached_tokens),
        unseen=line.unseen,
    )


def _told(line: PredictionLine) -> dict[str, str | None]:
    return {name: letter for name, letter in line.predictions.items() if letter != _UNKNOWN}


def _fill(path: Path, task: str, answers: dict[str, ScoredAnswer], faults: list[UserError]) -> dict[str, ScoredAnswer]:
    """Give a skipped question every score of its task; others must have them all, but for those that failed."""
    scores = sorted({name for answer in answers.values() for name in answer.credits})
    filled = dict(answers)
    lacking = 0
    for question_id, answer in answers.items():
        missing = [name for name in scores if name not in answer.credits and answer.outcome != "failed"]
        if missing and not answer.skipped:
            lacking += 1
            what = f"question {_short(question_id)} of {task} lacks the score {', '.join(missing)}, which others have"
            if lacking <= MOST_FAULTS:
                faults.append(UserError(f"{path}: {what}", _AGAIN))
        if missing:
            filled[question_id] = replace(answer, credits={**dict.fromkeys(missing, 0.0), **answer.credits})
    return filled
