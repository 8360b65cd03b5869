"""What raters say of a sample, and how far they agree.

Each of the four questions becomes yes or not yes: a choice of the best response is a yes where it is the key's, and
unsure is not a yes. A missing answer is left out.

The share of yes is a mean over answers. Answers of several raters to one item are not independent, so its interval is
Wilson's (1927) for as many observations as there are items, however many raters: too wide rather than too short.

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
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import NormalDist
from typing import Final, NamedTuple

from personamem_builder.annotation.items import BEST, CHECKS, UNSURE
from personamem_builder.annotation.ratings import COMMENT, Key, KeyItem, RaterAnswers
from personamem_builder.schema import option_letters
from personamem_builder.statistics import paired_difference

QUESTIONS: Final = (BEST, *CHECKS)

_TAIL: Final = 0.025
_YES, _NO = "yes", "no"


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


class QuestionRatings(NamedTuple):
    """How many answers to one question are yes, no, unsure or missing, and what follows from them.

    Attributes:
        share: Share of yes among the answers, None without any.
        agreement: None where no item has two answers.
    """

    yes: int
    no: int
    unsure: int
    missing: int
    share: Interval | None
    agreement: Agreement | None


class RatedGroup(NamedTuple):
    """The ratings of some of the items, by question."""

    items: int
    questions: dict[str, QuestionRatings]


class DisputedItem(NamedTuple):
    """An item with a question to which most raters do not say yes: `yes` of so many `answers`."""

    item: str
    question: str
    yes: int
    answers: int


class Comment(NamedTuple):
    """What a rater wrote about an item."""

    item: str
    rater: str
    text: str


class Study(NamedTuple):
    """What raters say of a sample.

    Attributes:
        sample: Its digest.
        choice: How far raters choose the same best response, be it right or wrong; unsure is left out here.
        types: By question type, in alphabetical order; `topics` alike.
    """

    sample: str
    items: int
    raters: list[str]
    questions: dict[str, QuestionRatings]
    choice: Agreement | None
    types: dict[str, RatedGroup]
    topics: dict[str, RatedGroup]
    disputed: list[DisputedItem]
    comments: list[Comment]


def make_study(key: Key, raters: Mapping[str, RaterAnswers]) -> Study:
    """Count the answers to a sample and measure how far its raters agree."""
    letters = option_letters(max(item.options for item in key.items))
    chosen = [
        [letter for answers in raters.values() if (letter := answers.get(item.id, {}).get(BEST, UNSURE)) != UNSURE]
        for item in key.items
    ]
    return Study(
        sample=key.sample,
        items=len(key.items),
        raters=list(raters),
        questions=_rate_questions(key.items, raters),
        choice=gwet_ac1(chosen, letters),
        types=_groups(key.items, raters, lambda item: item.question_type),
        topics=_groups(key.items, raters, lambda item: item.topic),
        disputed=list(_disputed(key.items, raters)),
        comments=[
            Comment(item.id, rater, text)
            for item in key.items
            for rater, answers in raters.items()
            if (text := answers.get(item.id, {}).get(COMMENT, "").strip())
        ],
    )


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
    """Return Wilson's 95 % score interval for a share of `count` observations."""
    z2 = NormalDist().inv_cdf(1 - _TAIL) ** 2
    middle = (share + z2 / (2 * count)) / (1 + z2 / count)
    half = math.sqrt(z2 * (share * (1 - share) / count + z2 / (4 * count**2))) / (1 + z2 / count)
    # At 0 and 1 an end is the share itself, but for rounding.
    return Interval(share, 0.0 if share == 0 else middle - half, 1.0 if share == 1 else middle + half)


def _verdicts(item: KeyItem, question: str, raters: Mapping[str, RaterAnswers]) -> list[str]:
    """Return the answers to a question about an item as yes, no or unsure."""
    given = [answers[item.id][question] for answers in raters.values() if question in answers.get(item.id, {})]
    if question != BEST:
        return given
    return [UNSURE if letter == UNSURE else _YES if letter == item.answer else _NO for letter in given]


def _rate_question(items: Sequence[KeyItem], question: str, raters: Mapping[str, RaterAnswers]) -> QuestionRatings:
    verdicts = [_verdicts(item, question, raters) for item in items]
    counts = Counter(verdict for of_item in verdicts for verdict in of_item)
    answered = sum(bool(of_item) for of_item in verdicts)
    return QuestionRatings(
        yes=counts[_YES],
        no=counts[_NO],
        unsure=counts[UNSURE],
        missing=len(items) * len(raters) - counts.total(),
        share=wilson(counts[_YES] / counts.total(), answered) if answered else None,
        agreement=gwet_ac1(
            [[_YES if verdict == _YES else _NO for verdict in of_item] for of_item in verdicts], (_YES, _NO)
        ),
    )


def _rate_questions(items: Sequence[KeyItem], raters: Mapping[str, RaterAnswers]) -> dict[str, QuestionRatings]:
    return {question: _rate_question(items, question, raters) for question in QUESTIONS}


def _groups(
    items: Sequence[KeyItem], raters: Mapping[str, RaterAnswers], name_of: Callable[[KeyItem], str]
) -> dict[str, RatedGroup]:
    groups: dict[str, list[KeyItem]] = {}
    for item in items:
        groups.setdefault(name_of(item), []).append(item)
    return {name: RatedGroup(len(own), _rate_questions(own, raters)) for name, own in sorted(groups.items())}


def _disputed(items: Sequence[KeyItem], raters: Mapping[str, RaterAnswers]) -> Iterable[DisputedItem]:
    for item in items:
        for question in QUESTIONS:
            verdicts = _verdicts(item, question, raters)
            yes = verdicts.count(_YES)
            if verdicts and yes * 2 <= len(verdicts):
                yield DisputedItem(item.id, question, yes, len(verdicts))
