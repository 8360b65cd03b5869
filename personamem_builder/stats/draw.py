"""Lay the figures of a split out as a picture: bars for all counts of questions, in two columns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from personamem_builder.drawing.shapes import LETTER, LINE, Drawing, Shape, label
from personamem_builder.stats.figures import SplitFigures

_WIDTH: Final = 360
"""Of a column."""
_GAP: Final = 20
_ROW: Final = 17
_MARGIN: Final = 10
_NAME_LETTERS: Final = 26
_VALUE_LETTERS: Final = 13
_LEFT: Final = ("type", "topic")
"""What stands in the first column; all other counts stand in the second."""


def draw_figures(figures: SplitFigures) -> Drawing:
    """Return a picture of a split."""
    shapes = [label(_MARGIN, _MARGIN + LINE, headline(figures))]
    bottoms = []
    for number, is_left in enumerate((True, False)):
        y = 2.0 * _MARGIN + LINE
        for kind, counts in figures.counts.items():
            if (kind in _LEFT) == is_left:
                own, y = _bars(f"questions by {kind}", counts, _MARGIN + number * (_WIDTH + _GAP), y + _MARGIN)
                shapes += own
        bottoms.append(y)
    return Drawing(2 * (_WIDTH + _MARGIN) + _GAP, math.ceil(max(bottoms)) + _MARGIN, tuple(shapes))


def headline(figures: SplitFigures) -> str:
    """Return what a picture is of."""
    contexts = f", {figures.contexts:,} contexts" if figures.contexts else ""
    return f"{figures.split}: {figures.questions:,} questions of {figures.personas:,} personas{contexts}"


def describe(figures: SplitFigures) -> str:
    """Return the picture in words, for those who do not see it."""
    parts = [
        f"by {kind}: {', '.join(f'{name} {count}' for name, count in counts.items())}"
        for kind, counts in figures.counts.items()
    ]
    return f"{headline(figures)}; questions {'; '.join(parts)}."


def _bars(title: str, counts: Mapping[str, int], x: float, y: float) -> tuple[list[Shape], float]:
    """Return bars from top to bottom, and where they end."""
    total, most = sum(counts.values()), max(counts.values())
    left = x + LETTER * min(_NAME_LETTERS, max(map(len, counts))) + 4
    room = x + _WIDTH - left - LETTER * _VALUE_LETTERS
    shapes = [label(x, y + LINE, title, look="dim")]
    y += LINE + 6
    for name, count in counts.items():
        right = left + room * count / max(1, most)
        corners = ((left, y + 3), (right, y + 3), (right, y + _ROW - 3), (left, y + _ROW - 3))
        shapes += [
            label(x, y + _ROW - 4, name, _NAME_LETTERS),
            Shape("area", corners, "m0"),
            label(right + 5, y + _ROW - 4, f"{count:,} ({count / total:.1%})", look="dim"),
        ]
        y += _ROW
    return shapes, y
