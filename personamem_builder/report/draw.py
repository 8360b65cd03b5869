"""Lay an analysis out as a picture.

A picture is as wide as a phone. Models differ in the shape of their marks as well as in colour.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from personamem_builder.drawing.shapes import LETTER, LINE, Drawing, Point, Shape, label
from personamem_builder.report.breakdown import FEW, Analysis
from personamem_builder.statistics import Estimate

WIDTH: Final = 360
MODELS: Final = 7
"""Models in a picture; its table has all of them."""

_LABEL_LETTERS: Final = 25
_LEGEND_LETTERS: Final = 50
_STEP: Final = 9
_PLOT_HEIGHT: Final = 170
_RIGHT: Final = 12
_CORNERS: Final[Mapping[str, Sequence[tuple[float, float]]]] = {
    "circle": [(math.cos(a * math.pi / 8), math.sin(a * math.pi / 8)) for a in range(16)],
    "square": [(-0.85, -0.85), (0.85, -0.85), (0.85, 0.85), (-0.85, 0.85)],
    "up": [(0, -1.15), (1.05, 0.8), (-1.05, 0.8)],
    "diamond": [(0, -1.25), (1.25, 0), (0, 1.25), (-1.25, 0)],
    "down": [(0, 1.15), (1.05, -0.8), (-1.05, -0.8)],
    "plus": [
        *((-0.4, -1.2), (0.4, -1.2), (0.4, -0.4), (1.2, -0.4), (1.2, 0.4), (0.4, 0.4)),
        *((0.4, 1.2), (-0.4, 1.2), (-0.4, 0.4), (-1.2, 0.4), (-1.2, -0.4), (-0.4, -0.4)),
    ],
    "bar": [(-0.45, -1.3), (0.45, -1.3), (0.45, 1.3), (-0.45, 1.3)],
    "left": [(-1.15, 0), (0.8, -1.05), (0.8, 1.05)],
}
_MARKS: Final = ("circle", "square", "up", "diamond", "down", "plus", "bar")
_FLOOR_MARK: Final = "left"


class _Series(NamedTuple):
    label: str
    values: Sequence[Estimate | None]
    look: str
    mark: str


def draw(analysis: Analysis, floors: frozenset[str] = frozenset(), *, titled: bool = False) -> Drawing:
    """Lay an analysis out: a mark for each mean, a bar for its interval, and what is expected.

    Args:
        analysis: The means; where there are more than `MODELS` models, the first are drawn.
        floors: Which of its series are floors; the first of them is drawn, in grey.
        titled: Whether the picture bears its title, as one that stands alone should.
    """
    series = _chosen(analysis, floors)
    heads = [*([analysis.title] if titled else []), f"{analysis.unit} in %", "95 % intervals, clustered by persona"]
    legend, top = _legend(analysis, series, heads)
    layouts = {"line": _columns, "points": _scatter, "rows": _rows}
    body, height = layouts[analysis.shape](analysis, series, top)
    return Drawing(WIDTH, height, (*body, *legend))


def shown(analysis: Analysis, floors: frozenset[str] = frozenset()) -> list[str]:
    """Return the models that the picture of an analysis has."""
    return [series.label for series in _chosen(analysis, floors)]


def describe(analysis: Analysis, floors: frozenset[str] = frozenset()) -> str:
    """Return a picture in words, for those who do not see it."""
    names = shown(analysis, floors)
    means = [e.value for name in names for e in analysis.series[name] if e is not None]
    span = f" Means go from {100 * min(means):.0f} to {100 * max(means):.0f} %." if means else ""
    return (
        f"{analysis.title}: {analysis.unit} in per cent for {', '.join(names) or 'nobody'}, with 95 % intervals, "
        f"in {len(analysis.bins)} groups from {analysis.bins[0]} to {analysis.bins[-1]}.{span} "
        "All numbers are in the table below."
    )


def _chosen(analysis: Analysis, floors: frozenset[str]) -> list[_Series]:
    models = [label for label in analysis.series if label not in floors][:MODELS]
    chosen = [_Series(label, analysis.series[label], f"m{i}", _MARKS[i]) for i, label in enumerate(models)]
    floor = next((label for label in analysis.series if label in floors), None)
    return chosen if floor is None else [*chosen, _Series(floor, analysis.series[floor], "floor", _FLOOR_MARK)]


def _is_few(estimate: Estimate) -> bool:
    """Say whether a mean is of few questions; quoted scores do not say of how many they are, and have 0."""
    return 0 < estimate.n < FEW


def _legend(analysis: Analysis, series: Sequence[_Series], heads: Sequence[str]) -> tuple[list[Shape], float]:
    shapes: list[Shape] = []
    y = 10.0
    for head in heads:
        shapes.append(label(2, y + 4, head, _LEGEND_LETTERS + 2, look="text" if head == analysis.title else "dim"))
        y += LINE + 2
    for one in series:
        shapes += [*_mark(one, 8, y, hollow=False), label(20, y + 4, one.label, _LEGEND_LETTERS)]
        y += LINE
    if any(value is not None for value in analysis.expected):
        shapes += [
            Shape("line", ((2, y), (14, y)), "text", dash=True),
            label(20, y + 4, analysis.expects, _LEGEND_LETTERS),
        ]
        y += LINE
    if any(_is_few(e) for one in series for e in one.values if e is not None):
        hollow = Shape("area", tuple((8 + 4 * x, y + 4 * dy) for x, dy in _CORNERS["circle"]), "dim", hollow=True)
        shapes += [hollow, label(20, y + 4, f"hollow: fewer than {FEW} questions", _LEGEND_LETTERS)]
        y += LINE
    return shapes, y + 4


def _columns(analysis: Analysis, series: Sequence[_Series], top: float) -> tuple[list[Shape], int]:
    """Lay out bins from left to right, means from bottom to top, with a line through those of a model."""
    left, bottom = 38.0, top + 10 + _PLOT_HEIGHT
    right, most = WIDTH - _RIGHT, 1.0
    width = (right - left) / len(analysis.bins)

    def at(index: float, value: float) -> Point:
        return left + width * (index + 0.5), bottom - _PLOT_HEIGHT * min(value, most) / most

    shapes: list[Shape] = []
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = at(0, share)[1]
        shapes.append(Shape("line", ((left, y), (right, y)), "rule"))
        shapes.append(label(left - 5, y + 4, f"{100 * share:.0f}", anchor="end", look="dim"))
    slanted = max(map(len, analysis.bins)) * LETTER > width - 4
    for i, name in enumerate(analysis.bins):
        # Labels that are too wide for their bin stand in two rows, in turn.
        row = i % 2 if slanted else 0
        x = at(i, 0)[0]
        shapes.append(Shape("line", ((x, bottom), (x, bottom + 4 + row * LINE)), "rule"))
        shapes.append(label(x, bottom + 15 + row * LINE, name, anchor="middle", look="dim"))
    expected = [(i, value) for i, value in enumerate(analysis.expected) if value is not None]
    if expected:
        first, last = expected[0], expected[-1]
        points = (at(first[0] - 0.5, first[1]), *(at(*pair) for pair in expected), at(last[0] + 0.5, last[1]))
        if analysis.name == "calibration":  # there it is the diagonal
            points = (at(-0.5, 0), at(len(analysis.bins) - 0.5, 1))
        shapes.append(Shape("line", points, "text", dash=True))
    gap = min(6.0, width * 0.8 / max(1, len(series)))
    for number, one in enumerate(series):
        shift = (number - (len(series) - 1) / 2) * gap
        places = [(at(i, e.value)[0] + shift, e) for i, e in enumerate(one.values) if e is not None]
        line = tuple((x, at(0, e.value)[1]) for x, e in places)
        if len(line) > 1:
            shapes.append(Shape("line", line, one.look, dash=one.look == "floor"))
        for x, e in places:
            if e.low is not None and e.high is not None:
                shapes.append(Shape("line", ((x, at(0, e.low)[1]), (x, at(0, e.high)[1])), one.look, width=1.2))
        for x, e in places:
            shapes += _mark(one, x, at(0, e.value)[1], hollow=_is_few(e), size=3.2)
    return shapes, math.ceil(bottom + 22 + (LINE if slanted else 0))


def _scatter(analysis: Analysis, series: Sequence[_Series], top: float) -> tuple[list[Shape], int]:
    """Lay out bins at their places from left to right, on a scale of powers of ten that begins with 0."""
    left, bottom = 38.0, top + 10 + _PLOT_HEIGHT
    right = WIDTH - _RIGHT
    first = max(0, min((math.floor(math.log10(p)) for p in analysis.places if p >= 1), default=0))
    last = max((math.ceil(math.log10(p)) for p in analysis.places if p > 1), default=first)
    last = max(last, first + 1)
    width = (right - left) / (last - first + 1)  # one step for nothing at all

    def at(place: float, value: float) -> Point:
        step = max(math.log10(place) - first + 1, 0.0) if place > 0 else 0.0
        return left + 6 + (width - 2) * step, bottom - _PLOT_HEIGHT * min(value, 1.0)

    shapes: list[Shape] = []
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = at(0, share)[1]
        shapes.append(Shape("line", ((left, y), (right, y)), "rule"))
        shapes.append(label(left - 5, y + 4, f"{100 * share:.0f}", anchor="end", look="dim"))
    for place in (0, *(10**power for power in range(first, last + 1))):
        x = at(place, 0)[0]
        shapes.append(Shape("line", ((x, bottom), (x, bottom + 4)), "rule"))
        shapes.append(label(x, bottom + 15, f"{place:,}", anchor="middle", look="dim"))
    for one in series:
        for place, e in zip(analysis.places, one.values, strict=True):
            if e is not None and e.low is not None and e.high is not None:
                shapes.append(Shape("line", (at(place, e.low), at(place, e.high)), one.look, width=1.2))
        for place, e in zip(analysis.places, one.values, strict=True):
            if e is not None:
                shapes += _mark(one, *at(place, e.value), hollow=_is_few(e), size=3.2)
    return shapes, math.ceil(bottom + 22)


def _rows(analysis: Analysis, series: Sequence[_Series], top: float) -> tuple[list[Shape], int]:
    """Lay out bins from top to bottom, means from left to right."""
    left = 10 + LETTER * min(_LABEL_LETTERS, max(map(len, analysis.bins)))
    right, top = WIDTH - _RIGHT - 8.0, top + 16
    present = [[one for one in series if one.values[i] is not None] for i in range(len(analysis.bins))]
    heights = [max(LINE + 2, _STEP * len(own) + 9) for own in present]
    bottom = top + sum(heights)

    def at(value: float) -> float:
        return left + (right - left) * value

    shapes: list[Shape] = []
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        shapes.append(Shape("line", ((at(share), top), (at(share), bottom)), "rule"))
        shapes.append(label(at(share), top - 5, f"{100 * share:.0f}", anchor="middle", look="dim"))
    y = top
    for i, (name, own, height) in enumerate(zip(analysis.bins, present, heights, strict=True)):
        shapes.append(Shape("line", ((0, y), (right, y)), "rule"))
        shapes.append(label(2, y + height / 2 + 4, name, _LABEL_LETTERS))
        expected = analysis.expected[i]
        if expected is not None:
            shapes.append(Shape("line", ((at(expected), y + 1), (at(expected), y + height - 1)), "text", dash=True))
        for number, one in enumerate(own):
            estimate = one.values[i]
            assert estimate is not None
            middle = y + height / 2 + _STEP * (number - (len(own) - 1) / 2)
            if estimate.low is not None and estimate.high is not None:
                line = ((at(estimate.low), middle), (at(estimate.high), middle))
                shapes.append(Shape("line", line, one.look, width=1.6))
            shapes += _mark(one, at(estimate.value), middle, hollow=_is_few(estimate))
        y += height
    shapes.append(Shape("line", ((0, bottom), (right, bottom)), "rule"))
    return shapes, math.ceil(bottom + 6)


def _mark(series: _Series, x: float, y: float, *, hollow: bool, size: float = 3.8) -> Iterator[Shape]:
    yield Shape(
        "area", tuple((x + size * dx, y + size * dy) for dx, dy in _CORNERS[series.mark]), series.look, hollow=hollow
    )
