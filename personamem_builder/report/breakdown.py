"""Means by bin, and the accuracy of models by type, distance and place of the evidence, updates and topic.

Everything here is a pure function of answers and question rows. An analysis sorts the questions into bins that are the
same for all models, and gives for each model and bin a mean with its 95 % interval, clustered by persona. One that the
data cannot support is left out with a reason.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from generation.records import TELLINGS
from personamem_builder import statistics
from personamem_builder.results.answers import ScoredAnswer
from personamem_builder.schema import MIXED, SHORT_TYPES, QuestionRow
from personamem_builder.statistics import Estimate
from personamem_builder.stats.bins import session_bins, token_bins

FEW: Final = 10
"""A bin of fewer questions is shown, and marked: its mean says little."""

_PARTS: Final = 5
_MOST_UPDATES: Final = 3
_MOST_TOPICS: Final = 20


Column = Literal[
    "distance_to_ref_in_blocks",
    "distance_to_ref_in_tokens",
    "distance_to_ref_proportion_in_context",
    "stereotypical",
    "telling",
    "topic",
    "updates_spanned",
]
"""The columns of questions that accuracy is shown by."""


class ModelEntry(NamedTuple):
    """Answers that an analysis shows as one model.

    Attributes:
        label: What it is called.
        answers: The answers by question id.
        score: The score that is looked at.
        is_floor: Whether a shortcut policy answered.
    """

    label: str
    answers: Mapping[str, ScoredAnswer]
    score: str
    is_floor: bool = False


@dataclass(frozen=True)
class Analysis:
    """Some means by bin.

    Attributes:
        name: Short name: of files, and in JSON.
        title: What is shown, in words.
        unit: What the means are of.
        bins: Names of the bins, the same for all models.
        series: By model, a mean for each bin; None where there is nothing to take it of.
        expected: What a blind guess gives in each bin, or what else `expects` says; None where there is nothing.
        expects: What the expected values are.
        shape: `line` for bins that have an order, `points` for those that have `places`, `rows` for others.
        places: What each bin stands for on a scale whose steps are ten times as much.
        note: How bins are made and means are taken.
        remarks: What else was found, model by model.
    """

    name: str
    title: str
    unit: str
    bins: tuple[str, ...]
    series: Mapping[str, tuple[Estimate | None, ...]]
    expected: tuple[float | None, ...]
    expects: str = "a blind guess"
    shape: Literal["line", "points", "rows"] = "rows"
    places: tuple[float, ...] = ()
    note: str = ""
    remarks: tuple[str, ...] = ()


class LeftOut(NamedTuple):
    """An analysis that cannot be made, and why."""

    name: str
    title: str
    reason: str


Result = Analysis | LeftOut

TITLES: Final[Mapping[str, str]] = {
    "types": "Accuracy by question type",
    "sessions": "Accuracy by sessions since the evidence",
    "tokens": "Accuracy by tokens since the evidence",
    "position": "Accuracy by place of the evidence in the context",
    "updates": "Accuracy by number of updates",
    "tellings": "Accuracy by how the evidence is told",
    "topics": "Accuracy by topic",
    "stereotypes": "How often wrong answers follow a stereotype",
    "errors": "What wrong answers assert",
    "states": "What the chosen options assert, by question type",
    "calibration": "Confidence and accuracy",
    "letters": "Letters chosen, and letters that are right",
}
ACCURACY: Final = "accuracy"
"""The unit of most means."""


def types(entries: Sequence[ModelEntry]) -> Analysis:
    """Return accuracy by question type."""
    bins = {id_: SHORT_TYPES[answer.question_type] for entry in entries for id_, answer in entry.answers.items()}
    return _accuracy("types", entries, bins, tuple(SHORT_TYPES.values()))


def sessions_since(
    entries: Sequence[ModelEntry], questions: Mapping[str, QuestionRow], split: str | None = None
) -> Result:
    """Return accuracy by the number of sessions between the evidence and the question."""
    bins = session_bins(split)
    return by_column(
        "sessions",
        entries,
        questions,
        "distance_to_ref_in_blocks",
        bins.of,
        bins.labels,
        note="Sessions from the evidence to the question.",
    )


def tokens_since(
    entries: Sequence[ModelEntry], questions: Mapping[str, QuestionRow], split: str | None = None
) -> Result:
    """Return accuracy by the number of tokens between the evidence and the question."""
    bins = token_bins(split)
    return by_column(
        "tokens",
        entries,
        questions,
        "distance_to_ref_in_tokens",
        bins.of,
        bins.labels,
        note="Tokens (o200k_base) from the evidence to the question.",
    )


def position(entries: Sequence[ModelEntry], questions: Mapping[str, QuestionRow]) -> Result:
    """Return accuracy by where the evidence stands in the context: 0 % is its beginning."""
    labels = tuple(f"{100 * i // _PARTS}–{100 * (i + 1) // _PARTS} %" for i in range(_PARTS))
    return by_column(
        "position",
        entries,
        questions,
        "distance_to_ref_proportion_in_context",
        lambda distance: labels[min(_PARTS - 1, max(0, math.floor((1 - distance) * _PARTS)))],
        labels,
        note="0 % is the beginning of the context, 100 % the question.",
    )


def updates(entries: Sequence[ModelEntry], questions: Mapping[str, QuestionRow]) -> Result:
    """Return accuracy by how many updates of a preference the evidence of a question spans."""
    labels = (*(str(count) for count in range(_MOST_UPDATES)), f"{_MOST_UPDATES}+")
    return by_column(
        "updates",
        entries,
        questions,
        "updates_spanned",
        lambda count: labels[min(_MOST_UPDATES, count)],
        labels,
        note="Updates among the evidence of a question; types of questions differ in how many they have.",
    )


def tellings(entries: Sequence[ModelEntry], questions: Mapping[str, QuestionRow]) -> Result:
    """Return accuracy by how the history tells the evidence of a question."""
    return by_column(
        "tellings",
        entries,
        questions,
        "telling",
        str,
        (*TELLINGS, MIXED),
        shape="rows",
        note="By name, in other words than the options use, by what the user did, or in several of these ways.",
    )


def topics(entries: Sequence[ModelEntry], questions: Mapping[str, QuestionRow]) -> Result:
    """Return accuracy by topic; where there are many, those with fewest questions are taken together."""
    counts = Counter(row["topic"] for row in questions.values())
    most = sorted(counts, key=lambda topic: (-counts[topic], topic))
    kept, rest = (most, []) if len(most) <= _MOST_TOPICS else (most[: _MOST_TOPICS - 1], most[_MOST_TOPICS - 1 :])
    others = f"{len(rest)} other topics"
    names = {topic: topic for topic in kept} | dict.fromkeys(rest, others)
    labels = (*sorted(kept), *([others] if rest else []))
    return by_column("topics", entries, questions, "topic", names.__getitem__, labels, shape="rows")


def by_column(
    name: str,
    entries: Sequence[ModelEntry],
    questions: Mapping[str, QuestionRow],
    column: Column,
    bin_of: Callable[..., str],
    labels: tuple[str, ...],
    *,
    shape: Literal["line", "rows"] = "line",
    note: str = "",
) -> Result:
    """Return accuracy by a column of the questions, left out where no question has it.

    Args:
        name: Short name of the analysis.
        entries: The models.
        questions: The questions by id.
        column: The column.
        bin_of: Gives the bin of a value.
        labels: The bins in order; those without questions are left out.
        shape: See `Analysis`.
        note: See `Analysis`.
    """
    known = {id_: bin_of(row[column]) for id_, row in questions.items() if row.get(column) is not None}
    if not known:
        return LeftOut(name, TITLES[name], f"the data have no column `{column}`")
    if len(known) < len(questions):
        note = f"{note} Of {len(questions) - len(known)} questions it is not known.".strip()
    return _accuracy(name, entries, known, labels, shape, note)


def _accuracy(
    name: str,
    entries: Sequence[ModelEntry],
    bins: Mapping[str, str],
    labels: tuple[str, ...],
    shape: Literal["line", "rows"] = "rows",
    note: str = "",
) -> Analysis:
    asked = {id_: answer for entry in entries for id_, answer in entry.answers.items()}
    chances: dict[str, list[float]] = defaultdict(list)
    for id_, answer in asked.items():
        if id_ in bins:
            chances[bins[id_]].append(1 / answer.n_options)
    kept = tuple(label for label in labels if chances.get(label))
    series = {
        entry.label: means(
            ((bins[id_], a.credits[entry.score], a.persona_id) for id_, a in entry.answers.items() if id_ in bins), kept
        )
        for entry in entries
    }
    expected = tuple(sum(chances[label]) / len(chances[label]) for label in kept)
    return Analysis(name, TITLES[name], ACCURACY, kept, series, expected, shape=shape, note=note)


def means(values: Iterator[tuple[str, float, int]], labels: Sequence[str]) -> tuple[Estimate | None, ...]:
    """Return the mean of each bin, of values given as (bin, value, persona)."""
    groups: dict[str, tuple[list[float], list[int]]] = defaultdict(lambda: ([], []))
    for label, value, persona in values:
        groups[label][0].append(value)
        groups[label][1].append(persona)
    return tuple(statistics.overall(*groups[label]) if label in groups else None for label in labels)
