"""Means, paired differences and context gains, with 95 % intervals clustered by persona.

Questions about one persona share its conversations, so they are not independent. Every estimate here is a
weighted mean, or a smooth function of two means, and so has a residual r_i for each question i. Its standard
error is cluster-robust (Miller 2024, arXiv 2411.00640):

    SE = sqrt(C / (C − 1) · Σ_c (Σ_{i ∈ c} r_i)²) / n

for n questions of C personas, and its interval is value ± t_{C−1}(0.975) · SE. With fewer than two personas
there is no interval. An interval is clipped to the values that its quantity can take. Where all answers are right, or
all wrong, that error is zero and would claim certainty: the interval is then Clopper and Pearson's exact one for C
independent answers, one a persona.

All values are fractions, not percentages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from generation.errors import UserError

_Floats = npt.NDArray[np.float64]
_TAIL: Final = 0.025


class Estimate(NamedTuple):
    """A value with its 95 % interval.

    Attributes:
        value: The estimate, a fraction.
        low: Lower end of the interval, None with fewer than two clusters.
        high: Upper end of the interval, None with fewer than two clusters.
        n: Number of questions.
        clusters: Number of personas.
    """

    value: float
    low: float | None
    high: float | None
    n: int
    clusters: int


def overall(scores: Sequence[float], personas: Sequence[int]) -> Estimate:
    """Estimate the mean score over all questions.

    Args:
        scores: A credit in [0, 1] for each question.
        personas: The persona of each question.

    Returns:
        The mean, its interval clipped to [0, 1].
    """
    values = np.asarray(scores, dtype=np.float64)
    mean = float(values.mean())
    return _accuracy(mean, values - mean, personas)


def macro(scores: Sequence[float], types: Sequence[str], personas: Sequence[int]) -> Estimate:
    """Estimate the mean over question types of the mean score of each type.

    The number of questions of each type is taken as given: question i of a type with n_t of the n questions,
    one of T types, has the residual n / (T · n_t) · (s_i − mean of its type).

    Args:
        scores: A credit in [0, 1] for each question.
        types: The question type of each question.
        personas: The persona of each question.

    Returns:
        The mean over the types that occur, its interval clipped to [0, 1].
    """
    values = np.asarray(scores, dtype=np.float64)
    _, group = np.unique(np.asarray(types), return_inverse=True)
    counts = np.bincount(group)
    means = np.bincount(group, weights=values) / counts
    weights = len(values) / (len(counts) * counts[group])
    return _accuracy(float(means.mean()), weights * (values - means[group]), personas)


def per_type(scores: Sequence[float], types: Sequence[str], personas: Sequence[int]) -> dict[str, Estimate]:
    """Estimate the mean score of each question type that occurs; arguments as for `macro`."""
    indices: dict[str, list[int]] = {}
    for index, name in enumerate(types):
        indices.setdefault(name, []).append(index)
    return {
        name: overall([scores[i] for i in chosen], [personas[i] for i in chosen]) for name, chosen in indices.items()
    }


def paired_difference(scores: Sequence[float], baseline: Sequence[float], personas: Sequence[int]) -> Estimate:
    """Estimate the mean of s_i − s0_i over questions that two runs both answered.

    Args:
        scores: A credit in [0, 1] for each question.
        baseline: The other run's credit for each question, in the same order.
        personas: The persona of each question.

    Returns:
        The mean difference, its interval clipped to [−1, 1].
    """
    differences = np.asarray(scores, dtype=np.float64) - np.asarray(baseline, dtype=np.float64)
    mean = float(differences.mean())
    return _estimate(mean, differences - mean, personas, (-1.0, 1.0))


def context_gain(scores: Sequence[float], baseline: Sequence[float], personas: Sequence[int]) -> Estimate | None:
    """Estimate G = (a − a0) / (1 − a0): the share of what no context left wrong that the context puts right.

    The residuals are G's first-order change with each question (delta method):
    u_i = (s_i − a) / (1 − a0) − (1 − a) / (1 − a0)² · (s0_i − a0).

    Args:
        scores: With context: a credit in [0, 1] for each question; their mean is a.
        baseline: Without context, in the same order; their mean is a0.
        personas: The persona of each question.

    Returns:
        The gain, the upper end of its interval clipped to 1 (it has no least value); None where a0 is 1.
    """
    full, none = np.asarray(scores, dtype=np.float64), np.asarray(baseline, dtype=np.float64)
    a, a0 = float(full.mean()), float(none.mean())
    if a0 >= 1.0:
        return None
    residuals = (full - a) / (1 - a0) - (1 - a) / (1 - a0) ** 2 * (none - a0)
    return _estimate((a - a0) / (1 - a0), residuals, personas, (-np.inf, 1.0))


def standard_error(residuals: Sequence[float] | _Floats, personas: Sequence[int]) -> float | None:
    """Return the standard error of the module docstring, None with fewer than two personas."""
    _, cluster = np.unique(np.asarray(personas), return_inverse=True)
    sums = np.bincount(cluster, weights=np.asarray(residuals, dtype=np.float64))
    if len(sums) < 2:
        return None
    return float(np.sqrt(len(sums) / (len(sums) - 1) * np.sum(sums**2)) / len(residuals))


def _accuracy(value: float, residuals: _Floats, personas: Sequence[int]) -> Estimate:
    estimate = _estimate(value, residuals, personas, (0.0, 1.0))
    if value not in (0.0, 1.0) or estimate.low is None:
        return estimate
    bound = _TAIL ** (1 / estimate.clusters)
    return estimate._replace(low=bound) if value == 1.0 else estimate._replace(high=1 - bound)


def _estimate(value: float, residuals: _Floats, personas: Sequence[int], bounds: tuple[float, float]) -> Estimate:
    clusters = len(set(personas))
    error = standard_error(residuals, personas)
    if error is None:
        return Estimate(value, None, None, len(residuals), clusters)
    half = _t_quantile(clusters - 1) * error
    return Estimate(value, max(value - half, bounds[0]), min(value + half, bounds[1]), len(residuals), clusters)


def _t_quantile(degrees: int) -> float:
    try:
        # scipy.stats has the same function and takes a second to import.
        from scipy.special import stdtrit
    except ImportError as error:
        raise UserError("intervals need scipy, which is not installed", "pip install 'personamem[eval]'") from error
    return float(stdtrit(degrees, 1 - _TAIL))
