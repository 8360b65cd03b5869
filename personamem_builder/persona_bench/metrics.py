"""Reading answers and scoring them: one parser for each task, and the metrics of the source with others beside.

An answer that cannot be read stays in every denominator and is counted as `unparsed`. It is worth: in `sentiment`, the
wrong answer; in `impact`, a score of 0; in `next_text` (an empty answer), 0 in every metric.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from generation.errors import UserError
from personamem_builder.persona_bench.text_metrics import text_metrics, text_scores
from personamem_builder.statistics import Estimate, overall, paired_difference, standard_error

_Indices = npt.NDArray[np.intp]
_Values = npt.NDArray[Any]
_Limits = tuple[float, float]
_Measure = Callable[[_Indices], _Values]
"""All metrics of a run, as a function of the answers that they are taken over."""

_THINKING: Final = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_HALF_OF_THINKING: Final = re.compile(r".*</think(?:ing)?>|<think(?:ing)?>.*", re.DOTALL | re.IGNORECASE)
_CLASS: Final = re.compile(r"\b(positive|negative)\b", re.IGNORECASE)
_NUMBER: Final = re.compile(r"(?<![\w.])[-+]?\d+(?:,\d{3})*(?:\.\d+)?(?!\w)|(?<![\w.])[-+]?\.\d+(?!\w)")
_TAIL: Final = 0.025
_GROUPS: Final = 200
"""Intervals of metrics that are no means leave out one group of authors at a time, at most so many."""

SCORES_END: Final = 2.0**63
"""No score is as large; the square of one is still a number."""

_BOUNDED: Final = frozenset({"acc", "unparsed"})
"""Means of values in [0, 1] whose interval is that of an accuracy."""

_POOLED: Final[Mapping[str, tuple[str, ...]]] = {
    "sentiment": ("f1_binary", "f1_weighted", "mcc"),
    "impact": ("rmse", "log_rmse", "spearman", "kendall"),
}
ERRORS: Final = ("mae", "rmse", "log_mae", "log_rmse")
_SIGNED: Final = ("mcc", "spearman", "kendall", "sbert")
_NO_ERROR: Final = 1e-12
"""A standard error below this is 0 but for rounding."""

BEST_OF: Final = re.compile(r"best_of_\d+_")
LOWER_IS_BETTER: Final = frozenset({"unparsed", "cut", "failed", *ERRORS})


class ScoredItem(NamedTuple):
    """A scored answer; intervals are clustered by `author`.

    Attributes:
        truth: Whether the score is above 0, the score, or the reply.
        prediction: What the answer counts as: of the truth's kind, also where it could not be read.
        values: The metrics that are means over items, of this item.
    """

    item_id: str
    author: str
    truth: Any
    prediction: Any
    values: Mapping[str, float]


def parse(task: str, text: str) -> bool | float | str | None:
    """Read an answer; None where there is none.

    Thinking between `<think>` tags (or up to a closing one, or from an opening one on) is dropped first. Then, for
    `sentiment`: the last of the words positive and negative, in any case. For `impact`: the last number, with an
    optional sign, commas between thousands and decimals, where it fits into 64 bits. For `next_text`: all that is
    left, without white space at its ends.
    """
    text = _HALF_OF_THINKING.sub("", _THINKING.sub("", text)).strip()
    if task == "next_text":
        return text or None
    found = (_CLASS if task == "sentiment" else _NUMBER).findall(text.replace("−", "-"))
    if not found:
        return None
    if task == "sentiment":
        return bool(found[-1].lower() == "positive")
    number = float(found[-1].replace(",", ""))
    return number if abs(number) < SCORES_END else None


def score_answer(task: str, item_id: str, author: str, truth: Any, answers: Sequence[Any]) -> ScoredItem:
    """Score what a model gave for one item.

    Args:
        task: One of `TASKS`.
        item_id: The item.
        author: Its author.
        truth: What was to be found.
        answers: What `parse` gave for each sample. More than one only for `next_text`: the metrics are then means
            over the samples, and `best_of_n_…` is the best of the n samples by the truth, for each metric alone.
    """
    if task == "next_text":
        scored = [text_scores(truth, text) if text else None for text in answers]
        names = text_metrics()
        columns = {name: [row[name] if row else 0.0 for row in scored] for name in names}
        values = {name: sum(column) / len(column) for name, column in columns.items()}
        if len(answers) > 1:
            values |= {f"best_of_{len(answers)}_{name}": max(column) for name, column in columns.items()}
        return ScoredItem(
            item_id, author, truth, answers[0] or "", values | {"unparsed": answers.count(None) / len(answers)}
        )
    (answer,) = answers
    unparsed = {"unparsed": float(answer is None)}
    if task == "sentiment":
        prediction = (not truth) if answer is None else answer
        return ScoredItem(item_id, author, truth, prediction, {"acc": float(prediction == truth), **unparsed})
    number = 0.0 if answer is None else float(answer)
    errors = {"mae": abs(number - truth), "log_mae": abs(signed_log(number) - signed_log(truth))}
    return ScoredItem(item_id, author, truth, number, errors | unparsed)


def signed_log(value: float) -> float:
    """Return sign(x) · log(1 + |x|), a scale on which votes are less heavy-tailed."""
    return math.copysign(math.log1p(abs(value)), value)


def pooled(task: str, truths: Sequence[Any] | _Values, predictions: Sequence[Any] | _Values) -> dict[str, float]:
    """Compute the metrics that are no means over items.

    Returns:
        For `sentiment`: `f1_binary` (of the class positive), `f1_weighted` (by the size of the classes) and `mcc`. For
        `impact`: `rmse`, `log_rmse`, `spearman` and `kendall` (tau-b); correlations are 0 where one side is constant.
    """
    if task == "sentiment":
        return _agreement(np.asarray(truths, dtype=np.bool_), np.asarray(predictions, dtype=np.bool_))
    if task == "impact":
        true, given = np.asarray(truths, dtype=np.float64), np.asarray(predictions, dtype=np.float64)
        return {
            "rmse": float(np.sqrt(np.mean((given - true) ** 2))),
            "log_rmse": float(np.sqrt(np.mean((_signed_logs(given) - _signed_logs(true)) ** 2))),
            **_rank_correlations(truths, predictions),
        }
    return {}


def _agreement(truths: _Values, predictions: _Values) -> dict[str, float]:
    """Compute F1 and MCC from the four counts: by resampling they are taken thousands of times."""
    hits, misses = int((truths & predictions).sum()), int((truths & ~predictions).sum())
    alarms, passes = int((~truths & predictions).sum()), int((~truths & ~predictions).sum())
    wrong = misses + alarms
    positive, negative = (2 * right / (2 * right + wrong) if right else 0.0 for right in (hits, passes))
    margins = (hits + misses) * (hits + alarms) * (passes + misses) * (passes + alarms)
    return {
        "f1_binary": positive,
        "f1_weighted": ((hits + misses) * positive + (passes + alarms) * negative) / len(truths),
        "mcc": (hits * passes - misses * alarms) / math.sqrt(margins) if margins else 0.0,
    }


def _signed_logs(values: _Values) -> _Values:
    logs: _Values = np.sign(values) * np.log1p(np.abs(values))
    return logs


def pooled_names(task: str) -> tuple[str, ...]:
    """Return the names of the metrics of `pooled`, none for `next_text`."""
    return _POOLED.get(task, ())


def summarise(task: str, answers: Sequence[ScoredItem]) -> dict[str, Estimate]:
    """Compute all metrics, in the order of the tables, with 95 % intervals clustered by author.

    Accuracies have the interval of `statistics.overall`. The others have value ± t · SE with the standard error of
    leaving out one author (or one of 200 groups of authors) at a time, and no interval where that is 0.
    """
    if not answers:
        raise UserError("there are no answers to score", "give a file with answers")
    authors = _clusters(answers)
    names = _names(answers)
    estimates = _jackknife(task, names, _measure(task, names, answers), authors, _range)
    return estimates | {
        name: overall([answer.values[name] for answer in answers], authors) for name in names if name in _BOUNDED
    }


def compare_conditions(task: str, answers: Sequence[ScoredItem], baseline: Sequence[ScoredItem]) -> dict[str, Estimate]:
    """Compute how each metric differs between two conditions, or two models, on the same items in any order.

    Returns:
        The difference of each metric, answers minus baseline, with its interval clustered by author. An interval that
        excludes 0 speaks of a difference.

    Raises:
        UserError: The items are not the same.
    """
    others = {answer.item_id: answer for answer in baseline}
    own = {answer.item_id for answer in answers}
    if len(own) < len(answers) or len(others) < len(baseline):
        raise UserError("an item has two answers", "compare one run with one run")
    if own != others.keys() or not own:
        raise UserError(
            f"the two have {len(own & others.keys())} items in common, of {len(own)} and {len(others)}",
            "compare conditions on the same items: same data, split and limit",
        )
    paired = [others[answer.item_id] for answer in answers]
    authors = _clusters(answers)
    names = [name for name in _names(answers) if name in _names(paired)]
    first, second = _measure(task, names, answers), _measure(task, names, paired)
    differences = _jackknife(task, names, lambda chosen: first(chosen) - second(chosen), authors, _range_of_difference)
    for name in (name for name in names if name in _BOUNDED):
        own_scores, other_scores = ([answer.values[name] for answer in side] for side in (answers, paired))
        differences[name] = paired_difference(own_scores, other_scores, authors)
    return differences


def _clusters(answers: Sequence[ScoredItem]) -> list[int]:
    """Number the authors from 0."""
    numbers: dict[str, int] = {}
    return [numbers.setdefault(answer.author, len(numbers)) for answer in answers]


def _names(answers: Sequence[ScoredItem]) -> list[str]:
    """Return the metrics that all answers have as values."""
    return [name for name in answers[0].values if all(name in answer.values for answer in answers)]


def _measure(task: str, names: Sequence[str], answers: Sequence[ScoredItem]) -> _Measure:
    values = np.asarray([[answer.values[name] for name in names] for answer in answers], dtype=np.float64)
    if not pooled_names(task):
        return lambda chosen: values[chosen].mean(axis=0)
    truths = np.asarray([answer.truth for answer in answers])
    predictions = np.asarray([answer.prediction for answer in answers])

    def measure(chosen: _Indices) -> _Values:
        whole = pooled(task, truths[chosen], predictions[chosen])
        return np.concatenate([values[chosen].mean(axis=0), [whole[name] for name in pooled_names(task)]])

    return measure


def _jackknife(
    task: str, names: Sequence[str], measure: _Measure, authors: Sequence[int], limits: Callable[[str], _Limits]
) -> dict[str, Estimate]:
    clusters, count = np.asarray(authors), len(set(authors))
    groups, number = clusters % _GROUPS, min(count, _GROUPS)
    values = measure(np.arange(len(clusters)))
    left_out = [measure(np.flatnonzero(groups != group)) for group in range(number)] if count > 1 else []
    estimates = {}
    for index, name in enumerate((*names, *pooled_names(task))):
        value = float(values[index])
        # Influences on the value take the place of residuals: their standard error is the jackknife's.
        error = standard_error([(number - 1) * (value - other[index]) for other in left_out], range(len(left_out)))
        if error is None or error < _NO_ERROR:  # an interval of one point would claim certainty
            estimates[name] = Estimate(value, None, None, len(authors), count)
            continue
        half = _t_quantile(number - 1) * error
        least, greatest = limits(name)
        estimates[name] = Estimate(value, max(value - half, least), min(value + half, greatest), len(authors), count)
    return estimates


def _range(name: str) -> _Limits:
    """Return the least and the greatest value of a metric."""
    name = BEST_OF.sub("", name)
    return (0.0, math.inf) if name in ERRORS else (-1.0 if name in _SIGNED else 0.0, 1.0)


def _range_of_difference(name: str) -> _Limits:
    low, high = _range(name)
    return low - high, high - low


def _t_quantile(freedom: int) -> float:
    import scipy.special

    return float(scipy.special.stdtrit(freedom, 1 - _TAIL))


def _rank_correlations(truths: Sequence[Any] | _Values, predictions: Sequence[Any] | _Values) -> dict[str, float]:
    if len(set(truths)) < 2 or len(set(predictions)) < 2:
        return {"spearman": 0.0, "kendall": 0.0}
    import scipy.stats

    return {
        "spearman": float(scipy.stats.spearmanr(truths, predictions).statistic),
        "kendall": float(scipy.stats.kendalltau(truths, predictions).statistic),
    }
