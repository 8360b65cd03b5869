"""Write a report as one page for a browser, and its plots as files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import jinja2

from generation.files import replacing
from generation.reading import clean_text
from personamem_builder.drawing.png import write_png
from personamem_builder.drawing.shapes import Drawing
from personamem_builder.drawing.svg import page_environment, to_svg
from personamem_builder.report import columns, draw, error_labels
from personamem_builder.report.breakdown import FEW, Analysis, LeftOut
from personamem_builder.report.compare import in_words
from personamem_builder.report.numbers import percent
from personamem_builder.report.report import Report, Section

_PAGE: Final = "page.html.j2"


class Plot(NamedTuple):
    """A picture of an analysis, the same in words, and the models that are in its table only."""

    analysis: Analysis
    drawing: Drawing
    alt: str
    not_drawn: list[str]


def to_html(report: Report) -> str:
    """Return a page with all that a report has; it needs no other file, no network and no script.

    The same report gives the same text.
    """
    # Names of files and texts of datasets may hold what no encoder takes.
    return clean_text(_environment().get_template(_PAGE).render(report=report, plots=_plots, plot_of=_plot))


def write_plots(report: Report, folder: Path) -> list[Path]:
    """Write each plot of a report as SVG, with a PNG beside it; returns the SVG files.

    Raises:
        UserError: There is no matplotlib.
    """
    written = []
    for name, plot in _pictures(report):
        path = folder / f"{name}.svg"
        with replacing(path) as part:
            part.write_text(to_svg(plot.drawing, plot.analysis.title, plot.alt), encoding="utf-8")
        write_png(plot.drawing, path.with_suffix(".png"))
        written.append(path)
    return written


def _pictures(report: Report) -> Iterator[tuple[str, Plot]]:
    """Yield every plot of a report, with what its file is called."""
    for section, stem in zip(report.sections, _stems(report), strict=True):
        for plot in _plots(section, titled=True):
            yield f"{stem}-{plot.analysis.name}", plot
    for curve in report.curves:
        yield _file_name(curve.name), _plot(curve, report.floors, titled=True)


def _stems(report: Report) -> Iterator[str]:
    """Yield what the names of a section's files begin with: the task, numbered where it has several tables."""
    many = Counter(section.table.task for section in report.sections)
    seen: Counter[str] = Counter()
    for section in report.sections:
        task = section.table.task
        seen[task] += 1
        name = _file_name(task)
        yield f"{name}-{seen[task]}" if many[task] > 1 else name


def _file_name(name: str) -> str:
    return "".join(char if char.isalnum() or char in "-_." else "-" for char in name)


def _plots(section: Section, *, titled: bool = False) -> list[Plot]:
    made = [section.headline, *(result for result in section.results if isinstance(result, Analysis))]
    return [_plot(one, section.floors, titled) for one in made if any(any(v) for v in one.series.values())]


def _plot(analysis: Analysis, floors: frozenset[str], titled: bool = False) -> Plot:
    drawn = draw.shown(analysis, floors)
    return Plot(
        analysis,
        draw.draw(analysis, floors, titled=titled),
        draw.describe(analysis, floors),
        [label for label in analysis.series if label not in drawn],
    )


@cache
def _environment() -> jinja2.Environment:
    environment = page_environment(Path(__file__).parent)
    environment.globals.update(columns=columns, error_labels=error_labels, percent=percent, few=FEW, in_words=in_words)
    environment.tests["left_out"] = lambda result: isinstance(result, LeftOut)
    return environment
