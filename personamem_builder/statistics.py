"""The formulas that reports and audits share: estimates with intervals clustered by persona, and tests.

Questions about one persona share its conversations, so they are not independent. Every estimate here is a
weighted mean, or a smooth function of two means, and so has a residual r_i for each question i. Its standard
error is cluster-robust (Miller 2024, arXiv 2411.00640):

    SE = sqrt(C / (C − 1) · Σ_c (Σ_{i ∈ c} r_i)²) / n

for n questions of C personas, and its interval is value ± t_{C−1}(0.975) · SE. With fewer than two personas
there is no interval. An interval is clipped to the values that its quantity can take. Where all answers are right, or
all wrong, that error is zero and would claim certainty: the interval is then Clopper and Pearson's exact one for C
independent answers, one a persona.

Tables give these t intervals. With fewer than 30 personas, or a value within 0.1 of 0 or 1, they can be too short:
`bootstrap_interval` is for those cases, and says how much it gains.

All values are fractions, not percentages.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from types import ModuleType
from typing import Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from generation.errors import UserError
from generation.resources import install_hint
from generation.seeds import rng_for

_Floats = npt.NDArray[np.float64]
_TAIL: Final = 0.025
_NO_ERROR: Final = 1e-12
"""A standard error below this is 0 but for rounding."""
_RESAMPLES: Final = 1999
"""With 1999, the 50th from either end is the 0.025 quantile (Davison and Hinkley 1997, section 5.2)."""


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


class PairedTest(NamedTuple):
    """A paired difference, and how likely one at least as large is where there is none; None without an interval."""

    difference: Estimate
    p: float | None


class McNemar(NamedTuple):
    """Two runs on the same questions.

    Attributes:
        better: Questions with more credit in the run than in the baseline.
        worse: Questions with less.
        p: Two-sided: how likely a split at least as uneven is where better and worse are equally likely.
    """

    better: int
    worse: int
    p: float


def overall(scores: Sequence[float], personas: Sequence[int]) -> Estimate:
    """Estimate the mean of credits in [0, 1] over all questions; its interval is clipped to [0, 1]."""
    values = np.asarray(scores, dtype=np.float64)
    mean = float(values.mean())
    return _accuracy(mean, values - mean, personas)


def macro(scores: Sequence[float], types: Sequence[str], personas: Sequence[int]) -> Estimate:
    """Estimate the mean over question types of the mean score of each type that occurs.

    The number of questions of each type is taken as given: question i of a type with n_t of the n questions,
    one of T types, has the residual n / (T · n_t) · (s_i − mean of its type).
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
    """Estimate the mean of s_i − s0_i over questions that two runs both answered, its interval clipped to [−1, 1]."""
    differences = np.asarray(scores, dtype=np.float64) - np.asarray(baseline, dtype=np.float64)
    mean = float(differences.mean())
    return _estimate(mean, differences - mean, personas, (-1.0, 1.0))


def paired_test(scores: Sequence[float], baseline: Sequence[float], personas: Sequence[int]) -> PairedTest:
    """Estimate as `paired_difference` does, with the two-sided p value that belongs to the interval.

    p = P(|T_{C−1}| ≥ |difference| / SE): it is below 0.05 where the 95 % interval leaves out 0, and only there. Where
    all personas have the same difference SE is zero and would claim certainty: p is then that of the sign test of C
    personas that all go one way, 2 · 2^−C.
    """
    estimate = paired_difference(scores, baseline, personas)
    differences = np.asarray(scores, dtype=np.float64) - np.asarray(baseline, dtype=np.float64)
    error = standard_error(differences - differences.mean(), personas)
    if error is None:
        return PairedTest(estimate, None)
    if error < _NO_ERROR:
        return PairedTest(estimate, 1.0 if abs(estimate.value) < _NO_ERROR else 2.0 ** (1 - estimate.clusters))
    p = 2 * float(_special().stdtr(estimate.clusters - 1, -abs(estimate.value) / error))
    return PairedTest(estimate, p)


def context_gain(scores: Sequence[float], baseline: Sequence[float], personas: Sequence[int]) -> Estimate | None:
    """Estimate G = (a − a0) / (1 − a0): the share of what no context left wrong that the context puts right.

    The residuals are G's first-order change with each question (delta method):
    u_i = (s_i − a) / (1 − a0) − (1 − a) / (1 − a0)² · (s0_i − a0).

    Returns:
        The gain, the upper end of its interval clipped to 1 (it has no least value); None where a0 is 1.
    """
    full, none = np.asarray(scores, dtype=np.float64), np.asarray(baseline, dtype=np.float64)
    a, a0 = float(full.mean()), float(none.mean())
    if a0 >= 1.0:
        return None
    residuals = (full - a) / (1 - a0) - (1 - a) / (1 - a0) ** 2 * (none - a0)
    return _estimate((a - a0) / (1 - a0), residuals, personas, (-np.inf, 1.0))


