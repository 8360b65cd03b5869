"""What a benchmark consists of, in figures: its questions by type, topic and distance, the length of its contexts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from generation.records import QUESTION_TYPES
from personamem_builder.schema import SHORT_TYPES, QuestionRow
from personamem_builder.stats.bins import Bins, session_bins, token_bins


class Spread(NamedTuple):
    """How some numbers are spread: least, quartiles, greatest."""

    least: float
    lower: float
    median: float
    upper: float
    greatest: float


class SplitFigures(NamedTuple):
    """The figures of a split; what its questions do not say is empty, or None.

    Attributes:
        types: Questions by type.
        topics: Questions by topic.
        sessions_since: Questions by the sessions between the reference and the question, in the bins of reports.
        tokens_since: Questions by the tokens between the two.
        tokens_since_spread: How these tokens are spread.
        context_tokens: Tokens that a question's context has.
        filler_share: Of a question's context, the tokens of fillers, as a fraction.
        updates: Questions by the updates that lie among their evidence.
        tellings: Questions by the way in which their evidence is told.
    """

    split: str
    questions: int
    personas: int
    contexts: int
    types: dict[str, int]
    topics: dict[str, int]
    sessions_since: dict[str, int]
    tokens_since: dict[str, int]
    tokens_since_spread: Spread | None
    context_tokens: Spread | None
    filler_share: Spread | None
    updates: dict[str, int]
    tellings: dict[str, int]

    def as_json(self) -> dict[str, Any]:
        """Return the figures as JSON holds them."""
        spreads = {key: value._asdict() for key, value in self._asdict().items() if isinstance(value, Spread)}
        return {**self._asdict(), **spreads}

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """All counts of questions that there are, by what they are by."""
        named = {
            "type": {SHORT_TYPES[name]: count for name, count in self.types.items()},
            "topic": self.topics,
            "sessions since the reference": self.sessions_since,
            "tokens since the reference": self.tokens_since,
            "updates among the evidence": self.updates,
            "how the evidence is told": self.tellings,
        }
        return {name: counts for name, counts in named.items() if counts}


def from_json(data: Mapping[str, Any]) -> SplitFigures:
    """Return figures from their JSON."""
    spreads: dict[str, Any] = {name: value and Spread(**value) for name, value in data.items() if name in _SPREADS}
    return SplitFigures(**{**data, **spreads})


_SPREADS: Final = ("tokens_since_spread", "context_tokens", "filler_share")


def describe_split(split: str, rows: Sequence[QuestionRow]) -> SplitFigures:
    """Return the figures of a split; they come from its questions alone."""
    types = Counter(row["question_type"] for row in rows)
    shares = [
        row["num_irrelevant_tokens"] / row["context_length_in_tokens"]
        for row in rows
        if row.get("context_length_in_tokens") and row.get("num_irrelevant_tokens") is not None
    ]
    return SplitFigures(
        split=split,
        questions=len(rows),
        personas=len({row["persona_id"] for row in rows}),
        contexts=len({row["shared_context_id"] for row in rows if row.get("shared_context_id")}),
        types={name: types[name] for name in QUESTION_TYPES if types[name]},
        topics=dict(Counter(row["topic"] for row in rows).most_common()),
        sessions_since=_binned(rows, "distance_to_ref_in_blocks", session_bins(split)),
        tokens_since=_binned(rows, "distance_to_ref_in_tokens", token_bins(split)),
        tokens_since_spread=_spread(_values(rows, "distance_to_ref_in_tokens")),
        context_tokens=_spread(_values(rows, "context_length_in_tokens")),
        filler_share=_spread(shares),
        updates={str(key): count for key, count in sorted(Counter(_values(rows, "updates_spanned")).items())},
        tellings=dict(sorted(Counter(row["telling"] for row in rows if row.get("telling")).items())),
    )


def _values(rows: Iterable[QuestionRow], column: str) -> list[int]:
    """Return the values of a column of numbers, of those questions that have it."""
    found = (row.get(column) for row in rows)
    return [int(value) for value in found if isinstance(value, int | float)]


def _binned(rows: Iterable[QuestionRow], column: str, bins: Bins) -> dict[str, int]:
    """Return the questions in each bin, in order; none where no question has the column."""
    counts = Counter(map(bins.of, _values(rows, column)))
    return {label: counts[label] for label in bins.labels} if counts else {}


def _spread(values: Sequence[float]) -> Spread | None:
    if not values:
        return None
    return Spread(*np.percentile(values, (0, 25, 50, 75, 100)).tolist())
