"""Shares of ratings, and how far raters agree.

Agreement is Gwet's AC1 (2008, British Journal of Mathematical and Statistical Psychology 61), which, unlike kappa, does
not collapse where nearly all answers are yes. For item i with r_ik of its r_i answers in category k of q:

    pa_i = Σ_k r_ik (r_ik − 1) / (r_i (r_i − 1)), and pa is its mean over the n2 items with two answers or more;
    π_k = mean over the n items with any answer of r_ik / r_i;   pe = Σ_k π_k (1 − π_k) / (q − 1);
    AC1 = (pa − pe) / (1 − pe).

Its standard error is that of the mean of g_i − 2 (1 − AC1) (e_i − pe) / (1 − pe), with
g_i = n / n2 · (pa_i − pe) / (1 − pe), 0 for items with one answer, and e_i = Σ_k r_ik / r_i · (1 − π_k) / (q − 1)
(Gwet 2014, Handbook of Inter-Rater Reliability, 4th edition); its interval is that of Student's t with n − 1 degrees.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import NormalDist
from typing import Final, NamedTuple

from personamem_builder.statistics import paired_difference

_TAIL: Final = 0.025


class Interval(NamedTuple):
    """A value with its 95 % interval; the ends are None where there is none."""

    value: float
    low: float | None
    high: float | None


class Agreement(NamedTuple):
    """How far raters agree.

    Attributes:
        items: Number of items with two answers or more.
        percent: Share of the pairs of answers to an item that are equal, a mean over items.
        ac1: Gwet's AC1.
    """

    items: int
    percent: float
    ac1: Interval


def gwet_ac1(ratings: Iterable[Sequence[str]], categories: Sequence[str]) -> Agreement | None:
    """Return Gwet's AC1 with its interval, as the module docstring defines them.

    Where all pairs of answers are equal, the standard error is 0 and would claim certainty. The lower end is then AC1
    at Clopper and Pearson's exact bound for the share of such items, 0.025^(1/n2).

    Args:
        ratings: For each item the answers that it got, in any order.
        categories: All that an answer can be, two or more.

    Returns:
        None where no item has two answers.
    """
    tables = [Counter(answers) for answers in ratings if answers]
    sizes = [table.total() for table in tables]
    count, paired = len(tables), sum(size > 1 for size in sizes)
    if not paired:
        return None
    equal = [
        sum(k * (k - 1) for k in table.values()) / (size * (size - 1)) if size > 1 else 0.0
        for table, size in zip(tables, sizes, strict=True)
    ]
    percent = math.fsum(equal) / paired
    shares = [[table[name] / size for name in categories] for table, size in zip(tables, sizes, strict=True)]
    prevalence = [math.fsum(column) / count for column in zip(*shares, strict=True)]
    spare = len(categories) - 1
    chance = math.fsum(p * (1 - p) for p in prevalence) / spare
    ac1 = (percent - chance) / (1 - chance)
    if percent == 1:
        low = (_TAIL ** (1 / paired) - chance) / (1 - chance)
        return Agreement(paired, percent, Interval(1.0, low, 1.0))
    influence = []
    for pairs, share, size in zip(equal, shares, sizes, strict=True):
        own = count / paired * (pairs - chance) / (1 - chance) if size > 1 else 0.0
        expected = math.fsum(s * (1 - p) for s, p in zip(share, prevalence, strict=True)) / spare
        influence.append(own - 2 * (1 - ac1) * (expected - chance) / (1 - chance))
    # Their mean is AC1. Its interval is that of a mean of independent items, as if each were of a persona of its own.
    estimate = paired_difference(influence, [0.0] * count, range(count))
    return Agreement(paired, percent, Interval(ac1, estimate.low, estimate.high))


def wilson(share: float, count: int) -> Interval:
    """Return Wilson's (1927) 95 % score interval for a share of `count` observations."""
    z2 = NormalDist().inv_cdf(1 - _TAIL) ** 2
    middle = (share + z2 / (2 * count)) / (1 + z2 / count)
    half = math.sqrt(z2 * (share * (1 - share) / count + z2 / (4 * count**2))) / (1 + z2 / count)
    # At 0 and 1 an end is the share itself, but for rounding.
    return Interval(share, 0.0 if share == 0 else middle - half, 1.0 if share == 1 else middle + half)