def bootstrap_interval(scores: Sequence[float], personas: Sequence[int], seed: int = 0) -> Estimate:
    """Estimate the mean score over all questions, with a cluster bootstrap instead of Student's t.

    Whole personas are drawn with replacement, C of C. Each resample gives t* = (mean* − mean) / SE*, with the standard
    error of the module docstring, and the interval is [mean − t*(0.975) · SE, mean − t*(0.025) · SE]: the studentised
    bootstrap (Efron and Tibshirani 1993, section 12.5) of clusters (Cameron, Gelbach and Miller 2008, "bootstrap-t").
    It follows the skew of the credits, which Student's t does not.

    When to use it: with fewer than 30 personas, or where the mean is within 0.1 of 0 or 1. In simulations with 5 to 30
    personas of unequal size and an intraclass correlation up to 0.2 it covered the truth in 93 to 96 % of cases for a
    mean of 0.25 (t: 89 to 95 %; the percentile bootstrap: 81 to 94 %), and in 93 to 99 % for one of 0.9
    (t: 80 to 99 %). Its price is width: for a mean of 0.25 a tenth more than t with 20 personas, half more with five.

    Args:
        scores: A credit in [0, 1] for each question.
        personas: The persona of each question.
        seed: Of the resamples; the same one gives the same interval in every process.

    Returns:
        The mean, its interval clipped to [0, 1]; that of `overall` where all personas have the same mean, as there is
        nothing to resample.
    """
    values = np.asarray(scores, dtype=np.float64)
    estimate = overall(scores, personas)
    mean, error = estimate.value, standard_error(values - estimate.value, personas)
    if error is None or error < _NO_ERROR:
        return estimate
    _, cluster = np.unique(np.asarray(personas), return_inverse=True)
    sums, sizes = np.bincount(cluster, weights=values), np.bincount(cluster).astype(np.float64)
    order = np.lexsort((sums, sizes))  # then neither names of personas nor the order of questions matter
    count = len(order)
    chosen = order[_resamples(count, seed)]
    totals = sizes[chosen].sum(axis=1)
    shifts = sums[chosen].sum(axis=1) / totals - mean
    spread = sums[chosen] - sizes[chosen] * (mean + shifts)[:, np.newaxis]
    errors = np.sqrt(count / (count - 1) * np.sum(spread**2, axis=1)) / totals
    # A resample of one persona C times, or of personas with one mean, has no error: its t* is as far out as can be.
    certain = errors < _NO_ERROR
    ratios = np.where(certain, np.copysign(np.inf, shifts), shifts / np.where(certain, 1.0, errors))
    ratios[np.abs(shifts) < _NO_ERROR] = 0.0
    ratios.sort()
    edge = round(_TAIL * (_RESAMPLES + 1))
    low, high = mean - ratios[-edge] * error, mean - ratios[edge - 1] * error
    return estimate._replace(low=max(float(low), 0.0), high=min(float(high), 1.0))


@lru_cache(maxsize=16)
def _resamples(count: int, seed: int) -> npt.NDArray[np.int64]:
    """Return the clusters that each resample draws, of so many: an audit asks hundreds of times for the same."""
    drawn = rng_for(seed, "statistics", "bootstrap").choices(range(count), k=_RESAMPLES * count)
    return np.asarray(drawn).reshape(_RESAMPLES, count)


def chance_corrected(estimate: Estimate, chance: float) -> Estimate:
    """Return (a − chance) / (1 − chance): 0 for guessing, 1 for all right, below 0 for worse than guessing.

    With chance 1/k it is S of Bennett, Alpert and Goldstein (1954), which is Cohen's kappa where guesses are even
    over the k options. The interval is moved alike, as chance is known, not estimated.

    Raises:
        ValueError: If chance is not in [0, 1): where guessing is always right nothing can be corrected.
    """
    if not 0 <= chance < 1:
        raise ValueError(f"chance is {chance}: it must be at least 0 and below 1")

    def corrected(accuracy: float) -> float:
        return (accuracy - chance) / (1 - chance)

    return estimate._replace(
        value=corrected(estimate.value),
        low=None if estimate.low is None else corrected(estimate.low),
        high=None if estimate.high is None else corrected(estimate.high),
    )


