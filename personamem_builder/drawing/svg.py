"""Write drawings as SVG."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import jinja2

from generation.reading import clean_text
from personamem_builder.drawing.shapes import COLOURS, Drawing
from personamem_builder.markup import markup_environment


def to_svg(drawing: Drawing, title: str, alt: str) -> str:
    """Return a picture as a file of its own, with what it shows in words (`alt`)."""
    return clean_text(_environment().get_template("picture.svg.j2").render(drawing=drawing, title=title, alt=alt))


def page_environment(folder: Path) -> jinja2.Environment:
    """Return an environment for pages with pictures: their templates lie in a folder, `shapes.svg.j2` beside ours."""
    environment = markup_environment(folder, Path(__file__).parent)
    environment.globals["colours"] = COLOURS
    return environment


@cache
def _environment() -> jinja2.Environment:
    return page_environment(Path(__file__).parent)
