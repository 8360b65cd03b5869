"""Accuracy against the tokens shown: what each way to remember a user buys, at what price."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from personamem_builder import statistics
from personamem_builder.memory.controls import Full, Nothing, Recent
from personamem_builder.report.analysis import primary_score
from personamem_builder.report.breakdown import ACCURACY, Analysis
from personamem_builder.report.groups import RunGroup
from personamem_builder.results.runs import Run
from personamem_builder.schema import QuestionRow
from personamem_builder.statistics import Estimate

_COSTS = ("tokens per query", "seconds per query")
_NOTE = (
    "Tokens of conversations or memories shown before a question, by the benchmark's own count, on a scale on which "
    "each step is ten times as much."
)


class _Point(NamedTuple):
    label: str
    tokens: float
    score: Estimate


def tokens_shown(group: RunGroup, questions: Mapping[str, QuestionRow] | None) -> Analysis | None:
    """Return the accuracy of runs by how many tokens they showed, a bin for each; None without a memory system.

    The remarks say which runs no other beats with as few tokens, and what each memory system took.

    Args:
        group: Runs that have a table together.
        questions: Their questions by id; None where these are not at hand, and so not how long whole histories are.
    """
    runs = [run for run in group.runs if run.answers and not run.is_floor]
    if not any(run.shown.tokens is not None for run in runs):
        return None
    shown = [(run, _tokens(run, questions)) for run in runs]
    points = [_point(group, run, tokens) for run, tokens in shown if tokens is not None]
    points.sort(key=lambda point: (point.tokens, point.label))
    front = _front(points)
    drawn = sorted(points, key=lambda point: point.label not in front)  # pictures have the first few
    left_out = [group.label(run) for run, tokens in shown if tokens is None]
    return Analysis(
        "tokens-shown",
        "Accuracy against tokens shown",
        ACCURACY,
        tuple(f"{point.tokens:,.0f} tokens: {point.label}" for point in points),
        {one.label: tuple(point.score if point is one else None for point in points) for one in drawn},
        (None,) * len(points),
        shape="points",
        places=tuple(point.tokens for point in points),
        note=_NOTE,
        remarks=(
            f"No other is better with as few tokens: {'; '.join(front)}.",
            *_costs(group, runs),
            *_unknown(left_out),
        ),
    )


def _tokens(run: Run, questions: Mapping[str, QuestionRow] | None) -> float | None:
    """Return how many tokens a run showed for a question, on average; None where nothing says so."""
    if not run.has_context or run.shown.memory == Nothing.name:
        return 0.0
    if run.shown.memory == Full.name and questions is not None:
        lengths = [questions[id_].get("context_length_in_tokens") for id_ in run.answers if id_ in questions]
        known = [length for length in lengths if length is not None]
        return sum(known) / len(known) if known else None
    if run.shown.memory == Recent.name:
        given = dict(run.shown.settings).get("tokens", "")
        return float(given) if given.isdigit() else None
    return run.shown.tokens


def _point(group: RunGroup, run: Run, tokens: float) -> _Point:
    score = primary_score(run.scores, run.task)
    answers = run.answers.values()
    estimate = statistics.overall([a.credits[score] for a in answers], [a.persona_id for a in answers])
    bare = "" if run.has_context else " (no context)"
    return _Point(group.label(run) + bare, tokens, estimate)


def _front(points: Sequence[_Point]) -> list[str]:
    """Return the labels of the points that no other beats with as few tokens."""
    best, front = -1.0, []
    for point in sorted(points, key=lambda point: (point.tokens, -point.score.value)):
        if point.score.value > best:
            front.append(point.label)
            best = point.score.value
    return front


def _costs(group: RunGroup, runs: Sequence[Run]) -> list[str]:
    return [
        f"{group.label(run)}: {', '.join(costs)}."
        for run in runs
        if (costs := [one for one in run.shown.measures if one.startswith(_COSTS) or " per session " in one])
    ]


def _unknown(labels: Sequence[str]) -> list[str]:
    return [f"How many tokens were shown is not known: {'; '.join(labels)}."] if labels else []
