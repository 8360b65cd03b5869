"""Two memory systems on the same questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from generation.errors import UserError
from personamem_builder import statistics
from personamem_builder.dataset.locate import resolve_data
from personamem_builder.memory.budget import check_budget
from personamem_builder.memory.measures import Measure, retrievals_in_store, store_measures
from personamem_builder.memory.runner import read_split
from personamem_builder.memory.store import MemoryStore
from personamem_builder.schema import QuestionRow

_ROOM: Final = 100.0
"""Makes values so small that no end of an interval is clipped before it is scaled back."""


class MeasureDifference(NamedTuple):
    """A measure of two systems, as means over the `n` questions that both have, and the second minus the first.

    `low` and `high` are the 95 % interval of the difference, clustered by persona; None with fewer than two personas.
    """

    name: str
    unit: str
    first: float
    second: float
    difference: float
    low: float | None
    high: float | None
    n: int


def differences(
    first: Sequence[Measure], second: Sequence[Measure], rows: Mapping[str, QuestionRow]
) -> list[MeasureDifference]:
    """Compare two systems question by question: a line for each measure that both have; `rows` are by id."""
    others = {measure.name: measure for measure in second}
    lines = []
    for measure in first:
        other = others.get(measure.name)
        keys = [key for key in measure.values if other is not None and key in other.values]
        if other is None or not keys:
            continue
        a, b = [measure.values[key] for key in keys], [other.values[key] for key in keys]
        # Scaled into [-1, 1], to which the interval of a difference of credits is clipped.
        scale = max(1.0, *(abs(x - y) for x, y in zip(a, b, strict=True))) * _ROOM
        found = statistics.paired_difference(
            [y / scale for y in b], [x / scale for x in a], [rows[key]["persona_id"] for key in keys]
        )
        low, high = (None if end is None else end * scale for end in (found.low, found.high))
        if measure.unit == "share":
            low, high = (None if end is None else min(max(end, -1.0), 1.0) for end in (low, high))
        means = sum(a) / len(a), sum(b) / len(b)
        lines.append(MeasureDifference(measure.name, measure.unit, *means, means[1] - means[0], low, high, len(keys)))
    return lines


class Comparison(NamedTuple):
    """Two runs of `personamem memory run`, and a line for each measure that both have."""

    stores: tuple[MemoryStore, MemoryStore]
    differences: list[MeasureDifference]


def compare_stores(first: Path, second: Path, data: str | None, budget: int | None = None) -> Comparison:
    """Compare what two systems found, by the folders of their results, over the questions that both were asked.

    Of what either found, what a `budget` of tokens has no room for does not count, see `within_budget`.

    Raises:
        UserError: They are of different data or splits, or of other data than `data` names, see `resolve_data`.
    """
    check_budget(budget)
    stores = MemoryStore(first), MemoryStore(second)
    for key in ("data_digest", "split"):
        if stores[0].about[key] != stores[1].about[key]:
            raise UserError(
                f"{first} and {second} cannot be compared: their {key} differs",
                "run both systems on the same data and split",
            )
    split = stores[0].about["split"]
    source = resolve_data(data, splits=[split])
    if source.digest != stores[0].about["data_digest"]:
        raise UserError(f"the systems were run on other data than {source.origin}", "name these data with --data")
    rows, contexts = read_split(source.folder, split)
    one, other = (store_measures(store, retrievals_in_store(store, rows, contexts, budget)) for store in stores)
    return Comparison(stores, differences(one, other, {row["question_id"]: row for row in rows}))