def mcnemar(scores: Sequence[float], baseline: Sequence[float]) -> McNemar:
    """Test whether two runs on the same questions are equally often right; p is 1 where they never differ.

    McNemar (1947), in its exact form: of the b + c questions on which the runs differ, b follows a binomial law with
    probability 1/2 if neither is better, and p = min(1, 2 · P(B ≤ min(b, c))) (Fagerland, Lydersen and Laake 2013).
    A question with equal credits says nothing and drops out. Where credit is shared between options that tie, the run
    with more credit has the better answer, by however little: this is then the sign test on the pairs.

    It takes questions as independent. Those of one persona are not: `paired_difference` has the interval that knows.
    """
    pairs = list(zip(scores, baseline, strict=True))
    better = sum(score > other for score, other in pairs)
    worse = sum(score < other for score, other in pairs)
    p = 2 * float(_special().bdtr(min(better, worse), better + worse, 0.5))
    return McNemar(better, worse, min(1.0, p))


def simultaneous_interval(
    value: float, error: float | None, clusters: int, level: float, family: int, sides: Literal[1, 2] = 2
) -> tuple[float, float] | None:
    """Return an interval for an accuracy that is one of many, all of which hold together.

    Bonferroni's inequality (Dunn 1961): if each of m intervals misses its truth with probability (1 − level) / m, all
    hold at once with probability `level` or more, however they depend on one another. So far out in the tail
    value ± t · SE misses too often where answers are few: with one question for each of 20 personas and m = 20 it
    misses 0.25 in 2.1 % of cases, not in 0.25 %. This is therefore Korn and Graubard's interval for clustered
    proportions (1998): Clopper and Pearson's, at the tail (1 − level) / (2m), for
    n* = value · (1 − value) / SE² · (z / t_{C−1})² independent answers, where z and t are the quantiles at that
    tail. With many questions it is the t interval.

    Args:
        value: The accuracy.
        error: Its clustered standard error, None with fewer than two personas. Where it is 0, n* is C.
        clusters: Number of personas, C.
        level: How likely all intervals hold, such as 0.95.
        family: How many intervals there are, m.
        sides: 1 where only one end of each is looked at, each then at the tail (1 − level) / m.

    Returns:
        Its ends; None with fewer than two personas.
    """
    if error is None or clusters < 2:
        return None
    special, tail = _special(), (1 - level) / (sides * family)
    answers = independent_answers(value, error, clusters, tail)
    right = value * answers
    low = special.betaincinv(right, answers - right + 1, tail) if value > 0 else 0.0
    high = special.betaincinv(right + 1, answers - right, 1 - tail) if value < 1 else 1.0
    return float(low), float(high)


def independent_answers(value: float, error: float, clusters: int, tail: float | None = None) -> float:
    """Return how many independent answers leave as much doubt about an accuracy: value · (1 − value) / SE².

    With a tail, (z / t_{C−1})² of these, as the error is estimated from few personas (Korn and Graubard 1998). Without
    an error it is one for each persona.
    """
    if error < _NO_ERROR:
        return float(clusters)
    special = _special()
    loss = 1.0 if tail is None else special.ndtri(tail) / special.stdtrit(clusters - 1, tail)
    return float(value * (1 - value) / error**2 * loss**2)


def effective_sample_size(scores: Sequence[float], personas: Sequence[int]) -> float | None:
    """Return how many independent questions would leave as much doubt about the mean as these do.

    n / deff, with Kish's design effect (1965) deff = SE² / SE_iid²: SE is clustered by persona, and
    SE_iid² = Σ r_i² / (n − 1) / n is that of n independent questions.

    Returns:
        The number, at most n: that personas differ less than chance makes them is taken for luck. None with fewer
        than two personas, and where all credits are equal, as then both errors are 0.
    """
    values = np.asarray(scores, dtype=np.float64)
    count, residuals = len(values), values - values.mean()
    error = standard_error(residuals, personas)
    if error is None or float(np.ptp(values)) < _NO_ERROR:
        return None
    independent = float(np.sum(residuals**2)) / (count - 1) / count
    return count * min(1.0, independent / error**2) if error > _NO_ERROR else float(count)


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
    half = float(_special().stdtrit(clusters - 1, 1 - _TAIL)) * error
    return Estimate(value, max(value - half, bounds[0]), min(value + half, bounds[1]), len(residuals), clusters)


def _special() -> ModuleType:
    try:
        # scipy.stats has the same functions and takes a second to import.
        import scipy.special
    except ImportError as error:
        raise UserError("intervals need scipy, which is not installed", install_hint("eval")) from error
    return scipy.special
