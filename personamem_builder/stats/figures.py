"""What a benchmark consists of, in figures: its questions by type, topic and distance, the length of its contexts."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from pydantic import TypeAdapter, ValidationError

from generation.errors import UserError
from generation.reading import describe
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
    """Return figures from the JSON that a manifest has of them.

    Raises:
        UserError: They are damaged.
    """
    try:
        return _form().validate_python(data)
    except ValidationError as error:
        raise UserError(f"manifest.json: figures: {describe(error)}", "build or import the dataset again") from error


@cache
def _form() -> TypeAdapter[SplitFigures]:
    return TypeAdapter(SplitFigures)


def describe_split(split: str, rows: Iterable[QuestionRow]) -> SplitFigures:
    """Return the figures of a split; they come from its questions alone."""
    tally = SplitTally(split)
    tally.update(rows)
    return tally.figures()


class SplitTally:
    """Counts the figures of a split as its questions come; of each only three numbers are kept."""

    def __init__(self, split: str) -> None:
        self._split = split
        self._questions = 0
        self._personas: set[int] = set()
        self._contexts: set[str] = set()
        self._types: Counter[str] = Counter()
        self._topics: Counter[str] = Counter()
        self._updates: Counter[int] = Counter()
        self._tellings: Counter[str] = Counter()
        self._sessions_since = _Binned(session_bins(split))
        self._tokens_since = _Binned(token_bins(split))
        self._tokens = array("q")
        self._lengths = array("q")
        self._shares = array("d")

    def update(self, rows: Iterable[QuestionRow]) -> None:
        """Count the next questions."""
        for row in rows:
            self._add(row)

    def _add(self, row: QuestionRow) -> None:
        self._questions += 1
        self._personas.add(row["persona_id"])
        if context := row.get("shared_context_id"):
            self._contexts.add(context)
        self._types[row["question_type"]] += 1
        self._topics[row["topic"]] += 1
        if telling := row.get("telling"):
            self._tellings[telling] += 1
        self._updates.update(_number(row, "updates_spanned"))
        self._sessions_since.update(_number(row, "distance_to_ref_in_blocks"))
        self._tokens_since.update(tokens := _number(row, "distance_to_ref_in_tokens"))
        self._tokens.extend(tokens)
        self._lengths.extend(_number(row, "context_length_in_tokens"))
        length, fillers = row.get("context_length_in_tokens"), row.get("num_irrelevant_tokens")
        if length and fillers is not None:
            self._shares.append(fillers / length)

    def figures(self) -> SplitFigures:
        """Return the figures of the questions so far."""
        return SplitFigures(
            split=self._split,
            questions=self._questions,
            personas=len(self._personas),
            contexts=len(self._contexts),
            types={name: self._types[name] for name in QUESTION_TYPES if self._types[name]},
            topics=dict(self._topics.most_common()),
            sessions_since=self._sessions_since.counts(),
            tokens_since=self._tokens_since.counts(),
            tokens_since_spread=_spread(self._tokens),
            context_tokens=_spread(self._lengths),
            filler_share=_spread(self._shares),
            updates={str(key): count for key, count in sorted(self._updates.items())},
            tellings=dict(sorted(self._tellings.items())),
        )


class _Binned:
    """Numbers counted in bins."""

    def __init__(self, bins: Bins) -> None:
        self._bins = bins
        self._counts: Counter[str] = Counter()

    def update(self, values: Iterable[int]) -> None:
        self._counts.update(map(self._bins.of, values))

    def counts(self) -> dict[str, int]:
        """Return the counts in the order of the bins; none where there was no number."""
        return {label: self._counts[label] for label in self._bins.labels} if self._counts else {}


def _number(row: QuestionRow, column: str) -> list[int]:
    """Return the number in a column, if the question has it."""
    value = row.get(column)
    return [int(value)] if isinstance(value, int | float) else []


def _spread(values: array[int] | array[float]) -> Spread | None:
    if not values:
        return None
    return Spread(*np.percentile(np.asarray(values), (0, 25, 50, 75, 100)).tolist())
