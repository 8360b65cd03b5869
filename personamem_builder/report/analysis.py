"""All analyses of a report: what the answers of models depend on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from personamem_builder.report.breakdown import (
    TITLES,
    Entry,
    LeftOut,
    Result,
    position,
    sessions_since,
    tokens_since,
    topics,
    types,
    updates,
)
from personamem_builder.report.calibration import calibration
from personamem_builder.report.choices import letters, states, stereotypes
from personamem_builder.report.questions import Row

_DATASET_NEEDED: Final = ("sessions", "tokens", "position", "updates", "topics", "stereotypes", "states")


def analyse(
    entries: Sequence[Entry],
    questions: Mapping[str, Row] | None,
    *,
    split: str | None = None,
    lacking: str = "",
    shows_options: bool = True,
) -> list[Result]:
    """Make all analyses of some models on the same questions.

    Args:
        entries: The models, and floors to show beside them.
        questions: The questions by id; None where the dataset is not at hand.
        split: Their split, which decides the bins of distances.
        lacking: Why there is no dataset.
        shows_options: Whether the models were shown the options with their letters.

    Returns:
        The analyses, and those left out, in the order of a report.
    """
    if questions is None:
        reasons = dict.fromkeys(_DATASET_NEEDED, lacking or "the dataset is not at hand")
        by_question: list[Result] = [LeftOut(name, TITLES[name], reason) for name, reason in reasons.items()]
    else:
        asked = {id_: questions[id_] for id_ in dict.fromkeys(id_ for entry in entries for id_ in entry.answers)}
        by_question = [
            sessions_since(entries, asked, split),
            tokens_since(entries, asked, split),
            position(entries, asked),
            updates(entries, asked),
            topics(entries, asked),
            stereotypes(entries, asked),
            states(entries, asked),
        ]
    return [types(entries), *by_question, calibration(entries), letters(entries, shows_options=shows_options)]


def primary_score(scores: Sequence[str]) -> str:
    """Return the score that analyses look at: `acc` or `robust` where there is one of them."""
    return next((score for score in ("acc", "robust") if score in scores), scores[0])
