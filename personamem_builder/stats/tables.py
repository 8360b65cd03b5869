"""Figures of splits as tables: for a terminal, and for a card."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from personamem_builder.schema import SHORT_TYPES
from personamem_builder.stats.figures import SplitFigures, Spread
from personamem_builder.text_table import text_table

_SHOWN: Final = 20  # topics and other values of a count
_SIZES: Final = ("questions", "personas", "contexts")
_QUARTILES: Final = ("least", "lower quartile", "median", "upper quartile", "greatest")


class FiguresTable(NamedTuple):
    """A table with a column for each split: what its rows are, and the cells of each row by name."""

    title: str
    splits: list[str]
    rows: dict[str, list[str]]


def tables_of(figures: Sequence[SplitFigures]) -> list[FiguresTable]:
    """Return the figures of some splits as tables; those that none of them has are left out."""
    names = [one.split for one in figures]
    kinds = dict.fromkeys(kind for one in figures for kind in one.counts)
    spreads = {
        "tokens since the reference, spread": [_cells(one.tokens_since_spread, "{:,.0f}") for one in figures],
        "tokens of a context": [_cells(one.context_tokens, "{:,.0f}") for one in figures],
        "fillers in a context": [_cells(one.filler_share, "{:.0%}") for one in figures],
    }
    return [
        FiguresTable("", names, {key: [f"{getattr(one, key):,}" for one in figures] for key in _SIZES}),
        *(
            FiguresTable(f"questions by {kind}", names, _counted([one.counts.get(kind, {}) for one in figures]))
            for kind in kinds
        ),
        *(
            FiguresTable(title, names, dict(zip(_QUARTILES, map(list, zip(*cells, strict=True)), strict=True)))
            for title, cells in spreads.items()
            if any(cell != "-" for own in cells for cell in own)
        ),
    ]


def figures_text(figures: Sequence[SplitFigures], width: int | None = None) -> str:
    """Return the figures of some splits as tables for a terminal, of so many columns if it has some."""
    return "\n\n".join(
        text_table([[title, *splits], *([key, *cells] for key, cells in rows.items())], "lr", ruled=True, width=width)
        for title, splits, rows in tables_of(figures)
    )


def _counted(counts: Sequence[Mapping[str, int]]) -> dict[str, list[str]]:
    keys = list(dict.fromkeys(key for one in counts for key in one))
    keys.sort(key=[*SHORT_TYPES.values(), *keys].index)  # the order of types, whichever split has them
    rows = {key: [_count(one, key) for one in counts] for key in keys[:_SHOWN]}
    if rest := keys[_SHOWN:]:
        rows[f"{len(rest)} more"] = [f"{sum(one.get(key, 0) for key in rest):,}" for one in counts]
    return rows


def _count(counts: Mapping[str, int], key: str) -> str:
    share = counts.get(key, 0) / max(1, sum(counts.values()))
    return f"{counts[key]:,} ({share:.1%})" if key in counts else "-"


def _cells(spread: Spread | None, form: str) -> list[str]:
    return ["-"] * len(_QUARTILES) if spread is None else [form.format(value) for value in spread]
