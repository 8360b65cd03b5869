"""The pages of a leaderboard: the tables, and all paired differences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final, Literal, NamedTuple

import jinja2

from generation.reading import clean_text
from personamem_builder.markup import markup_environment
from personamem_builder.report.numbers import percent
from personamem_builder.report.one_model import SCORES
from personamem_builder.report.rows import ScoreRow
from personamem_builder.schema import SHORT_TYPES
from personamem_builder.space.boards import Board, Entry, Leaderboard
from personamem_builder.statistics import Estimate

PAGES: Final = ("space.css", "leaderboard.js")
"""Files that are the same for every leaderboard."""

_HERE: Final = Path(__file__).parent
_SLOTS: Final = 6
"""Groups drawn side by side; where more overlap, the numbers alone say who belongs together."""


class SpaceHead(NamedTuple):
    """What all pages say of a Space.

    Attributes:
        title: What it is called.
        name: What the dataset is called.
        version: Of the dataset.
        digest: Of the dataset.
        newest: Date of the newest results.
        links: Addresses elsewhere, by what they lead to.
        has_viewer: Whether it has the viewer.
        audit_passed: Whether the dataset passed its audit; None where it was not audited.
    """

    title: str
    name: str
    version: str
    digest: str
    newest: str
    links: Mapping[str, str]
    has_viewer: bool
    audit_passed: bool | None

    @property
    def has_audit(self) -> bool:
        """Whether there is an audit."""
        return self.audit_passed is not None


class Bar(NamedTuple):
    """The part of a group's line that a row shows: in which slot, and whether the line begins or ends there."""

    slot: int
    begins: bool = False
    ends: bool = False


class Line(NamedTuple):
    """A row of the main table; `entry` is that of a ranked model, `bars` are drawn beside it."""

    kind: Literal["model", "floor", "chance", "beside"]
    row: ScoreRow
    name: str
    entry: Entry | None = None
    bars: Sequence[Bar] = ()


class SpaceColumn(NamedTuple):
    """A column of the main table after the score."""

    head: str
    meaning: str
    of_entry: Callable[[Entry], str]
    of_row: Callable[[ScoreRow], str]


def render_index(space: SpaceHead, leaderboard: Leaderboard) -> str:
    """Return the first page: XML, so that tests can parse it, and the same for the same leaderboard."""
    boards = leaderboard.boards
    template = _environment().get_template("index.html.j2")
    meanings = {column.head: column.meaning for board in boards for column in columns(board)}
    return clean_text(
        template.render(
            space=space, boards=boards, elsewhere=leaderboard.apart, filters=_filters(boards), meanings=meanings
        )
    )


def render_differences(space: SpaceHead, leaderboard: Leaderboard) -> str:
    """Return the page of all paired differences."""
    template = _environment().get_template("differences.html.j2")
    return clean_text(template.render(space=space, boards=leaderboard.boards))


def lines(board: Board) -> list[Line]:
    """Return the rows of the main table, best first: models, the best floor, chance, and what stands beside."""
    made = [Line("model", entry.row, entry.row.label, entry) for entry in board.entries]
    made += [Line("floor", row, f"best {row.model}") for row in board.floors[:1]]
    made += [Line("chance", board.chance, "chance")]
    made += [Line("beside", row, row.label) for row in board.beside]
    # Sorting is stable: models keep their order.
    made.sort(key=lambda line: -line.row.overall.value if line.row.overall else 1.0)
    found, place = [], -1
    slots = _slots(board.ranking.groups)
    for line in made:
        place += line.kind == "model"
        found.append(line._replace(bars=_bars(board.ranking.groups, slots, place, is_model=line.kind == "model")))
    return found


class TypeFloor(NamedTuple):
    """The best floor on the questions of a type."""

    name: str
    estimate: Estimate


def type_floors(board: Board) -> dict[str, TypeFloor]:
    """Return the best floor of each question type that there are questions of."""
    found: dict[str, TypeFloor] = {}
    for row in board.floors:
        for kind, own in row.types.items():
            if own and (kind not in found or own.value > found[kind].estimate.value):
                found[kind] = TypeFloor(row.model.removeprefix("floor: "), own)
    return found


def _slots(groups: Sequence[tuple[int, int]]) -> list[int]:
    """Return a slot for the line of each group, so that lines that overlap are side by side."""
    ends: list[int] = []
    slots = []
    for first, last in groups:
        slot = next((number for number, end in enumerate(ends) if end < first), len(ends))
        ends[slot : slot + 1] = [last]
        slots.append(slot)
    return slots


