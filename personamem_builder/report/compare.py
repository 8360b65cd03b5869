"""Two models, question by question."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from generation.errors import UserError
from generation.records import QUESTION_TYPES
from personamem_builder import statistics
from personamem_builder.report.groups import RunGroup, all_names
from personamem_builder.report.numbers import p_text, points
from personamem_builder.report.rows import PairedCredits, pair_credits
from personamem_builder.results.runs import Run
from personamem_builder.statistics import Estimate, McNemar


class TypeDifference(NamedTuple):
    """Two models on the questions of a type; `holm_p` is p corrected for the number of types (Holm 1979)."""

    difference: Estimate
    mcnemar: McNemar
    holm_p: float


@dataclass(frozen=True)
class Comparison:
    """Two models on the questions that both answered.

    Attributes:
        difference: Of their scores, first minus second, clustered by persona.
        mcnemar: Wins and losses of the first, and the exact test.
        ties: Questions with the same credit.
        types: By question type; None where there are no questions.
        notes: What a reader should know.
    """

    task: str
    data_digest: str | None
    score: str
    first: str
    second: str
    difference: Estimate
    mcnemar: McNemar
    ties: int
    types: Mapping[str, TypeDifference | None]
    notes: Sequence[str] = ()


def compare(groups: Sequence[RunGroup], first: str, second: str) -> list[Comparison]:
    """Compare two models wherever both answered a task on the same data.

    Args:
        groups: The runs, by table.
        first: A model by its name in the tables, or a folder or file of its results.
        second: The other one.

    Returns:
        A comparison for each task, data set, subset and score that both have; where a whole run stands
        against a partial one, over the questions that both answered.

    Raises:
        UserError: A name fits no run, or several of one table; or the two have no questions in common.
    """
    found = {name: [(g, run) for g in groups for run in _matching(g, name)] for name in (first, second)}
    for name, matches in found.items():
        if not matches:
            labels = dict.fromkeys(g.label(run) for g in groups for run in g.runs)
            raise UserError(f"--compare {name}: no such model or folder", f"there are {', '.join(labels)}")
    pairs: dict[tuple[str, str], list[tuple[RunGroup, Run, Run]]] = {}
    for group, run in found[first]:
        for _, other in found[second]:
            key = (run.task, run.data_digest or "")
            same = key == (other.task, other.data_digest or "")
            if run is not other and same and run.answers.keys() & other.answers.keys():
                pairs.setdefault(key, []).append((group, run, other))
    comparisons = [comparison for same in pairs.values() for comparison in _compare_on_task(same, first, second)]
    if not comparisons:
        tasks = {name: ", ".join(sorted({run.task for _, run in matches})) for name, matches in found.items()}
        raise UserError(
            f"--compare {first} {second}: they answered no question of the same task and data "
            f"({first}: {tasks[first]}; {second}: {tasks[second]})",
            "evaluate both on one task of one dataset",
        )
    return comparisons


def holm(ps: Sequence[float]) -> list[float]:
    """Return p values corrected for their number, so that all hold together (Holm 1979).

    The smallest of m is multiplied by m, the next by m − 1, and so on; none is less than one before it.
    """
    corrected = [0.0] * len(ps)
    least = 0.0
    for rank, index in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        least = max(least, min(1.0, (len(ps) - rank) * ps[index]))
        corrected[index] = least
    return corrected


def in_words(comparison: Comparison) -> list[str]:
    """Return a comparison in sentences: the difference, what its interval says, the test."""
    first, second, gap, test = comparison.first, comparison.second, comparison.difference, comparison.mcnemar
    personas = f"{gap.clusters} persona{'s' if gap.clusters != 1 else ''}"
    sentences = [
        f"{first} minus {second} ({comparison.score}): {points(gap)}, 95 % interval clustered by "
        f"persona, over {gap.n} shared questions of {personas}.",
        _verdict(comparison),
        f"McNemar's exact test, two-sided: {first} has more credit on {test.better} questions, {second} on "
        f"{test.worse}, both the same on {comparison.ties}; p {p_text(test.p, '= ')}. "
        "It takes questions as independent.",
    ]
    if gap.low is not None and gap.high is not None and (test.p < 0.05) != (gap.low > 0 or gap.high < 0):
        sentences.append("The two disagree: go by the interval, which knows that questions of a persona go together.")
    return sentences


def _verdict(comparison: Comparison) -> str:
    gap = comparison.difference
    if gap.low is None or gap.high is None:
        return "There is one persona, so that there is no interval: nothing can be said beyond these questions."
    if gap.low > 0 or gap.high < 0:
        better = comparison.first if gap.low > 0 else comparison.second
        return f"The interval leaves out 0: {better} scores higher."
    return "The interval holds 0: no difference is shown."


def _matching(group: RunGroup, name: str) -> list[Run]:
    by_name = [run for run in group.runs if name in _names(group, run)]
    if by_name or not os.path.exists(name):  # noqa: PTH110, pathlib raises for names that are too long
        return by_name
    place = Path(name).resolve()
    return [run for run in group.runs if not run.is_computed and run.path.resolve().is_relative_to(place)]


def _names(group: RunGroup, run: Run) -> list[str]:
    """A run has the marks of its row, so that a plain name means the run with the whole history."""
    mark = " (no context)" if not run.has_context else ""
    return [group.label(run) + mark, *(name + mark for name in all_names(run))]


def _compare_on_task(pairs: Sequence[tuple[RunGroup, Run, Run]], first: str, second: str) -> list[Comparison]:
    """Compare the runs of a task: like with like, or else those that share most questions."""
    like = [pair for pair in pairs if pair[1].answers.keys() == pair[2].answers.keys()]
    if not like:
        most = max(len(run.answers.keys() & other.answers.keys()) for _, run, other in pairs)
        like = [pair for pair in pairs if len(pair[1].answers.keys() & pair[2].answers.keys()) == most][:1]
    for name, runs in ((first, [run for _, run, _ in like]), (second, [other for *_, other in like])):
        several = {
            frozenset(run.answers): {r.path for r in runs if r.answers.keys() == run.answers.keys()} for run in runs
        }
        if any(len(paths) > 1 for paths in several.values()):
            paths = ", ".join(sorted(str(path) for own in several.values() for path in own))
            raise UserError(f"--compare {name}: several runs of {like[0][1].task} ({paths})", "name the folder of one")
    return [
        _compare_runs(group, run, other, score)
        for group, run, other in like
        for score in run.scores
        if score in other.scores
    ]


def _compare_runs(group: RunGroup, run: Run, other: Run, score: str) -> Comparison:
    pair = pair_credits(run, other, score)
    shared = len(pair.scores)
    test = statistics.mcnemar(pair.scores, pair.baseline)
    notes = []
    if shared < max(len(run.asked), len(other.asked)):
        lost = f", {len(run.failed)} and {len(other.failed)} failed" if run.failed or other.failed else ""
        notes.append(
            f"Over the {shared} questions that both answered ({len(run.answers)} and {len(other.answers)}{lost})."
        )
    if run.subset:
        notes.append(f"Only questions of {run.subset.file}.")
    return Comparison(
        task=run.task,
        data_digest=run.data_digest,
        score=score,
        first=group.label(run),
        second=group.label(other) if other in group.partners else other.model,
        difference=statistics.paired_difference(*pair[:3]),
        mcnemar=test,
        ties=shared - test.better - test.worse,
        types=_by_type(pair),
        notes=notes,
    )


def _by_type(pair: PairedCredits) -> dict[str, TypeDifference | None]:
    parts: dict[str, tuple[Estimate, McNemar]] = {}
    for kind in QUESTION_TYPES:
        chosen = [i for i, own in enumerate(pair.types) if own == kind]
        if chosen:
            scores, baseline = [pair.scores[i] for i in chosen], [pair.baseline[i] for i in chosen]
            difference = statistics.paired_difference(scores, baseline, [pair.personas[i] for i in chosen])
            parts[kind] = difference, statistics.mcnemar(scores, baseline)
    corrected = dict(zip(parts, holm([test.p for _, test in parts.values()]), strict=True))
    return {kind: TypeDifference(*parts[kind], corrected[kind]) if kind in parts else None for kind in QUESTION_TYPES}
