"""The table that the README of PERSONA-Bench publishes, quoted, and the floors that its cells do not pass.

Its cells cannot be compared with one another as they stand: F1 is that of the class positive for three models and
weighted for two; generated text is the best of ten by the truth for two models and one sample for the others; answers
that could not be read left the denominators. There are no intervals, and no answers to single items.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from personamem_builder.persona_bench.records import DOMAINS
from personamem_builder.text_table import text_table

SOURCE: Final = "quoted from the README of PERSONA-Bench (arXiv 2505.14106)"
MODELS: Final = ("GPT-4.1", "GPT-4o-mini", "Claude-3.5", "Llama-3.3", "DeepSeek-R1")

PUBLISHED_COUNTS: Final[Mapping[str, int]] = {"posts": 19_215, "users": 3_878, "conversations": 111_239}
"""What the paper and its README say that the data hold."""

_COUNTED: Final = (
    ("posts", "posts", "posts"),
    ("users", "post_authors", "users: authors of posts, by whom the source groups them"),
    ("conversations", "threads", "conversations: replies to a post, each with all below it"),
    ("", "paths", "or: ways from a post down to a reply that has none"),
    ("", "messages", "or: comments"),
)
"""The published count, ours in the manifest, and what ours counts."""
_FULL: Final = (0.5, 2.0)
_MOST_DOMAINS: Final = 8

_Row = tuple[tuple[float, float], ...]

PUBLISHED: Final[Mapping[str, _Row]] = {
    "acc": ((0.9122, 0.7862), (0.6875, 0.6562), (0.9109, 0.8192), (0.8458, 0.7305), (0.8853, 0.7092)),
    "f1": ((0.9481, 0.8720), (0.7895, 0.7640), (0.9474, 0.8908), (0.8401, 0.7495), (0.8848, 0.7362)),
    "mcc": ((0.6770, 0.2266), (0.2268, 0.1870), (0.6721, 0.3666), (0.4420, 0.2333), (0.6070, 0.2586)),
    "rmse": ((310.09, 350.29), (310.23, 351.50), (282.48, 344.75), (319.83, 350.43), (300.03, 353.80)),
    "mae": ((97.52, 113.46), (97.64, 115.80), (85.39, 109.27), (101.25, 113.18), (89.59, 112.52)),
    "rouge1": ((0.2777, 0.2248), (0.2491, 0.2121), (0.2161, 0.1645), (0.2055, 0.1540), (0.1786, 0.1359)),
    "rougeL": ((0.2115, 0.1565), (0.1906, 0.1470), (0.1719, 0.1130), (0.1572, 0.1009), (0.1395, 0.0911)),
    "meteor": ((0.2677, 0.2316), (0.2120, 0.2198), (0.1913, 0.1636), (0.1838, 0.1659), (0.1649, 0.1401)),
    "bleu": ((0.0604, 0.0206), (0.0330, 0.0170), (0.0549, 0.0123), (0.0480, 0.0089), (0.0423, 0.0083)),
    "sbert": ((0.4757, 0.4322), (0.4381, 0.3982), (0.3942, 0.3512), (0.3733, 0.3339), (0.3699, 0.3307)),
}
"""For each model, in the order of `MODELS`, P-Conv and P-NonConv."""

_WEIGHTED: Final = ("Llama-3.3", "DeepSeek-R1")
_LOWER_IS_BETTER: Final = ("rmse", "mae")

_POSITIVE: Final = 0.82
"""The share of positive items that is consistent with the published accuracy, F1 and MCC of the three models with
binary F1: solved for, not counted."""

INFERRED_FLOORS: Final[Mapping[str, Mapping[str, float]]] = {
    "always_positive at 82 % positive, inferred": {
        "acc": _POSITIVE,
        "f1_binary": 2 * _POSITIVE / (1 + _POSITIVE),
        "f1_weighted": _POSITIVE * 2 * _POSITIVE / (1 + _POSITIVE),
        "mcc": 0.0,
    }
}
"""What always answering positive scores where 82 % are positive."""


class BeatenCell(NamedTuple):
    """A published cell that a floor, the best one, reaches or passes; `metric` names the kind of F1."""

    metric: str
    model: str
    condition: str
    quoted: float
    floor: str
    value: float


def beaten_cells(floors: Mapping[str, Mapping[str, float]] = INFERRED_FLOORS) -> list[BeatenCell]:
    """Say which floor reaches which published cell: the cells in the order of the table, each with its best floor.

    Args:
        floors: For each floor, its metrics. Those of the released tasks on the released data compare like with like; by
            default those that follow from the share of positive items.
    """
    beaten = []
    for row, cells in PUBLISHED.items():
        sign = -1 if row in _LOWER_IS_BETTER else 1
        for model, values in zip(MODELS, cells, strict=True):
            metric = row if row != "f1" else "f1_weighted" if model in _WEIGHTED else "f1_binary"
            known = {name: scores[metric] for name, scores in floors.items() if metric in scores}
            if not known:
                continue
            best = max(known, key=lambda name: sign * known[name])
            beaten += [
                BeatenCell(metric, model, condition, quoted, best, known[best])
                for condition, quoted in zip(("pconv", "pnonconv"), values, strict=True)
                if sign * known[best] >= sign * quoted
            ]
    return beaten


def render_published(floors: Mapping[str, Mapping[str, float]] = INFERRED_FLOORS, width: int | None = None) -> str:
    """Return the published table in plain text, `*` at the cells that a floor reaches, and below it which floor.

    Args:
        floors: Values of the floors, by name and metric.
        width: Columns of the terminal, if it has some.
    """
    beaten = beaten_cells(floors)
    marked = {(cell.metric.partition("_")[0], cell.model, cell.condition) for cell in beaten}
    table = [["", *MODELS]]
    for row, cells in PUBLISHED.items():
        shown = []
        for model, values in zip(MODELS, cells, strict=True):
            pair = zip(("pconv", "pnonconv"), values, strict=True)
            shown.append(
                " / ".join(f"{v:g}{'*' if (row, model, condition) in marked else ''}" for condition, v in pair)
            )
        table.append([row, *shown])
    lines = [f"{SOURCE}; P-Conv / P-NonConv", text_table(table, width=width)]
    lines += [
        f"* {cell.metric}, {cell.model}, {cell.condition}: {cell.quoted:g}; {cell.floor} scores {cell.value:.3f}"
        for cell in beaten
    ]
    return "\n".join(lines)


def compare_counts(manifest: Mapping[str, Any]) -> str:
    """Return the counts of a dataset beside the published ones, as text; empty where it is not like the full release.

    It is, if it has between half and twice as many posts as published, most of them in the ten domains, and at least
    eight of these.

    Args:
        manifest: Of the dataset folder.
    """
    counts, domains = manifest["counts"], manifest.get("posts_by_domain", {})
    of_the_ten = [domains.get(name, 0) for name in DOMAINS]
    least, most = (share * PUBLISHED_COUNTS["posts"] for share in _FULL)
    is_full = least <= counts["posts"] <= most and 2 * sum(of_the_ten) > counts["posts"]
    if not is_full or sum(map(bool, of_the_ten)) < _MOST_DOMAINS:
        return ""
    rows = [["", "here", "published"]]
    for published, own, told in _COUNTED:
        rows.append([told, f"{counts[own]:,}", f"{PUBLISHED_COUNTS[published]:,}" if published else ""])
    return (
        f"{text_table(rows, 'lr')}\n"
        "published: in the README of PERSONA-Bench (arXiv 2505.14106). It does not say what a conversation is; the\n"
        "threads under a post stand beside it, as in the paper one post starts several conversations."
    )