def _bars(groups: Sequence[tuple[int, int]], slots: Sequence[int], place: int, *, is_model: bool) -> list[Bar]:
    """Return the parts of group lines in the row of a model, or in one below it that is no model's."""
    if max(slots) >= _SLOTS:
        return []
    if not is_model:
        return [Bar(slot) for (first, last), slot in zip(groups, slots, strict=True) if first <= place < last]
    return [
        Bar(slot, place == first, place == last)
        for (first, last), slot in zip(groups, slots, strict=True)
        if first <= place <= last
    ]


def columns(board: Board) -> list[SpaceColumn]:
    """Return the columns of the main table after the score; those that say nothing of any model are left out."""
    entries = board.entries
    made = [
        SpaceColumn("behind first", "Score minus that of the first model, paired by question", _behind, _dash),
        SpaceColumn("over floor", "Score minus that of the best floor, paired by question", _over_floor, _dash),
        SpaceColumn("mean of types", "Mean of the scores by question type", _of_row(_mean), _mean),
    ]
    gains: list[tuple[str, str, Callable[[ScoreRow], str]]] = [
        ("context gain", "Share of what it missed without the history that it gets with it", _gain),
        ("to oracle", "How much more the same model scores with the evidence alone", _oracle),
        ("cut or refused", "Share of answers that were cut or refused", _lost),
        ("invalid", "Share of answers from which no letter could be read", _invalid),
        ("skipped", "Share of questions too long to ask, counted as wrong", _skipped),
    ]
    for head, meaning, cell in gains:
        if any(cell(entry.row) != "–" for entry in entries):
            made.append(SpaceColumn(head, meaning, _of_row(cell), cell))
    return made


def _of_row(cell: Callable[[ScoreRow], str]) -> Callable[[Entry], str]:
    return lambda entry: cell(entry.row)


def _dash(row: ScoreRow) -> str:
    return "–"


def _mean(row: ScoreRow) -> str:
    return _percent(row.macro)


def _behind(entry: Entry) -> str:
    return _percent(entry.behind, "+")


def _over_floor(entry: Entry) -> str:
    over = entry.over_floor
    if over is None:
        return "–"
    mark = "≈ " if not over.differs else "▼ " if over.difference.value < 0 else ""
    return mark + _percent(over.difference, "+")


def _gain(row: ScoreRow) -> str:
    return _percent(row.context_gain)


def _oracle(row: ScoreRow) -> str:
    return _percent(row.oracle_gap)


def _lost(row: ScoreRow) -> str:
    return _share(row.cut_rate + row.refused_rate)


def _invalid(row: ScoreRow) -> str:
    return _share(row.invalid_rate)


def _skipped(row: ScoreRow) -> str:
    return _share(row.skipped_rate)


def _share(share: float) -> str:
    return f"{100 * share:.1f}" if share else "–"


def _filters(boards: Sequence[Board]) -> list[tuple[str, str, list[tuple[str, str]]]]:
    """Return the choices that there are: id, name, and values with their names."""
    kinds = {"history": "whole history", "memory": "with a memory"}
    asked = {kind for board in boards for entry in board.entries for kind, own in entry.row.types.items() if own}
    choices = [
        ("split", "split", [(split, split) for split in dict.fromkeys(board.split for board in boards)]),
        ("setting", "setting", [(one, one) for one in dict.fromkeys(board.setting for board in boards)]),
        ("kind", "shown", [(k, kinds[k]) for k in dict.fromkeys(_kind(board) for board in boards)]),
        ("type", "question type", [(kind, short) for kind, short in SHORT_TYPES.items() if kind in asked]),
    ]
    return [choice for choice in choices if len(choice[2]) > 1]


def _kind(board: Board) -> str:
    return "memory" if board.has_memory else "history"


def _percent(estimate: Estimate | None, sign: str = "") -> str:
    """Return a mean and its interval as a page shows them, see `numbers.percent`."""
    return percent(estimate, sign).replace("-", "−") if estimate else "–"


def _signed(value: float) -> str:
    """Return points with their sign, and no sign of zero."""
    shown = round(value, 1) + 0.0
    return f"{shown:+.1f}".replace("-", "−") if shown else "0.0"


@cache
def _environment() -> jinja2.Environment:
    environment = markup_environment(_HERE)
    environment.globals.update(
        columns=columns,
        lines=lines,
        percent=_percent,
        scores=SCORES,
        signed=_signed,
        type_floors=type_floors,
        types=SHORT_TYPES,
    )
    return environment


def page_file(name: str) -> bytes:
    """Return one of `PAGES`."""
    return (_HERE / name).read_bytes()
