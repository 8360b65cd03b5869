"""Trained probes: what a ranker scores that has learned from other personas' answers and reads no conversation.

A probe gives each option a weighted sum of what it sees of it, and takes the highest. The weights come from a logistic
regression on the differences between right and wrong options (the conditional logit, where there are two). Personas
are held out in ten folds, or one by one where there are fewer than ten: each is answered by a probe that was trained
on the others. On these alone is chosen how much words count beside the few other features, from not at all: the
strength of regularisation. Each probe sees what the one before it sees, and more:

- `lengths`: characters and words of the options, compared with each other;
- `words`: the options' words and pairs of neighbouring words;
- `cross`: how the options are like the question and like each other, and with each of the question's frequent words
  whether it goes with long, central or echoing options;
- `typed`: the same, with weights of its own for each question type.

The scores are a ceiling for shortcuts, not something that a model could score without answers to learn from. They can
be far below chance, where the right options of one persona are wrong ones of another: then what was learned points
away from the answer. That is so in sets which ask one thing of several users on purpose, and is no shortcut.

Options are known by their texts: nothing depends on their positions, and identical options tie.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold
from threadpoolctl import threadpool_limits

from personamem_builder.audit.records import AuditedSplit, Finding, accuracy_findings, not_made, widened
from personamem_builder.policies import jaccard, word_list
from personamem_builder.schema import option_texts

PROBES: Final = ("lengths", "words", "cross", "typed")
"""The probes, from the one that sees least."""

_FOLDS: Final = 10
_INNER_FOLDS: Final = 2
_WEIGHTS: Final = (0.0, 0.1, 0.3, 1.0)
"""How much words may count, beside a spread of 1 of the other features; the less, the more they are regularised."""
_UNCHOSEN: Final = 0.3
"""The weight where one persona is all there is to learn from."""
_FREQUENT: Final = 60
_TELLS_NOTHING: Final = 0.9
"""A word in more of the questions than this."""
_NO_SPREAD: Final = 1e-9
_DIGITS: Final = 9
"""Beyond these, the order of a sum would decide ties."""

_Ints = npt.NDArray[np.int64]
_Floats = npt.NDArray[np.float64]
_Sparse = Any  # scipy's stubs lack what arithmetic with these arrays gives


class _Options(NamedTuple):
    """The options of a split, question by question.

    Attributes:
        texts: Without labels.
        words: Of each text.
        starts: Index of the first option of each question, and the number of all.
        owner: The question of each option.
        gold: Index of the right option of each question.
        questions: The words of each question.
        personas: Of each question.
        types: A number for the type of each question.
    """

    texts: list[str]
    words: list[list[str]]
    starts: _Ints
    owner: _Ints
    gold: _Ints
    questions: list[list[str]]
    personas: _Ints
    types: _Ints


class _Features(NamedTuple):
    """What a probe sees of each option: few features that count in full, and words that count as much as is chosen."""

    few: _Sparse
    words: _Sparse


def probe_credits(split: AuditedSplit) -> dict[str, list[float]]:
    """Train the probes and let them answer the personas that were held out.

    Returns:
        For each probe the credit in [0, 1] of each question; options that tie share it. Empty where there are fewer
        than two personas.
    """
    if len(set(split.personas)) < 2:
        return {}
    options = _options(split)
    # Threads do, since the solver works without the interpreter's lock; each copies features, so no more than that.
    with ThreadPoolExecutor(os.cpu_count()) as pool, threadpool_limits(1, user_api="blas"):
        return {name: _credits(options, features, pool) for name, features in _features(options)}


def probe_findings(split: AuditedSplit, credits_: Mapping[str, Sequence[float]]) -> list[Finding]:
    """Return what each probe scores, overall and for each question type, from its `probe_credits`.

    Errors and intervals are wider by sqrt(1 + k / (k - 1)) for k folds, 1.45 for ten: probes learn from each other's
    folds, so these are right or wrong together (Nadeau and Bengio 2003: a variance of 1 / k + test / train, not 1 / k).
    With right options drawn anew in `examples/full.yaml`, scores were spread 1.3 to 1.6 times as far as without that.
    """
    if not credits_:
        return not_made(split, "two personas", *(f"probe.{name}" for name in PROBES))
    folds = min(_FOLDS, len(set(split.personas)))
    wider = math.sqrt(1 + folds / (folds - 1))
    return [
        widened(finding, wider)
        for name in PROBES
        for finding in accuracy_findings(f"probe.{name}", split, credits_[name])
    ]


def _options(split: AuditedSplit) -> _Options:
    texts: list[str] = []
    starts, gold = [0], []
    for row in split.rows:
        gold.append(len(texts) + row["answer_index"])
        texts += option_texts(row)
        starts.append(len(texts))
    return _Options(
        texts=texts,
        words=[word_list(text) for text in texts],
        starts=np.array(starts),
        owner=np.repeat(np.arange(len(split.rows)), np.diff(starts)),
        gold=np.array(gold),
        questions=[word_list(row["user_question_or_message"]) for row in split.rows],
        personas=np.array(split.personas),
        types=np.unique(np.array(split.types), return_inverse=True)[1],
    )


# ---- what the probes see


def _features(options: _Options) -> Iterator[tuple[str, _Features]]:
    lengths, likeness = _lengths(options), _likeness(options)
    both = np.hstack([lengths, likeness])
    nothing = sparse.csr_matrix((len(options.texts), 0))
    words = _presence([*own, *map(" ".join, pairwise(own))] for own in options.words)
    by_length = _scaled(_compared(lengths, options), options)
    by_both = _scaled(_compared(both, options), options)
    yield "lengths", _Features(by_length, nothing)
    yield "words", _Features(by_length, words)
    # Of the comparisons, the rank by characters, by likeness to the others and by overlap with the question.
    cues = _question_cues(options, _ranks(both[:, [0, 2, 5]], options) - 0.5)
    cross = _Features(by_both, sparse.hstack([words, cues], format="csr"))
    yield "cross", cross
    yield "typed", _Features(*(_by_type(matrix, options) for matrix in cross))


def _lengths(options: _Options) -> _Floats:
    sizes = [(len(text), len(words)) for text, words in zip(options.texts, options.words, strict=True)]
    return np.log1p(np.array(sizes, dtype=np.float64))


def _likeness(options: _Options) -> _Floats:
    """Return how much each option is like the other options, on average, at most and at least, and like the question.

    The last columns are the share of the question's words that it has, and of its words that no other option has.
    """
    values = []
    for question, (start, end) in zip(options.questions, pairwise(options.starts.tolist()), strict=True):
        asked = set(question)
        options_ = [set(words) for words in options.words[start:end]]
        counts = Counter(word for words in options_ for word in words)
        for i, own in enumerate(options_):
            likes = [jaccard(own, other) for j, other in enumerate(options_) if j != i] or [0.0]
            alone = sum(counts[word] == 1 for word in own) / max(1, len(own))
            echo = len(own & asked) / max(1, len(asked))
            values.append([sum(likes) / len(likes), max(likes), min(likes), jaccard(own, asked), echo, alone])
    return np.round(np.array(values), _DIGITS)


def _compared(values: _Floats, options: _Options) -> _Floats:
    """Return of each value itself, its rank, whether it is the highest or lowest, and how far it is from the middle."""
    highest, lowest = _share_of_best(values, options), _share_of_best(-values, options)
    ranks = _ranks(values, options)
    return np.hstack([values, ranks, highest, lowest, np.abs(ranks - 0.5)])


def _ranks(values: _Floats, options: _Options) -> _Floats:
    """Return the rank of each value among its question's, from 0 to 1; equal ones have the same."""
    ranks = np.zeros_like(values)
    for start, end in pairwise(options.starts.tolist()):
        own = values[start:end]
        below = (own[:, None] > own[None]).sum(axis=1)
        equal = (own[:, None] == own[None]).sum(axis=1) - 1
        ranks[start:end] = (below + equal / 2) / max(1, end - start - 1)
    return ranks


