"""Accuracy over the number of sessions: splits of 1, 2, 3, … sessions of one dataset, side by side."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from personamem_builder import statistics
from personamem_builder.report.breakdown import ACCURACY, Analysis, ModelEntry
from personamem_builder.report.groups import RunGroup
from personamem_builder.statistics import Estimate

_SPLIT: Final = re.compile(r"_(\d+)blocks")
_NOTE: Final = (
    "Sessions of a context. The history of each length begins with that of the one before; each length has its own "
    "questions."
)


def session_curves(tables: Iterable[tuple[RunGroup, Sequence[ModelEntry]]]) -> list[Analysis]:
    """Return accuracy over sessions, of each setting and dataset of which whole runs on several lengths are there.

    Args:
        tables: Runs that have a table together, each with the models and floors that its analyses show.

    Returns:
        For each an analysis with a bin for each length; a model has None where it was not run.
    """
    lengths: dict[tuple[str, str, str], dict[int, Sequence[ModelEntry]]] = {}
    for group, entries in tables:
        first, found = group.runs[0], _SPLIT.search(group.task)
        if found and entries and group.limit is None:
            name = _SPLIT.sub("_blocks", group.task)
            key = (name, first.data_digest or "", first.subset.sha256 if first.subset else "")
            lengths.setdefault(key, {})[int(found[1])] = entries
    return [_curve(name, dict(sorted(own.items()))) for (name, *_), own in lengths.items() if len(own) > 1]


def _curve(name: str, lengths: dict[int, Sequence[ModelEntry]]) -> Analysis:
    labels = dict.fromkeys(entry.label for entries in lengths.values() for entry in entries)
    by_length = [{entry.label: entry for entry in entries} for entries in lengths.values()]
    chances = []
    for entries in lengths.values():
        answers = {id_: answer for entry in entries for id_, answer in entry.answers.items()}
        chances.append(sum(1 / answer.n_options for answer in answers.values()) / len(answers))
    return Analysis(
        f"{name}-over-sessions",
        f"Accuracy over sessions, {name}",
        ACCURACY,
        tuple(map(str, lengths)),
        {label: tuple(_mean(own.get(label)) for own in by_length) for label in labels},
        tuple(chances),
        shape="line",
        note=_NOTE,
    )


def _mean(entry: ModelEntry | None) -> Estimate | None:
    if entry is None:
        return None
    answers = entry.answers.values()
    return statistics.overall([a.credits[entry.score] for a in answers], [a.persona_id for a in answers])
