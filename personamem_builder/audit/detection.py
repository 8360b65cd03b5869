"""What an audit could have found: the least leak that its limits find in a split of its size.

It is the minimum detectable effect (Bloom 1995) of the test whether the low end of
`statistics.simultaneous_interval` is above chance, with the binomial laws of that interval in the place of normal ones.
"""

from __future__ import annotations

from typing import Final

from scipy import special

from personamem_builder.statistics import independent_answers

POWER: Final = 0.9
"""How likely a leak is to be found that is as large as `detectable_accuracy` says."""

_HALVINGS: Final = 50


def critical_accuracy(value: float, error: float, units: int, chance: float, tail: float) -> float | None:
    """Return the least accuracy that a one-sided test shows to be above chance.

    Of n* answers it is the share a with P(X >= a n*) = tail for X ~ B(n*, chance), where n* are
    `statistics.independent_answers` at that tail.

    Args:
        value: The accuracy that was measured.
        error: Its standard error.
        units: The number of means that the error was estimated from, two or more.
        chance: What guessing gives, above 0 and below 1.
        tail: How likely the test is to find what is not there.

    Returns:
        An accuracy above chance; None where even all right answers may be luck.
    """
    answers = independent_answers(value, error, units, tail)
    if chance**answers > tail:
        return None
    # P(X >= x) = I_chance(x, n - x + 1) falls in x, from more than the tail at chance to chance^n at n.
    low, high = chance * answers, answers
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if special.betainc(middle, answers - middle + 1, chance) > tail:
            low = middle
        else:
            high = middle
    return high / answers


def detectable_accuracy(value: float, error: float, units: int, critical: float, tail: float | None = None) -> float:
    """Return the least true accuracy that is measured as `critical` or more with the probability `POWER`.

    It is the p with P(X >= critical n) = POWER for X ~ B(n, p), where n are `statistics.independent_answers`: answers
    are taken to be as alike as they were found to be. What `critical_accuracy` says at a tail is known no better than
    the error; then n is divided by 1 + t² / (2 (units - 1)) for the quantile t at that tail, which is the variance of a
    noncentral t (Johnson and Welch 1940) in the place of 1. Arguments are otherwise as for `critical_accuracy`.
    """
    answers = independent_answers(value, error, units)
    if tail is not None:
        answers /= 1 + float(special.stdtrit(units - 1, tail)) ** 2 / (2 * (units - 1))
    right = critical * answers
    return float(special.betaincinv(right, answers - right + 1, POWER))