def _share_of_best(values: _Floats, options: _Options) -> _Floats:
    """Return 1 for the highest value of a question, shared between those that are equal, and 0 for the others."""
    first = options.starts[:-1]
    best = values == np.maximum.reduceat(values, first, axis=0)[options.owner]
    shared: _Floats = best / np.add.reduceat(best, first, axis=0, dtype=np.float64)[options.owner]
    return shared


def _scaled(values: _Floats, options: _Options) -> _Sparse:
    """Return how far values are from the mean of their question, in units of the spread within questions."""
    means = np.add.reduceat(values, options.starts[:-1], axis=0) / np.diff(options.starts)[:, None]
    centred = values - means[options.owner]
    spread = np.sqrt(np.mean(centred**2, axis=0))
    return sparse.csr_matrix(centred / np.where(spread > _NO_SPREAD, spread, 1.0))


def _question_cues(options: _Options, ranks: _Floats) -> _Sparse:
    """Return for each frequent word of a question the ranks of the option."""
    counts = Counter(word for words in options.questions for word in set(words))
    telling = [word for word, count in counts.items() if count <= _TELLS_NOTHING * len(options.questions)]
    frequent = set(sorted(telling, key=lambda word: (-counts[word], word))[:_FREQUENT])
    asked = _presence([word for word in words if word in frequent] for words in options.questions)[options.owner]
    return sparse.hstack([asked.multiply(column[:, None]) for column in ranks.T], format="csr")


def _presence(bags: Iterable[Iterable[str]]) -> _Sparse:
    """Return which words each bag has: a row for a bag, a column for a word."""
    columns: dict[str, int] = {}
    indices: list[int] = []
    ends = [0]
    for bag in bags:
        indices += [columns.setdefault(word, len(columns)) for word in dict.fromkeys(bag)]
        ends.append(len(indices))
    return sparse.csr_matrix((np.ones(len(indices)), indices, ends), shape=(len(ends) - 1, len(columns)))


