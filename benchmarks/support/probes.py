"""Trained shortcuts: rankers that see options, or the question and its options, and no conversation."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise, product
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, vstack
from sklearn.feature_extraction import FeatureHasher
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold

from generation.tokenizer import token_length

Row = dict[str, Any]
Features = Callable[[Row, int], dict[str, float]]

_WORD = re.compile(r"\w+")
_FOLDS = 10


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def option_features(row: Row, index: int) -> dict[str, float]:
    """Return words, pairs of words and lengths of an option, alone and for its question type."""
    text = row["texts"][index]
    words = _words(text)
    features = {f"w:{word}": 1.0 for word in words}
    features |= {f"p:{a} {b}": 1.0 for a, b in pairwise(words)}
    lengths = [token_length(other) for other in row["texts"]]
    own = lengths[index]
    sizes = {
        "tokens": own / max(lengths),
        "letters": len(text) / max(len(other) for other in row["texts"]),
        "rank": sum(other < own for other in lengths) / 3,
        "longest": float(own == max(lengths)),
        "shortest": float(own == min(lengths)),
    }
    return features | sizes | {f"{row['type']}:{name}": value for name, value in sizes.items()}


def cross_features(row: Row, index: int) -> dict[str, float]:
    """Return how an option relates to the question and to the other options, and pairs of their words."""
    question = set(_words(row["message"]))
    sets = [set(_words(text)) for text in row["texts"]]
    own = sets[index]
    others = [other for i, other in enumerate(sets) if i != index]
    likeness = [len(own & other) / len(own | other) for other in others]
    rare = own - set.union(*others)
    cues = {
        "overlap": len(own & question) / len(own | question),
        "shared": float(len(own & question)),
        "central": sum(likeness) / len(likeness),
        "nearest": max(likeness),
        "farthest": min(likeness),
        "own": float(len(rare)),
    }
    pairs = {f"x:{a} {b}": 1.0 for a, b in product(question, rare)}
    return cues | {f"{row['type']}:{name}": value for name, value in cues.items()} | pairs


def ranker_credits(
    rows: Sequence[Row], features: Features, strengths: Sequence[float] = (0.01, 0.1, 1.0)
) -> list[float]:
    """Return the credit of a logistic ranker for each row, trained on the other personas.

    A ranker of pairs: the difference between the right option and a wrong one against its negative. Its strength of
    regularisation is chosen on the training personas.

    Args:
        rows: Questions with `texts`, `message`, `type`, `persona` and `answer`.
        features: What the ranker sees of an option.
        strengths: Inverse strengths to choose from.
    """
    hasher = FeatureHasher(2**18, alternate_sign=False)
    matrices = [hasher.transform([features(row, i) for i in range(len(row["texts"]))]) for row in rows]
    personas = np.array([row["persona"] for row in rows])
    credits_ = np.zeros(len(rows))
    for train, test in GroupKFold(min(_FOLDS, len(set(personas)))).split(rows, groups=personas):
        inner = next(GroupKFold(2).split(train, groups=personas[train]))
        fitted = {
            c: _fit([rows[train[i]] for i in inner[0]], [matrices[train[i]] for i in inner[0]], c) for c in strengths
        }
        held_out = [train[i] for i in inner[1]]
        best = max(
            strengths,
            key=lambda c: float(np.mean([_credit(rows[i], matrices[i], fitted[c]) for i in held_out])),
        )
        weights = _fit([rows[i] for i in train], [matrices[i] for i in train], best)
        for i in test:
            credits_[i] = _credit(rows[i], matrices[i], weights)
    return [float(credit) for credit in credits_]


def _fit(rows: Sequence[Row], matrices: Sequence[csr_matrix], strength: float) -> np.ndarray:
    differences = []
    for row, matrix in zip(rows, matrices, strict=True):
        right = row["answer"]
        differences += [matrix[right] - matrix[i] for i in range(matrix.shape[0]) if i != right]
    positive = vstack(differences)
    labels = np.repeat([1, 0], positive.shape[0])
    model = LogisticRegression(C=strength, fit_intercept=False, max_iter=200, solver="liblinear")
    return model.fit(vstack([positive, -positive]), labels).coef_[0]


def _credit(row: Row, matrix: csr_matrix, weights: np.ndarray) -> float:
    scores = np.round(matrix @ weights, 12)
    best = np.flatnonzero(scores == scores.max())
    return float(row["answer"] in best) / len(best)
