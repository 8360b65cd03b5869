"""How sure models are of their answers, against how often they are right."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np

from personamem_builder import statistics
from personamem_builder.report.breakdown import ACCURACY, TITLES, Analysis, LeftOut, ModelEntry, Result, means
from personamem_builder.report.numbers import percent
from personamem_builder.results.answers import ScoredAnswer
from personamem_builder.statistics import Estimate

_CONFIDENCE_BINS: Final = 10


def softmax(values: Sequence[float]) -> list[float]:
    """Return the probabilities that are proportional to the exponentials of some values."""
    most = max(values)
    weights = [math.exp(value - most) for value in values]
    return [weight / math.fsum(weights) for weight in weights]


def calibration(entries: Sequence[ModelEntry]) -> Result:
    """Return accuracy by confidence, for models whose options have log-probabilities.

    The confidence is the greatest softmax over the scores of the options: their log-probabilities, and their means per
    token for `acc_per_token`. Remarks give the expected calibration error.
    """
    labels = tuple(
        f"{100 * i // _CONFIDENCE_BINS}–{100 * (i + 1) // _CONFIDENCE_BINS} %" for i in range(_CONFIDENCE_BINS)
    )
    series, remarks = {}, []
    for entry in entries:
        for score in ("acc", "acc_per_token"):
            sure = [] if entry.is_floor else list(_confidences(entry.answers.values(), score))
            if not sure:
                continue
            confidences, credits, personas = (list(column) for column in zip(*sure, strict=True))
            name = f"{entry.label} · {score}"
            series[name] = means(
                ((labels[_confidence_bin(c)], credit, p) for c, credit, p in sure),
                labels,
            )
            error = calibration_error(confidences, credits, personas)
            mean = math.fsum(confidences) / len(confidences)
            remarks.append(
                f"{name}: expected calibration error {percent(error)} points; "
                f"mean confidence {100 * mean:.1f} %, accuracy {100 * math.fsum(credits) / len(credits):.1f} %."
            )
    if not series:
        return LeftOut("calibration", TITLES["calibration"], "no model gave log-probabilities of the options")
    return Analysis(
        "calibration",
        TITLES["calibration"],
        ACCURACY,
        labels,
        series,
        tuple((i + 0.5) / _CONFIDENCE_BINS for i in range(_CONFIDENCE_BINS)),
        expects="as right as sure: the middle of the bin",
        shape="line",
        note="Confidence is the greatest softmax over the scores of the options; ten bins of equal width. The expected "
        "calibration error is the mean over questions of the gap of their bin; its interval takes as given on which "
        "side of the diagonal each bin is, and with few questions it is too high.",
        remarks=tuple(remarks),
    )


def _confidences(answers: Iterable[ScoredAnswer], score: str) -> Iterator[tuple[float, float, int]]:
    for answer in answers:
        values = _option_scores(answer, score)
        if values is not None and score in answer.credits:
            yield max(softmax(values)), answer.credits[score], answer.persona_id


def _option_scores(answer: ScoredAnswer, score: str) -> list[float] | None:
    logprobs, tokens = answer.option_logprobs, answer.option_tokens
    if logprobs is None or not all(map(math.isfinite, logprobs)):
        return None
    if score == "acc":
        return list(logprobs)
    return None if tokens is None else [a / b for a, b in zip(logprobs, tokens, strict=True)]


def _confidence_bin(confidence: float) -> int:
    return min(_CONFIDENCE_BINS - 1, int(confidence * _CONFIDENCE_BINS))


def calibration_error(confidences: Sequence[float], credits: Sequence[float], personas: Sequence[int]) -> Estimate:
    """Estimate the expected calibration error: the mean over questions of |accuracy − mean confidence| of their bin.

    With s_b the sign of the gap of bin b it is the mean of s_b · (credit − confidence): its interval is that of a mean,
    clustered by persona, and clipped to [0, 1]. The signs are taken as given: where a bin's gap is near 0 the error is
    too high, as it counts luck on either side.
    """
    gaps = np.zeros(_CONFIDENCE_BINS)
    bins = [_confidence_bin(confidence) for confidence in confidences]
    np.add.at(gaps, bins, np.asarray(credits) - np.asarray(confidences))
    signs = np.where(gaps < 0, -1.0, 1.0)[bins]
    error = statistics.paired_difference(
        list(signs * np.asarray(credits)), list(signs * np.asarray(confidences)), personas
    )
    return error._replace(
        low=None if error.low is None else max(0.0, error.low),
        high=None if error.high is None else max(0.0, error.high),
    )
