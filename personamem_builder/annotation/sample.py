"""Choosing the questions that people rate: spread over question types and over topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from generation.seeds import rng_for
from personamem_builder.schema import QuestionRow

_Cell = tuple[str, str]


def draw_sample(
    rows: Iterable[QuestionRow], size: int, *, per_topic: int | None = None, per_type: int | None = None, seed: int = 0
) -> list[QuestionRow]:
    """Draw questions one after another, each of the type that has fewest so far.

    Among such types it is about the topic that has fewest so far, and among such questions the seed and the question's
    id decide. So the order of the rows does not matter, and a smaller sample is the beginning of a larger one: raters
    who stop early have rated a balanced part. A message that a persona sends in several places is drawn once.

    Returns:
        The questions in the order drawn; fewer than `size` where the limits, or the questions, allow no more.
    """
    cells = _ranked(rows, seed)
    by_topic: Counter[str] = Counter()
    by_type: Counter[str] = Counter()
    asked: set[tuple[int, str]] = set()

    def is_open(cell: _Cell) -> bool:
        queue, (topic, kind) = cells[cell], cell
        while queue and _message(queue[-1][1]) in asked:
            queue.pop()
        return (
            bool(queue)
            and (per_topic is None or by_topic[topic] < per_topic)
            and (per_type is None or by_type[kind] < per_type)
        )

    drawn: list[QuestionRow] = []
    while len(drawn) < size and (open_cells := [cell for cell in cells if is_open(cell)]):
        cell = min(open_cells, key=lambda one: (by_type[one[1]], by_topic[one[0]], cells[one][-1][0], one))
        row = cells[cell].pop()[1]
        drawn.append(row)
        asked.add(_message(row))
        by_topic[cell[0]] += 1
        by_type[cell[1]] += 1
    return drawn


def _ranked(rows: Iterable[QuestionRow], seed: int) -> dict[_Cell, list[tuple[float, QuestionRow]]]:
    """Return the questions of each topic and type, the one to draw first last."""
    ranked = [(rng_for(seed, "annotation", "sample", row["question_id"]).random(), row) for row in rows]
    cells: dict[_Cell, list[tuple[float, QuestionRow]]] = {}
    for rank, row in sorted(ranked, key=lambda pair: (pair[0], pair[1]["question_id"]), reverse=True):
        cells.setdefault((row["topic"], row["question_type"]), []).append((rank, row))
    return cells


def _message(row: QuestionRow) -> tuple[int, str]:
    return row["persona_id"], row["user_question_or_message"]
