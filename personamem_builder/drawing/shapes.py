"""Pictures as a few plain shapes, which `svg` writes as text and `png` paints with matplotlib.

There is one layout for both, so that pages and files show the same picture, and no page needs matplotlib. Text is text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

COLOURS: Final[Mapping[str, tuple[str, str]]] = {
    # For light and dark pages. The marks are colours of Okabe and Ito, darker or lighter where they need contrast.
    "text": ("#1a1a1a", "#e8e8e8"),
    "dim": ("#595959", "#a8adb3"),
    "rule": ("#dcdcdc", "#3a3e43"),
    "back": ("#ffffff", "#16181b"),
    "m0": ("#0072b2", "#5cb8f0"),
    "m1": ("#c24e00", "#ff9a52"),
    "m2": ("#007f5c", "#3fd0a4"),
    "m3": ("#a8487e", "#e9a1c8"),
    "m4": ("#7a6200", "#f0e442"),
    "m5": ("#3d3d8f", "#b3b3ff"),
    "m6": ("#2e7d96", "#9fe3f5"),
    "floor": ("#595959", "#a8adb3"),
}
"""What each look is painted with, on a light and on a dark ground."""

FONT_SIZE: Final = 11
LETTER: Final = 6.5
"""Width of a letter of that size, on average: enough to keep labels apart."""
LINE: Final = 14
Point = tuple[float, float]


class Shape(NamedTuple):
    """A part of a picture, painted in the colour of its `look`.

    Attributes:
        kind: `line` through points, `area` within them, or `text` at the only one.
        anchor: Which end of a text is at its point.
        hollow: Whether an area shows the ground.
        width: Of a line.
        full: The words where `text` is cut, else empty.
    """

    kind: Literal["line", "area", "text"]
    points: tuple[Point, ...]
    look: str
    text: str = ""
    anchor: Literal["start", "middle", "end"] = "start"
    dash: bool = False
    hollow: bool = False
    width: float = 1.0
    full: str = ""


class Drawing(NamedTuple):
    """A picture; its parts go from back to front."""

    width: int
    height: int
    shapes: tuple[Shape, ...]


def label(
    x: float,
    y: float,
    text: str,
    letters: int | None = None,
    anchor: Literal["start", "middle", "end"] = "start",
    look: str = "text",
) -> Shape:
    """Return a text; one of more letters than there is room for loses its middle, as names differ at their ends."""
    if letters is None or len(text) <= letters:
        return Shape("text", ((x, y),), look, text, anchor)
    half = (letters - 1) // 2
    return Shape("text", ((x, y),), look, f"{text[:half]}…{text[-half:]}", anchor, full=text)
