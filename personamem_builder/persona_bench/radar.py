"""Radar pictures of what models score in each domain.

A picture shows one table and one group of metrics, a radar for each metric. Outwards is better in all of them:

- accuracies, F1, correlations and text metrics stand as they are, from 0 (or below, where a value is negative) to the
  largest value of the radar, both rounded to a tenth; rings bear the values, and a grey line is the best floor of each
  domain;
- errors, which differ between domains by their votes, stand as 1 − error / error of the floor `FLOOR_OF_ERRORS` on the
  same items of the domain: 1 is without error, 0 as good as the floor. Less than −1 stands at the centre.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from generation.errors import UserError
from generation.files import replacing
from generation.resources import install_hint
from personamem_builder.persona_bench.domains import DomainScores, Scores
from personamem_builder.persona_bench.floors import UNSEEN
from personamem_builder.persona_bench.metrics import ERRORS
from personamem_builder.persona_bench.records import DOMAINS
from personamem_builder.persona_bench.report import BenchReport, BenchTable, condition_label, row_label

if TYPE_CHECKING:
    from matplotlib.projections.polar import PolarAxes

GROUPS: Final[Mapping[str, Mapping[str, Sequence[str]]]] = {
    "sentiment": {"classes": ("acc", "f1_binary", "f1_weighted", "mcc")},
    "impact": {"errors": ("mae", "rmse", "log_mae", "log_rmse"), "ranks": ("spearman", "kendall")},
    "next_text": {
        "words": (
            "rouge1",
            "rougeL",
            "meteor",
            "meteor_unsplit",
            "meteor_exact_stem",
            "bleu",
            "bleu_unsplit",
            "sacrebleu",
        ),
        "meaning": ("sbert",),
    },
}
"""The metrics of each picture of a task; those that were not computed are left out."""

FLOOR_OF_ERRORS: Final = "median"
"""It always answers the median of the train split."""

_FEWEST_DOMAINS: Final = 3
"""A radar of fewer domains encloses nothing."""
_MOST_MODELS: Final = 4
"""More models than these have pictures of their own: one of all would show none."""
_WORST: Final = -1.0
_COLOURS: Final = ("#0072b2", "#c24e00", "#007f5c", "#a8487e")
"""Of Okabe and Ito, darker where they need contrast."""
_CELL: Final = (4.6, 3.2)
"""Width and height of a radar with its labels, in inches."""
_ACROSS: Final = 2.3
_EDGE: Final = 0.35
_LINE: Final = 0.18
_FLOOR: Final = "best floor"
_MARKS: Final = "os^D"
_LINES: Final = {"pconv": "-", "pnonconv": "--", "npconv": ":"}


class Radar(NamedTuple):
    """One radar.

    Attributes:
        metric: What it shows.
        axes: The domains with their numbers of items, clockwise from the top: the ten, and the others if they have
            enough items.
        values: Of each row of the table, a value for each axis; None where the domain has too little.
        floor: The best floor of each axis.
        low: What the centre stands for.
        high: What the rim stands for.
    """

    metric: str
    axes: Sequence[str]
    values: Sequence[Sequence[float | None]]
    floor: Sequence[float | None]
    low: float
    high: float


def make_radars(table: BenchTable, metrics: Sequence[str]) -> list[Radar]:
    """Return a radar for each metric that at least three domains have."""
    shown = [one for one in table.domains if one.domain in DOMAINS or any(one.rows)]
    radars = []
    for metric in metrics:
        rows = [[_outwards(one, one.rows[place], metric) for one in shown] for place in range(len(table.rows))]
        floors = [_best_floor(one, metric) for one in shown]
        known = [value for row in (*rows, floors) for value in row if value is not None]
        if sum(any(row[axis] is not None for row in rows) for axis in range(len(shown))) < _FEWEST_DOMAINS:
            continue
        low = max(_WORST, min(0.0, math.floor(10 * min(known)) / 10))
        high = 1.0 if metric in ERRORS else max(0.1, math.ceil(10 * max(known)) / 10)
        radars.append(Radar(metric, [f"{one.domain} ({one.items})" for one in shown], rows, floors, low, high))
    return radars


def draw_radars(report: BenchReport, folder: Path) -> list[Path]:
    """Write a picture for each table and group of metrics, as SVG and PNG, always with the same bytes.

    Returns:
        The files; none for a group that fewer than three domains have.

    Raises:
        UserError: matplotlib is not installed, or the folder cannot be written.
    """
    check_matplotlib()
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for table, stem in zip(report.tables, _stems(report.tables), strict=True):
            for group, metrics in GROUPS[table.task].items():
                for number, places in enumerate(_shares(table), start=1):
                    part = table._replace(
                        rows=[table.rows[place] for place in places],
                        domains=[one._replace(rows=[one.rows[place] for place in places]) for one in table.domains],
                    )
                    if radars := make_radars(part, metrics):
                        name = f"{stem}-{group}" + (f"-{number}" if len(_shares(table)) > 1 else "")
                        written += _draw(part, group, radars, folder / name)
    except OSError as error:
        raise UserError(f"{error.filename} cannot be written: {error.strerror}", "give another --plots") from error
    return written


def check_matplotlib() -> None:
    """Raise `UserError` if there is no matplotlib."""
    try:
        import matplotlib as mpl  # noqa: F401
    except ImportError as error:
        raise UserError("--plots needs matplotlib", install_hint("plots")) from error


def _outwards(domain: DomainScores, scores: Scores, metric: str) -> float | None:
    """Return a value of which more is better."""
    if metric not in scores:
        return None
    value = scores[metric].value
    if metric not in ERRORS:
        return value
    floor = domain.floors.get(FLOOR_OF_ERRORS, {}).get(metric)
    return 1 - value / floor.value if floor and floor.value else None


def _best_floor(domain: DomainScores, metric: str) -> float | None:
    known = [_outwards(domain, scores, metric) for rule, scores in domain.floors.items() if rule != UNSEEN]
    return max((value for value in known if value is not None), default=None)


def _stems(tables: Sequence[BenchTable]) -> Iterator[str]:
    """Yield what the files of each table are called; tables of other items are numbered."""
    names = [f"{table.task}-released" if table.released else f"{table.task}-{table.split}" for table in tables]
    many, seen = Counter(names), Counter[str]()
    for name in names:
        seen[name] += 1
        yield f"{name}-{seen[name]}" if many[name] > 1 else name


def _shares(table: BenchTable) -> list[list[int]]:
    """Divide the rows of a table so that each picture has at most `_MOST_MODELS` models."""
    models = list(dict.fromkeys(row.model for row in table.rows))
    shares = [models[start : start + _MOST_MODELS] for start in range(0, len(models), _MOST_MODELS)]
    return [[place for place, row in enumerate(table.rows) if row.model in share] for share in shares]


def _panels(table: BenchTable) -> list[list[int]]:
    """Divide the rows of a picture among its columns: one model has its conditions in one, more have one for each."""
    if len({row.model for row in table.rows}) == 1:
        return [list(range(len(table.rows)))]
    kinds = dict.fromkeys((row.run.condition, row.run.written) for row in table.rows)
    return [[i for i, row in enumerate(table.rows) if (row.run.condition, row.run.written) == kind] for kind in kinds]


def _draw(table: BenchTable, group: str, radars: Sequence[Radar], path: Path) -> list[Path]:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    columns = _panels(table)
    # Columns of one model are its metrics; several models have a row for each metric and a column for each condition.
    wide, high = (min(2, len(radars)), math.ceil(len(radars) / 2)) if len(columns) == 1 else (len(columns), len(radars))
    written = []
    # Ids in the file follow from its content; letters stay text, and `$` in a model's name is no formula.
    style = {"svg.hashsalt": "personamem", "svg.fonttype": "none", "font.size": 8, "text.parse_math": False}
    with mpl.rc_context(cast(Any, style)):
        legend = _EDGE + _LINE * (2 + math.ceil((len(table.rows) + 1) / wide) + _explained(radars).count("\n"))
        width, height = _CELL[0] * wide, _EDGE + _CELL[1] * high + legend
        figure = Figure(figsize=(width, height))
        lines: dict[str, Any] = {}
        for number, (radar, places) in enumerate((radar, places) for radar in radars for places in columns):
            left = _CELL[0] * (number % wide) + (_CELL[0] - _ACROSS) / 2
            bottom = height - _EDGE - _CELL[1] * (number // wide + 1) + _EDGE
            area = (left / width, bottom / height, _ACROSS / width, _ACROSS / height)
            _paint(cast("PolarAxes", figure.add_axes(area, projection="polar")), table, radar, places, lines)
        form = ", released form" if table.released else f", {table.split} split"
        title = f"{table.task}{form}: {group} by domain, {table.items} items of {table.authors} authors"
        figure.suptitle(title, y=1 - 0.15 / height, va="top")
        if _FLOOR in lines:
            lines[_FLOOR] = lines.pop(_FLOOR)  # the last
        figure.legend(lines.values(), lines.keys(), loc="lower center", ncols=wide, title=_explained(radars))
        for ending in ("svg", "png"):
            file = path.with_name(f"{path.name}.{ending}")
            with replacing(file) as part:
                figure.savefig(part, format=ending, dpi=110, metadata={"Date": None} if ending == "svg" else None)
            written.append(file)
    return written


def _explained(radars: Sequence[Radar]) -> str:
    told = "outwards is better; the tables have intervals; a gap: too few items"
    if any(radar.metric in ERRORS for radar in radars):
        told += f"\nerrors as 1 − error / error of the floor {FLOOR_OF_ERRORS}: 0 is as good as the floor"
    return told


def _paint(axes: PolarAxes, table: BenchTable, radar: Radar, places: Sequence[int], lines: dict[str, Any]) -> None:
    angles = [2 * math.pi * axis / len(radar.axes) for axis in range(len(radar.axes))]
    models = list(dict.fromkeys(row.model for row in table.rows))

    def line(values: Sequence[float | None], **look: Any) -> Any:
        shown = [math.nan if value is None else max(value, radar.low) for value in values]
        return axes.plot([*angles, angles[0]], [*shown, shown[0]], clip_on=False, **look)[0]

    axes.set_theta_zero_location("N")
    axes.set_theta_direction(-1)
    axes.set_xticks(angles, radar.axes)
    for label, angle in zip(axes.get_xticklabels(), angles, strict=True):
        side = math.sin(angle)
        label.set_horizontalalignment("center" if abs(side) < 0.1 else "left" if side > 0 else "right")
    axes.tick_params(axis="x", pad=0)
    axes.set_ylim(radar.low, radar.high)
    tenths = next(step for step in (1, 2, 5) if 10 * (radar.high - radar.low) <= 5 * step)
    rings = [ring / 10 for ring in range(-10, 11, tenths) if radar.low < ring / 10 <= radar.high]
    axes.set_yticks(rings, [f"{ring:g}" for ring in rings], color="0.4", fontsize=6)
    if radar.low < 0:
        axes.plot([2 * math.pi * step / 90 for step in range(91)], [0.0] * 91, color="0.5", linewidth=0.8)
    first = table.rows[places[0]]
    axes.set_title(radar.metric if len(models) == 1 else f"{radar.metric}, {condition_label(first.run)}")
    for place in places:
        row = table.rows[place]
        look = (models.index(row.model) if len(models) > 1 else list(places).index(place)) % len(_COLOURS)
        drawn = line(
            radar.values[place],
            color=_COLOURS[look],
            marker=_MARKS[look],
            linestyle=_LINES[row.run.condition],
            markersize=3.5,
            linewidth=1.2,
        )
        lines.setdefault(row_label(row), drawn)
    if any(value is not None for value in radar.floor):
        lines[_FLOOR] = line(radar.floor, color="0.55", linewidth=1, marker="x", markersize=3.5, zorder=1.5)
