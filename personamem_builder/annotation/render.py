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

from personamem_builder.annotation.agreement import QUESTIONS, Agreement, Interval, Outcome, Study

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
    return {
        "schema_version": JSON_SCHEMA_VERSION,
        "sample": study.sample,
        "items": study.items,
        "raters": study.raters,
        "questions": _questions_to_json(study.questions),
        "choice": _agreement_to_json(study.choice),
        "types": _groups_to_json(study.types),
        "topics": _groups_to_json(study.topics),
        "disputed": [one._asdict() for one in study.disputed],
        "comments": [one._asdict() for one in study.comments],
    }


def to_text(study: Study) -> str:
    """Return tables for a terminal."""
    head = ["question", "yes", "no", "unsure", "missing", "yes, %", "equal, %", "AC1", "paper"]
    rows = [_row(question, study.questions[question]) for question in QUESTIONS]
    if study.choice is not None:
        rows.append(["same choice", "", "", "", "", "", *_agreement_cells(study.choice), ""])
    raters = f"{len(study.raters)} rater{'' if len(study.raters) == 1 else 's'}"
    parts = [
        f"Sample {study.sample}: {study.items} items, {raters} ({', '.join(study.raters)})",
        _table([head, *rows]),
        _LEGEND,
        _group_table("question type", study.types),
        _group_table("topic", study.topics),
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


def _row(question: str, outcome: Outcome) -> list[str]:
    counts = [str(count) for count in (outcome.yes, outcome.no, outcome.unsure, outcome.missing)]
    share, ac1 = _PAPER[question]
    return [question, *counts, _percent(outcome.share), *_agreement_cells(outcome.agreement), f"{share} ({ac1:.3f})"]


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


def _group_table(name: str, groups: Mapping[str, tuple[int, Mapping[str, Outcome]]]) -> str:
    head = [f"{name} (yes, %)", "items", *QUESTIONS]
    rows = [
        [group, str(items), *(_percent(outcomes[question].share) for question in QUESTIONS)]
        for group, (items, outcomes) in groups.items()
    ]
    return _table([head, *rows])


def _table(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    ]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def _questions_to_json(questions: Mapping[str, Outcome]) -> dict[str, Any]:
    return {
        name: {
            **outcome._asdict(),
            "share": None if outcome.share is None else outcome.share._asdict(),
            "agreement": _agreement_to_json(outcome.agreement),
        }
        for name, outcome in questions.items()
    }


def _agreement_to_json(agreement: Agreement | None) -> dict[str, Any] | None:
    return None if agreement is None else {**agreement._asdict(), "ac1": agreement.ac1._asdict()}


def _groups_to_json(groups: Mapping[str, tuple[int, Mapping[str, Outcome]]]) -> dict[str, Any]:
    return {
        name: {"items": items, "questions": _questions_to_json(questions)}
        for name, (items, questions) in groups.items()
    }