def _by_type(matrix: _Sparse, options: _Options) -> _Sparse:
    """Return the features with columns of their own for each question type."""
    height, width = matrix.shape
    of_entry = np.repeat(options.types[options.owner], np.diff(matrix.indptr))
    indices = matrix.indices + width * of_entry
    return sparse.csr_matrix((matrix.data, indices, matrix.indptr), shape=(height, width * (options.types.max() + 1)))


# ---- training


class _Training(NamedTuple):
    """What a probe learns from, and answers.

    Attributes:
        options: Of all questions.
        features: A row for each option, its few features first.
        num_few: How many these are.
        differences: For each wrong option, the features of the right one less its own.
        owner: The question of each difference.
        weights: How much words may count.
    """

    options: _Options
    features: _Sparse
    num_few: int
    differences: _Sparse
    owner: _Ints
    weights: Sequence[float]


def _credits(options: _Options, features: _Features, pool: ThreadPoolExecutor) -> list[float]:
    training = _training(options, features)
    credits_ = np.zeros(len(options.gold))
    folds = list(_folds(options.personas, _FOLDS))
    for (_, test), answered in zip(folds, pool.map(lambda fold: _answer(training, fold[0]), folds), strict=True):
        credits_[test] = answered[test]
    return [float(credit) for credit in credits_]


def _training(options: _Options, features: _Features) -> _Training:
    wrong = np.setdiff1d(np.arange(len(options.texts)), options.gold)
    owner = options.owner[wrong]
    few = features.few[options.gold[owner]] - features.few[wrong]
    words = features.words[options.gold[owner]] - features.words[wrong]
    words.eliminate_zeros()
    # What only one persona has can be learned, or used, but never both.
    used = _num_personas(words, options.personas[owner]) > 1
    differences = sparse.hstack([few, words[:, used]], format="csr")
    differences.sort_indices()  # else the solver would, each time
    return _Training(
        options=options,
        features=sparse.hstack([features.few, features.words[:, used]], format="csr"),
        num_few=features.few.shape[1],
        differences=differences,
        owner=owner,
        weights=_WEIGHTS if used.any() else _WEIGHTS[:1],
    )


def _num_personas(matrix: _Sparse, personas: _Ints) -> _Ints:
    """Return for each column of how many personas it has an entry."""
    of_row = np.unique(personas, return_inverse=True)[1]
    entries = (np.ones(matrix.nnz), (np.repeat(of_row, np.diff(matrix.indptr)), matrix.indices))
    summed = sparse.coo_matrix(entries, shape=(of_row.max(initial=0) + 1, matrix.shape[1])).tocsr()
    return np.bincount(summed.indices, minlength=matrix.shape[1])


def _folds(personas: _Ints, count: int) -> Iterator[tuple[_Ints, _Ints]]:
    folds = GroupKFold(min(count, len(np.unique(personas))))
    return folds.split(personas, groups=personas)  # type: ignore[no-any-return]


def _answer(training: _Training, train: _Ints) -> _Floats:
    """Learn from some questions, and return the credit of every question."""
    return _learned(training, train, _chosen_weight(training, train))


def _chosen_weight(training: _Training, train: _Ints) -> float:
    personas = training.options.personas[train]
    if len(training.weights) == 1:
        return training.weights[0]
    if len(np.unique(personas)) < 2:
        return _UNCHOSEN
    rights = dict.fromkeys(training.weights, 0.0)
    for inner_train, inner_test in _folds(personas, _INNER_FOLDS):
        for weight in training.weights:
            rights[weight] += float(_learned(training, train[inner_train], weight)[train[inner_test]].sum())
    return max(rights, key=lambda weight: rights[weight])


def _learned(training: _Training, train: _Ints, weight: float) -> _Floats:
    """Learn from some questions with a given weight of words, and return the credit of every question."""
    rows = training.differences[np.isin(training.owner, train)]
    if not weight:
        rows = rows[:, : training.num_few]
    learned = np.zeros(training.features.shape[1])
    if rows.shape[0] > 1:
        scale = np.where(np.arange(rows.shape[1]) < training.num_few, 1.0, weight)
        # A difference and its opposite say the same, but a classifier needs both.
        signs = np.resize([1.0, -1.0], rows.shape[0])
        rows.data *= scale[rows.indices] * np.repeat(signs, np.diff(rows.indptr))
        model = LogisticRegression(C=1.0, fit_intercept=False, solver="liblinear", tol=0.1).fit(rows, signs)
        learned[: len(scale)] = model.coef_[0] * scale
    scores = np.round(training.features @ learned, _DIGITS)
    credits_: _Floats = _share_of_best(scores[:, None], training.options)[training.options.gold, 0]
    return credits_
