"""Write a validation study as text and as JSON.

The JSON form, for machines, has `schema_version` 1; all numbers are fractions or counts:

    {"schema_version": 1, "sample": str, "items": int, "raters": [str],
     "questions": {QUESTION: OUTCOME}, "choice": AGREEMENT | null,
     "types": {QUESTION_TYPE: {"items": int, "questions": {QUESTION: OUTCOME}}}, "topics": {TOPIC: the same},
     "disputed": [{"item": str, "question": QUESTION, "yes": int, "answers": int}],
     "comments": [{"item": str, "rater": str, "text": str}]}
    QUESTION = "best" | "appropriate" | "relevant" | "correct"
    OUTCOME = {"yes": int, "no": int, "unsure": int, "missing": int, "share": INTERVAL | null,
               "agreement": AGREEMENT | null}
    AGREEMENT = {"items": int, "percent": float, "ac1": INTERVAL}
    INTERVAL = {"value": float, "low": float | null, "high": float | null}

`best` is yes where a rater chose the key's response; `choice` is how far raters chose the same response, right or
wrong. A breaking change raises the version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from personamem_builder.annotation.agreement import QUESTIONS, QuestionRatings, RatedGroup, Study
from personamem_builder.rater_agreement import Agreement, Interval
from personamem_builder.text_table import text_table

JSON_SCHEMA_VERSION: Final = 1

_PAPER: Final = {
    # Three raters, 90 items (arXiv 2504.14225v1): percent of yes, AC1.
    "best": (90.0, 0.560),
    "appropriate": (97.8, 0.928),
    "relevant": (95.6, 0.899),
    "correct": (97.8, 0.877),
}
_LISTED: Final = 10
_LEGEND: Final = (
    "yes, % and AC1 have 95 % intervals. Unsure is not a yes; a missing answer is left out. best: the rater chose the "
    "response of the key without knowing it.\n"
    "paper: the study of the original benchmark, quoted; its items, its raters and its wording were others."
)


def to_json(study: Study) -> dict[str, Any]:
    """Return the JSON form that the module docstring defines."""
    return {"schema_version": JSON_SCHEMA_VERSION, **_plain(study)}


def _plain(value: Any) -> Any:
    """Return named tuples as what JSON has, in the order of their fields."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list) else value


def to_text(study: Study, width: int | None = None) -> str:
    """Return tables for a terminal, of so many columns if it has some."""
    head = ["question", "yes", "no", "unsure", "missing", "yes, %", "equal, %", "AC1", "paper"]
    rows = [_row(question, study.questions[question]) for question in QUESTIONS]
    if study.choice is not None:
        rows.append(["same choice", "", "", "", "", "", *_agreement_cells(study.choice), ""])
    raters = f"{len(study.raters)} rater{'' if len(study.raters) == 1 else 's'}"
    parts = [
        f"Sample {study.sample}: {study.items} items, {raters} ({', '.join(study.raters)})",
        _table([head, *rows], width),
        _LEGEND,
        _group_table("question type", study.types, width),
        _group_table("topic", study.topics, width),
    ]
    if study.disputed:
        listed = [
            f"  {one.item}  {one.question}: {one.yes} of {one.answers} say yes" for one in study.disputed[:_LISTED]
        ]
        more = len(study.disputed) - _LISTED
        parts.append(
            "\n".join(
                ["Items without a majority of yes:", *listed, *([f"  and {more} more: --json"] if more > 0 else [])]
            )
        )
    return "\n\n".join(parts)


def _row(question: str, ratings: QuestionRatings) -> list[str]:
    counts = [str(count) for count in (ratings.yes, ratings.no, ratings.unsure, ratings.missing)]
    share, ac1 = _PAPER[question]
    return [question, *counts, _percent(ratings.share), *_agreement_cells(ratings.agreement), f"{share} ({ac1:.3f})"]


def _agreement_cells(agreement: Agreement | None) -> list[str]:
    if agreement is None:
        return ["-", "-"]
    value, low, high = agreement.ac1
    interval = "" if low is None or high is None else f" [{low:.3f}, {high:.3f}]"
    return [f"{100 * agreement.percent:.1f}", f"{value:.3f}{interval}"]


def _percent(share: Interval | None) -> str:
    if share is None:
        return "-"
    value, low, high = share
    return f"{100 * value:.1f}" + ("" if low is None or high is None else f" [{100 * low:.1f}, {100 * high:.1f}]")


def _group_table(name: str, groups: Mapping[str, RatedGroup], width: int | None) -> str:
    head = [f"{name} (yes, %)", "items", *QUESTIONS]
    rows = [
        [group, str(items), *(_percent(questions[question].share) for question in QUESTIONS)]
        for group, (items, questions) in groups.items()
    ]
    return _table([head, *rows], width)


def _table(rows: Sequence[Sequence[str]], width: int | None) -> str:
    parts = []
    for part in text_table(rows, "lr", width=width).split("\n\n"):
        head, *lines = part.split("\n")
        parts.append("\n".join([head, "-" * len(head), *lines]))
    return "\n\n".join(parts)
