"""Paint drawings as PNG, with matplotlib."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from generation.errors import UserError
from generation.files import replacing
from generation.resources import install_hint
from personamem_builder.drawing.shapes import COLOURS, FONT_SIZE, Drawing, Shape

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@cache
def check_matplotlib() -> None:
    """Raise `UserError` if there is no matplotlib."""
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise UserError("--plots needs matplotlib", f"{install_hint('plots')}, or use --html alone") from error
    mpl.use("Agg")


def write_png(drawing: Drawing, path: Path) -> None:
    """Paint a picture, always with the same bytes for one version of matplotlib.

    Raises:
        UserError: There is no matplotlib.
    """
    import logging
    import warnings

    check_matplotlib()
    from matplotlib import pyplot as plt

    figure = plt.figure(figsize=(drawing.width / 100, drawing.height / 100), dpi=200)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(0, drawing.width)
    axes.set_ylim(drawing.height, 0)
    for shape in drawing.shapes:
        _paint(axes, shape)
    logger = logging.getLogger("matplotlib.font_manager")
    level = logger.level
    try:
        logger.setLevel(logging.ERROR)
        with replacing(path) as part, warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of letters that no font has
            figure.savefig(part, format="png", metadata={"Software": None}, facecolor=COLOURS["back"][0])
    finally:
        logger.setLevel(level)
        plt.close(figure)


def _paint(axes: Axes, shape: Shape) -> None:
    from matplotlib.patches import Polygon

    colour = COLOURS[shape.look][0]
    points = 0.72  # a hundredth of an inch, in which the picture is laid out
    if shape.kind == "line":
        xs, ys = zip(*shape.points, strict=True)
        dashes = (0, (4, 3)) if shape.dash else "solid"
        axes.plot(xs, ys, color=colour, linewidth=shape.width * points, linestyle=dashes, solid_capstyle="butt")
    elif shape.kind == "area":
        face = COLOURS["back"][0] if shape.hollow else colour
        axes.add_patch(Polygon(shape.points, closed=True, facecolor=face, edgecolor=colour, linewidth=points, zorder=3))
    else:
        [(x, y)] = shape.points
        sides: Mapping[str, Literal["left", "center", "right"]] = {"start": "left", "middle": "center", "end": "right"}
        axes.text(
            x,
            y,
            shape.text,
            color=colour,
            fontsize=FONT_SIZE * points * 0.92,
            ha=sides[shape.anchor],
            va="baseline",
            parse_math=False,
        )
