"""What raters see of a question: the history or its evidence, the message, and the options."""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from collections.abc import Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypedDict, final

from personamem_builder.dataset.check import read_questions
from personamem_builder.dataset.contexts import read_context
from personamem_builder.dataset.folder import context_files
from personamem_builder.schema import (
    ContextRow,
    QuestionRow,
    evidence_events,
    numbered_sessions,
    option_letter,
    option_texts,
)

UNSURE: Final = "unsure"
BEST: Final = "best"
BEST_TEXT: Final = "Which response is the best one to give to this user now?"
CHECKS: Final[Mapping[str, str]] = {
    "appropriate": "Is the message appropriate: could this user say it at this point?",
    "relevant": "Is the response relevant: does it take up what the user says?",
    "correct": "Is the response correct: does it fit what the history shows of the user now?",
}
"""What is asked once the best response has been chosen, each answered by one of `VERDICTS`. With `BEST` they are the
four questions of the paper's study (arXiv 2504.14225), in words of our own."""
VERDICTS: Final = ("yes", "no", UNSURE)

_AROUND: Final = 2
"""Messages shown before and after each message of the evidence."""


@final
class SessionHeading(TypedDict):
    """Stands before the first message of a session."""

    session: str


@final
class Gap(TypedDict):
    """Stands for so many messages that are left out."""

    gap: int


@final
class ShownMessage(TypedDict):
    """A message of a history, by its index in the shared context, and whether it is evidence."""

    index: int
    role: str
    text: str
    evidence: bool


HistoryLine = SessionHeading | Gap | ShownMessage


class AnnotationItem(NamedTuple):
    """A question of the sample, and what is shown of its history: all of it where the dataset records no evidence."""

    row: QuestionRow
    lines: Sequence[HistoryLine]
    whole: bool

    @property
    def message(self) -> str:
        """What the user says."""
        return self.row["user_question_or_message"]

    @property
    def options(self) -> list[str]:
        """The responses, without their letters."""
        return option_texts(self.row)

    @property
    def response(self) -> str:
        """The right one of the responses."""
        return self.options[self.row["answer_index"]]


def read_split(folder: Path, split: str) -> list[QuestionRow]:
    """Return the questions of a split; raises `UserError` where their file has faults."""
    rows: list[QuestionRow] = read_questions(folder, split).to_pylist()
    return rows


def make_items(folder: Path, split: str, rows: Sequence[QuestionRow]) -> list[AnnotationItem]:
    """Add to questions of a split what is shown of their histories.

    Where a question has evidence, the messages around it are shown, else the whole history; the lines of whole
    histories are shared by the items of one context.

    Raises:
        UserError: The shared contexts cannot be read, or one is missing.
    """
    files = context_files(folder, split)
    by_context: dict[str, list[int]] = {}
    for place, row in enumerate(rows):
        by_context.setdefault(row["shared_context_id"], []).append(place)
    items: dict[int, AnnotationItem] = {}
    for context_id, places in by_context.items():
        context = read_context(files, context_id)
        own = [rows[place] for place in places]
        end = max((row["end_index_in_shared_context"] for row in own if not evidence_events(row)), default=0)
        whole = history_lines(context, range(end), (), end)
        for place, row in zip(places, own, strict=True):
            items[place] = _item(row, context, whole)
    return [items[place] for place in range(len(rows))]


def history_lines(context: ContextRow, shown: Iterable[int], evidence: Container[int], end: int) -> list[HistoryLine]:
    """Return some messages of a context, with a line before the first of each session, and one for each gap.

    Args:
        context: The shared context.
        shown: Indices of the messages, in order.
        evidence: Those that are evidence.
        end: Where the history ends.
    """
    starts, heads = context["session_starts"], _session_heads(context)
    lines: list[HistoryLine] = []
    following, session = 0, None
    for index in shown:
        if index > following:
            lines.append({"gap": index - following})
        here = bisect_right(starts, index) - 1
        if here != session and here >= 0:
            lines.append({"session": heads[here]})
        message = context["messages"][index]
        lines.append(
            {"index": index, "role": message["role"], "text": message["content"], "evidence": index in evidence}
        )
        following, session = index + 1, here
    if end > following:
        lines.append({"gap": end - following})
    return lines


def sample_digest(items: Sequence[AnnotationItem]) -> str:
    """Return what names a sample: 16 hexadecimal digits that follow from its questions and options."""
    content = [[item.row["question_id"], item.message, item.options] for item in items]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


def key_of(items: Sequence[AnnotationItem], *, split: str, data_digest: str, seed: int) -> dict[str, object]:
    """Return the key: which response is right, and what a table is split by. Raters do not get it."""
    return {
        "format": "personamem-annotation-key",
        "version": 1,
        "sample": sample_digest(items),
        "data_digest": data_digest,
        "split": split,
        "seed": seed,
        "items": [
            {
                "id": item.row["question_id"],
                "answer": option_letter(item.row["answer_index"]),
                "options": len(item.options),
                "persona_id": item.row["persona_id"],
                "question_type": item.row["question_type"],
                "topic": item.row["topic"],
            }
            for item in items
        ],
    }


def _item(row: QuestionRow, context: ContextRow, whole: Sequence[HistoryLine]) -> AnnotationItem:
    end, evidence = row["end_index_in_shared_context"], evidence_events(row)
    if not evidence:
        places = [place for place, line in enumerate(whole) if "index" in line and line["index"] < end]
        return AnnotationItem(row, whole[: places[-1] + 1] if places else [], True)
    shown = {near for index in evidence for near in range(index - _AROUND, index + _AROUND + 1)}
    # The first message tells who the user is, where it is the system's.
    shown |= {0} if context["messages"][0]["role"] == "system" else set()
    return AnnotationItem(row, history_lines(context, sorted(i for i in shown if 0 <= i < end), evidence, end), False)


def _session_heads(context: ContextRow) -> list[str]:
    """Return a name for each session; one that is about no topic only fills the context."""
    return [
        " · ".join(part for part in (f"Session {number}", topic, date) if part) if number else "Other talk"
        for _, number, topic, date in numbered_sessions(context)
    ]
