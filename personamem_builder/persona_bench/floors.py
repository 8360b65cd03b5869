"""What rules reach that read no conversation, on the same items and by the same metrics as a model."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from generation.errors import UserError
from personamem_builder.persona_bench.metrics import ScoredItem, score_answer, summarise
from personamem_builder.persona_bench.records import ItemDoc
from personamem_builder.statistics import Estimate
from personamem_builder.text_table import text_table

UNSEEN: Final = "parent"
"""The rule that knows what no model is shown, a final score: a model below it is not at fault."""

Rule = Callable[[ItemDoc], Any]


def rules(task: str, train: Sequence[Any]) -> dict[str, Rule]:
    """Return the rules of a task, by name.

    Args:
        task: One of `TASKS`.
        train: The truths of other authors' items, from which majority, median and mean are taken.

    Returns:
        For `sentiment`: `majority`, `always_positive`, `parent` (as the parent). For `impact`: `zero` (which is also
        what unparsed answers count as), `median`, `mean`, `parent`. For `next_text`: `copy_parent`, `last_text` (the
        author's last one). The parent's score is a final one, which no model is shown: that rule is no reader's.

    Raises:
        UserError: There is nothing to take a median from.
    """
    if task == "next_text":
        return {
            "copy_parent": lambda doc: doc["parent_text"] or None,
            "last_text": lambda doc: doc["last_text"] or None,
        }
    if not train:
        raise UserError("floors need items of the train split, and there are none", "import more posts")
    if task == "sentiment":
        positive = 2 * sum(train) >= len(train)
        return {
            "majority": lambda doc: positive,
            "always_positive": lambda doc: True,
            UNSEEN: lambda doc: _parent_score(doc) > 0,
        }
    median, mean = float(statistics.median(train)), float(statistics.fmean(train))
    return {
        "zero": lambda doc: 0.0,
        "median": lambda doc: median,
        "mean": lambda doc: mean,
        UNSEEN: lambda doc: float(_parent_score(doc)),
    }


def floor_answers(task: str, docs: Sequence[ItemDoc], train: Sequence[Any]) -> dict[str, list[ScoredItem]]:
    """Return what each rule answers to some items, scored; the rules know what `rules` takes from the train split."""
    return {
        name: [score_answer(task, doc["item_id"], doc["author"], doc["truth"], [rule(doc)]) for doc in docs]
        for name, rule in rules(task, train).items()
    }


def floors(task: str, docs: Sequence[ItemDoc], train: Sequence[Any]) -> dict[str, dict[str, Estimate]]:
    """Score the rules on some items, with what `rules` takes from the train split: metrics with intervals, by rule."""
    return {name: summarise(task, answers) for name, answers in floor_answers(task, docs, train).items()}


def render(estimates: Mapping[str, Mapping[str, Estimate]]) -> str:
    """Return a table in plain text: a row for each system or floor, a column for each metric, intervals in brackets."""
    names = list(dict.fromkeys(name for row in estimates.values() for name in row))
    rows = [[system, *(cell(row.get(name)) for name in names)] for system, row in estimates.items()]
    return text_table([["", *names], *rows])


def cell(estimate: Estimate | None) -> str:
    """Return a value with its interval, `-` where there is none."""
    if estimate is None:
        return "-"
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.3f}"
    return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"


def _parent_score(doc: ItemDoc) -> int:
    return int(doc["parent_score"] or 0)
