"""What a benchmark consists of, in figures: its questions by type, topic and distance, the length of its contexts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from generation.errors import UserError
from generation.files import replacing
from generation.records import QUESTION_TYPES
from generation.resources import install_hint
from personamem_builder.audit.records import AuditedSplit
from personamem_builder.schema import SHORT_TYPES, QuestionRow
from personamem_builder.text_table import text_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SHOWN: Final = 12  # values of a count in a table of the terminal
_BINS: Final = 20


class Spread(NamedTuple):
    """How some numbers are spread: least, quartiles, greatest."""

    least: float
    lower: float
    median: float
    upper: float
    greatest: float


class SplitFigures(NamedTuple):
    """The figures of a split; what its questions do not say is empty, or None.

    Attributes:
        types: Questions by type.
        topics: Questions by topic.
        sessions_since: Questions by the sessions between the reference and the question.
        tokens_since: Tokens between the reference and the question.
        context_tokens: Tokens that a question's context has.
        filler_share: Of a question's context, the tokens of fillers, as a fraction.
        updates: Questions by the updates that lie among their evidence.
        tellings: Questions by the way in which their evidence is told.
    """

    split: str
    questions: int
    personas: int
    contexts: int
    types: dict[str, int]
    topics: dict[str, int]
    sessions_since: dict[int, int]
    tokens_since: Spread | None
    context_tokens: Spread | None
    filler_share: Spread | None
    updates: dict[int, int]
    tellings: dict[str, int]

    def as_json(self) -> dict[str, Any]:
        """Return the figures as JSON holds them."""
        spreads = {
            key: None if value is None else value._asdict()
            for key, value in self._asdict().items()
            if isinstance(value, Spread) or value is None
        }
        return {**self._asdict(), **spreads}


def describe_split(split: AuditedSplit) -> SplitFigures:
    """Return the figures of a split; they come from its questions alone."""
    rows = split.rows
    types = Counter(row["question_type"] for row in rows)
    shares = [
        row["num_irrelevant_tokens"] / row["context_length_in_tokens"]
        for row in rows
        if row.get("context_length_in_tokens") and "num_irrelevant_tokens" in row
    ]
    return SplitFigures(
        split=split.name,
        questions=len(rows),
        personas=len({row["persona_id"] for row in rows}),
        contexts=len({row["shared_context_id"] for row in rows if "shared_context_id" in row}),
        types={name: types[name] for name in QUESTION_TYPES if types[name]},
        topics=dict(Counter(row["topic"] for row in rows).most_common()),
        sessions_since=_counts(rows, "distance_to_ref_in_blocks"),
        tokens_since=_spread(values_of(rows, "distance_to_ref_in_tokens")),
        context_tokens=_spread(values_of(rows, "context_length_in_tokens")),
        filler_share=_spread(shares),
        updates=_counts(rows, "updates_spanned"),
        tellings=dict(sorted(Counter(row["telling"] for row in rows if "telling" in row).items())),
    )


def values_of(rows: Iterable[QuestionRow], column: str) -> list[float]:
    """Return the values of a column of numbers, of those questions that have it."""
    found = (row.get(column) for row in rows)
    return [float(value) for value in found if isinstance(value, int | float)]


def _counts(rows: Iterable[QuestionRow], column: str) -> dict[int, int]:
    return dict(sorted(Counter(int(value) for value in values_of(rows, column)).items()))


def _spread(values: Sequence[float]) -> Spread | None:
    if not values:
        return None
    return Spread(*np.percentile(values, (0, 25, 50, 75, 100)).tolist())


def figures_text(figures: Sequence[SplitFigures]) -> str:
    """Return the figures of some splits as tables, a column for each split."""
    names = [one.split for one in figures]
    parts = [
        _table("", names, {key: [f"{getattr(one, key):,}" for one in figures] for key in _SIZES}),
        _counted("questions by type", names, [{SHORT_TYPES[t]: n for t, n in one.types.items()} for one in figures]),
        _counted("by topic", names, [one.topics for one in figures]),
        _counted("by sessions since the reference", names, [one.sessions_since for one in figures]),
        _counted("by updates among the evidence", names, [one.updates for one in figures]),
        _counted("by how the evidence is told", names, [one.tellings for one in figures]),
        _spreads("tokens since the reference", names, [one.tokens_since for one in figures], "{:,.0f}"),
        _spreads("tokens of a context", names, [one.context_tokens for one in figures], "{:,.0f}"),
        _spreads("fillers in a context", names, [one.filler_share for one in figures], "{:.0%}"),
    ]
    return "\n\n".join(part for part in parts if part)


_SIZES: Final = ("questions", "personas", "contexts")


def _table(title: str, names: Sequence[str], rows: Mapping[str, Sequence[str]]) -> str:
    return text_table([[title, *names], *([key, *cells] for key, cells in rows.items())], "lr", ruled=True)


def _counted(title: str, names: Sequence[str], counts: Sequence[Mapping[Any, int]]) -> str:
    keys = list(dict.fromkeys(key for one in counts for key in one))
    keys.sort(key=[*SHORT_TYPES.values(), *keys].index)  # the order of types, whichever split has them
    if all(isinstance(key, int) for key in keys):
        keys.sort()
    if not keys:
        return ""
    rows = {str(key): [_cell(one, key) for one in counts] for key in keys[:_SHOWN]}
    if rest := keys[_SHOWN:]:
        rows[f"{len(rest)} more"] = [f"{sum(one.get(key, 0) for key in rest):,}" for one in counts]
    return _table(title, names, rows)


def _cell(counts: Mapping[Any, int], key: Any) -> str:
    share = counts.get(key, 0) / max(1, sum(counts.values()))
    return f"{counts.get(key, 0):,} ({share:.0%})" if key in counts else "-"


def _spreads(title: str, names: Sequence[str], spreads: Sequence[Spread | None], form: str) -> str:
    if not any(spreads):
        return ""
    rows = {
        name: ["-" if spread is None else form.format(value) for spread, value in _values(spreads, i)]
        for i, name in enumerate(("least", "lower quartile", "median", "upper quartile", "greatest"))
    }
    return _table(title, names, rows)


def _values(spreads: Sequence[Spread | None], i: int) -> list[tuple[Spread | None, float]]:
    return [(spread, 0.0 if spread is None else spread[i]) for spread in spreads]


# --- pictures


def draw_figures(splits: Sequence[AuditedSplit], folder: Path) -> list[Path]:
    """Draw the figures of some splits, as SVG and PNG, a picture for each split; return the files.

    Raises:
        UserError: matplotlib is not installed, or the folder cannot be written.
    """
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UserError("--plots needs matplotlib", install_hint("plots")) from error
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error.strerror}", "give another --plots") from error
    written = []
    for split in splits:
        figures = describe_split(split)
        with mpl.rc_context({"svg.hashsalt": "personamem", "font.size": 8}):
            picture = Figure(figsize=(11, 7), layout="constrained")
            axes = picture.subplots(2, 3)
            _bars(axes[0][0], "Questions by type", {SHORT_TYPES[t]: n for t, n in figures.types.items()})
            _bars(axes[0][1], "Questions by topic", figures.topics)
            _bars(axes[0][2], "Sessions since the reference", figures.sessions_since, flat=False)
            _histogram(axes[1][0], "Tokens since the reference", values_of(split.rows, "distance_to_ref_in_tokens"))
            _histogram(axes[1][1], "Tokens of a context", values_of(split.rows, "context_length_in_tokens"))
            _bars(axes[1][2], "Updates among the evidence", figures.updates, flat=False)
            picture.suptitle(f"{split.name}: {figures.questions:,} questions of {figures.personas} personas")
            for ending in ("svg", "png"):
                path = folder / f"{split.name}.{ending}"
                with replacing(path) as part:
                    picture.savefig(part, format=ending, metadata={"Date": None} if ending == "svg" else None)
                written.append(path)
    return written


def _bars(axes: Axes, title: str, counts: Mapping[Any, int], *, flat: bool = True) -> None:
    axes.set_title(title)
    names, heights = [str(key) for key in counts], list(counts.values())
    if not counts:
        axes.set_axis_off()
    elif flat:
        axes.barh(names[::-1], heights[::-1], color="#4477aa")
    else:
        axes.bar(names, heights, color="#4477aa")
        axes.tick_params(axis="x", labelrotation=90 if len(names) > _SHOWN else 0)


def _histogram(axes: Axes, title: str, values: Sequence[float]) -> None:
    axes.set_title(title)
    if values:
        axes.hist(values, bins=_BINS, color="#4477aa")
    else:
        axes.set_axis_off()
