"""A reader of all questions of a user, and of nothing else: does what one asks tell what another one's answer is?

What a user holds is a likelier subject of questions than what they do not, unless the questions are balanced together.
The reader sees for each option where else in the user's questions its states stand, and learns from other users.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.feature_extraction import DictVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold

from personamem_builder.audit.history.words import assertions
from personamem_builder.audit.records import AuditedSplit
from personamem_builder.policies import best_credit
from personamem_builder.schema import QuestionRow

_FOLDS: Final = 10
_FREQUENT: Final = 60
_STRENGTH: Final = 0.03
_DIGITS: Final = 9

_States = tuple[str, ...]
_Features = dict[str, float]


class _Pooled(NamedTuple):
    """A question of a user; equal ones are asked once.

    Attributes:
        user: Who asks.
        question_type: Of the question.
        states: What each option asserts.
        answer: The right option.
    """

    user: int
    question_type: str
    states: tuple[_States, ...]
    answer: int


def pooled_credits(split: AuditedSplit) -> list[float]:
    """Return the credit of each question by a reader that sees all questions of its user, and none of the history.

    A conditional logit for each question type. Its features say in how many other questions of the user, by their type,
    an option asserts the same: all of it, its first or last state, or its last one anywhere; and, for the states that
    are most frequent among all users' questions, whether the user is asked of them, with each option's last state.

    Args:
        split: The questions; their users are held out in ten folds.

    Returns:
        The credits; chance where there is nothing to learn from.
    """
    own = [_read(row) for row in split.rows]
    distinct = list(dict.fromkeys(own))
    pools = _pools(distinct)
    right: dict[_Pooled, float] = {}
    for question_type in sorted({question.question_type for question in distinct}):
        questions = [question for question in distinct if question.question_type == question_type]
        # One by one: those of all questions would fill the memory.
        features = (_features(question, *pools[question.user]) for question in questions)
        right |= zip(questions, _held_out(questions, features), strict=True)
    return [right.get(question, 1 / len(question.states)) for question in own]


def _read(row: QuestionRow) -> _Pooled:
    # Without states the words stand for them.
    states = row.get("option_states") or [[" ".join(option.stems)] for option in assertions(row)]
    order = sorted(range(len(states)), key=lambda i: states[i])  # the same question may be asked with other letters
    return _Pooled(
        user=row["persona_id"],
        question_type=row["question_type"],
        states=tuple(tuple(states[i]) or ("",) for i in order),
        answer=order.index(row["answer_index"]),
    )


def _pools(questions: Sequence[_Pooled]) -> dict[int, tuple[Counter[tuple[str, str, object]], list[str]]]:
    """Return for each user how many of their questions add each key, and which frequent states they are asked of."""
    by_user: dict[int, list[int]] = {}
    for i, question in enumerate(questions):
        by_user.setdefault(question.user, []).append(i)
    asked_of = {
        user: {state for i in own for states in questions[i].states for state in states}
        for user, own in by_user.items()
    }
    users = Counter(state for states in asked_of.values() for state in states)
    some = [state for state, count in users.items() if 1 < count < len(by_user)]
    frequent = set(sorted(some, key=lambda state: (-users[state], state))[:_FREQUENT])
    return {
        user: (Counter(key for i in own for key in _keys(questions[i])), sorted(asked_of[user] & frequent))
        for user, own in by_user.items()
    }


def _keys(question: _Pooled) -> set[tuple[str, str, object]]:
    """Return what a question adds to its user's pool: what some option asserts, in four ways, with its type."""
    kind = question.question_type
    keys: set[tuple[str, str, object]] = set()
    for states in question.states:
        keys |= {(kind, "all", states), (kind, "first", states[0]), (kind, "last", states[-1])}
        keys |= {(kind, "any", state) for state in states}
    return keys


def _features(question: _Pooled, seen: Mapping[tuple[str, str, object], int], cues: Sequence[str]) -> list[_Features]:
    own = _keys(question)
    kinds = sorted({kind for kind, _, _ in seen})
    options: list[_Features] = []
    for states in question.states:
        found: _Features = {}
        for kind in kinds:
            for key in (
                (kind, "all", states),
                (kind, "first", states[0]),
                (kind, "last", states[-1]),
                (kind, "any", states[-1]),
            ):
                found[f"{key[0]} {key[1]}"] = float(seen.get(key, 0) - (key in own))
        options.append(found)
    for name in list(options[0]):
        values = [option[name] for option in options]
        for option in options:
            option[f"{name} most"] = float(option[name] == max(values) > min(values))
            option[f"{name} least"] = float(option[name] == min(values) < max(values))
    for states, option in zip(question.states, options, strict=True):
        option |= {f"{states[-1]} with {cue}": 1.0 for cue in cues}
    return options


def _held_out(questions: Sequence[_Pooled], features: Iterable[Sequence[_Features]]) -> list[float]:
    """Return the credit of each question of a type by a ranker that learned from other users."""
    credits_ = [1 / len(question.states) for question in questions]
    users = [question.user for question in questions]
    count = min(_FOLDS, len(set(users)))
    if count < 2:
        return credits_
    matrix = DictVectorizer().fit_transform(option for options in features for option in options)
    starts = np.cumsum([0, *(len(question.states) for question in questions)])
    owner = np.repeat(np.arange(len(questions)), np.diff(starts))
    gold = (starts[:-1] + np.array([question.answer for question in questions]))[owner]
    wrong = np.flatnonzero(gold != np.arange(len(gold)))
    differences = matrix[gold[wrong]] - matrix[wrong]
    signs = np.resize([1.0, -1.0], len(wrong))  # a difference and its opposite say the same; a classifier needs both
    differences = sparse.diags(signs) @ differences
    for train, test in GroupKFold(count).split(users, groups=users):
        learn = np.isin(owner[wrong], train)
        if len(set(signs[learn].tolist())) < 2:
            continue
        model = LogisticRegression(C=_STRENGTH, fit_intercept=False, solver="liblinear")
        scores = np.round(matrix @ model.fit(differences[learn], signs[learn]).coef_[0], _DIGITS)
        for i in test.tolist():
            credits_[i] = best_credit(scores[starts[i] : starts[i + 1]].tolist(), questions[i].answer)
    return credits_
