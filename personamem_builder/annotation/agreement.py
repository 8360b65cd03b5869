"""What raters say of a sample, and how far they agree.

Each of the four questions becomes yes or not yes: a choice of the best response is a yes where it is the key's, and
unsure is not a yes. A missing answer is left out.

The share of yes is a mean over answers. Answers of several raters to one item are not independent, so its interval is
Wilson's for as many observations as there are items, however many raters: too wide rather than too short.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from personamem_builder.annotation.items import BEST, CHECKS, UNSURE
from personamem_builder.annotation.ratings import COMMENT, Key, KeyItem, RaterAnswers
from personamem_builder.rater_agreement import Agreement, Interval, gwet_ac1, wilson
from personamem_builder.schema import option_letters

QUESTIONS: Final = (BEST, *CHECKS)

_YES, _NO = "yes", "no"


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
