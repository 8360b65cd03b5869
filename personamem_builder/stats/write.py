"""Write the figures of a benchmark to files: pictures, and a page."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import jinja2

from generation.errors import UserError
from generation.files import replacing
from generation.reading import clean_text
from personamem_builder.drawing.png import check_matplotlib, write_png
from personamem_builder.drawing.svg import page_environment, to_svg
from personamem_builder.stats.draw import describe, draw_figures, headline
from personamem_builder.stats.figures import SplitFigures
from personamem_builder.stats.tables import tables_of


def svg_of(figures: SplitFigures) -> str:
    """Return the picture of a split as SVG; the same figures give the same text."""
    return to_svg(draw_figures(figures), headline(figures), describe(figures))


def write_pictures(figures: Sequence[SplitFigures], folder: Path) -> list[Path]:
    """Write a picture of each split, as SVG and PNG; return the files.

    Raises:
        UserError: matplotlib is not installed, or the folder cannot be written.
    """
    check_matplotlib()
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for one in figures:
            path = folder / f"{one.split}.svg"
            with replacing(path) as part:
                part.write_text(svg_of(one), encoding="utf-8")
            write_png(draw_figures(one), path.with_suffix(".png"))
            written += [path, path.with_suffix(".png")]
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error.strerror}", "give another --plots") from error
    return written


def write_page(figures: Sequence[SplitFigures], source: str, path: Path) -> None:
    """Write a page with all tables and pictures; it needs no other file, no network and no script.

    Raises:
        UserError: The file cannot be written.
    """
    pictures = [(draw_figures(one), headline(one), describe(one)) for one in figures]
    text = _page().render(source=source, tables=tables_of(figures), pictures=pictures)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as part:
            part.write_text(clean_text(text), encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}", "give another --html") from error


@cache
def _page() -> jinja2.Template:
    return page_environment(Path(__file__).parent).get_template("page.html.j2")
