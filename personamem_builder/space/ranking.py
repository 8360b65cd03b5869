"""Which models a leaderboard tells apart: paired tests of all pairs, corrected for their number, and groups.

**The rule.** Models stand in the order of their scores. Each pair is compared question by question, clustered by
persona (`statistics.paired_test`), and the p values of all pairs of a table are corrected together (Holm 1979): with 20
models there are 190 pairs, and without the correction some ten would differ by luck. Two models *differ* where the
corrected p is below 0.05. A *group* is a longest run of neighbours whose first and last do not differ, as the lines
of a critical difference diagram (Demšar 2006, JMLR 7:1-30) and the letters of Piepho (2004, J. Comput. Graph. Stat.
13:456-466). Groups are numbered from the best on and may overlap: "not different" is not transitive, so a model may
belong to groups 1 and 2. The scores by question type are tables of their own, each corrected for itself.

So two models whose paired interval holds 0 always share a group, and two models that share none differ. The converse
does not hold: a pair that differs may stand within a group whose ends do not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Final, NamedTuple

from personamem_builder import statistics
from personamem_builder.report.compare import holm
from personamem_builder.statistics import Estimate

LEVEL: Final = 0.05
"""Of a corrected p below this, two models differ."""

_DECIMALS: Final = 12
"""Means that are the same to so many decimals are the same but for rounding."""


class Pair(NamedTuple):
    """Two models, the better one first; `holm_p` is None where there is one persona, and so no interval."""

    difference: Estimate
    holm_p: float | None

    @property
    def differs(self) -> bool:
        """Whether the first is shown to be better."""
        return self.holm_p is not None and self.holm_p < LEVEL


class Span(NamedTuple):
    """The first and the last of the groups that a model belongs to, counted from 1."""

    first: int
    last: int

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}–{self.last}"


class Ranking(NamedTuple):
    """Models in the order of their scores, and who belongs together.

    Attributes:
        order: The numbers of the models, best first.
        pairs: Of each two places in that order, the better one first.
        groups: The first and the last place of each group.
    """

    order: Sequence[int]
    pairs: Mapping[tuple[int, int], Pair]
    groups: Sequence[tuple[int, int]]

    def span(self, place: int) -> Span:
        """Return the groups of the model at a place."""
        own = [number for number, (first, last) in enumerate(self.groups, 1) if first <= place <= last]
        return Span(own[0], own[-1])


def rank(names: Sequence[str], credits: Sequence[Sequence[float]], personas: Sequence[int]) -> Ranking:
    """Rank models that answered the same questions, by the rule of the module docstring.

    Args:
        names: What the models are called, which decides where scores are equal.
        credits: For each model a credit in [0, 1] for each question.
        personas: The persona of each question.
    """
    means = [round(sum(own) / len(own), _DECIMALS) for own in credits]
    order = sorted(range(len(names)), key=lambda number: (-means[number], names[number]))
    places = list(combinations(range(len(order)), 2))
    pairs = dict(
        zip(places, compare([(credits[order[i]], credits[order[j]]) for i, j in places], personas), strict=True)
    )
    return Ranking(order, pairs, groups(len(order), lambda i, j: pairs[i, j].differs))


def compare(pairs: Sequence[tuple[Sequence[float], Sequence[float]]], personas: Sequence[int]) -> list[Pair]:
    """Compare the credits of pairs of models on the same questions; p values are corrected for the number of pairs."""
    tests = [statistics.paired_test(first, second, personas) for first, second in pairs]
    known = [test.p for test in tests if test.p is not None]
    if len(known) < len(tests):  # one persona: there is no interval, of no pair
        return [Pair(test.difference, None) for test in tests]
    return [Pair(test.difference, p) for test, p in zip(tests, holm(known), strict=True)]


def groups(count: int, differ: Callable[[int, int], bool]) -> list[tuple[int, int]]:
    """Return the first and the last place of each group of so many models, best first; none is part of another.

    Args:
        count: How many models there are.
        differ: Says of two places, the better one first, whether their models differ.
    """
    found: list[tuple[int, int]] = []
    for first in range(count):
        last = max((other for other in range(first + 1, count) if not differ(first, other)), default=first)
        if not found or last > found[-1][1]:
            found.append((first, last))
    return found
