"""All analyses of a report: what the answers of models depend on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from personamem_builder.report.breakdown import (
    TITLES,
    LeftOut,
    ModelEntry,
    Result,
    position,
    sessions_since,
    tellings,
    tokens_since,
    topics,
    types,
    updates,
)
from personamem_builder.report.calibration import calibration
from personamem_builder.report.choices import errors, letters, states, stereotypes
from personamem_builder.schema import QuestionRow

_SHOWING_OPTIONS: Final = ("_letters", "_generate")

_DATASET_NEEDED: Final = ("sessions", "tokens", "position", "updates", "topics", "stereotypes", "errors", "states")


def analyse(
    entries: Sequence[ModelEntry],
    questions: Mapping[str, QuestionRow] | None,
    *,
    split: str | None = None,
    lacking: str = "",
    shows_options: bool = True,
) -> list[Result]:
    """Make all analyses of some models on the same questions, in the order of a report; those left out say why.

    Args:
        entries: The models, and floors to show beside them.
        questions: The questions by id; None where the dataset is not at hand.
        split: Their split, which decides the bins of distances.
        lacking: Why there is no dataset.
        shows_options: Whether the models were shown the options with their letters.
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
            tellings(entries, asked),
            topics(entries, asked),
            stereotypes(entries, asked),
            errors(entries, asked),
            states(entries, asked),
        ]
    return [types(entries), *by_question, calibration(entries), letters(entries, shows_options=shows_options)]


def shows_options(task: str) -> bool:
    """Say whether a task shows the options with their letters."""
    return any(part in task for part in _SHOWING_OPTIONS)


def primary_score(scores: Sequence[str], task: str) -> str:
    """Return the score of a task that counts: the paper's where the options are not shown, else `acc` or `robust`."""
    wanted = ("acc", "robust") if shows_options(task) else ("acc_per_token", "acc")
    return next((score for score in wanted if score in scores), scores[0])
