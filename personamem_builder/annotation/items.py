"""What raters see of a question: the history or its evidence, the message, and the options."""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from generation.errors import UserError
from personamem_builder.contexts import AGAIN, read_context
from personamem_builder.dataset.folder import contexts_path
from personamem_builder.dataset.load import read_questions
from personamem_builder.schema import option_letter, option_texts

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

Line = Mapping[str, Any]
"""A line of a history: `{session}`, `{gap}` (messages left out), or `{index, role, text, evidence}`."""


class Item(NamedTuple):
    """A question of the sample.

    Attributes:
        row: The row of the question table.
        lines: What is shown of its history.
        whole: Whether that is all of it, since the dataset records no evidence.
    """

    row: Mapping[str, Any]
    lines: Sequence[Line]
    whole: bool

    @property
    def id(self) -> str:
        """Id of the question."""
        return str(self.row["question_id"])

    @property
    def message(self) -> str:
        """What the user says."""
        return str(self.row["user_question_or_message"])

    @property
    def options(self) -> list[str]:
        """The responses, without their letters."""
        return option_texts(self.row)

    @property
    def answer(self) -> int:
        """Index of the right response."""
        return int(self.row["answer_index"])


def read_split(folder: Path, split: str) -> list[dict[str, Any]]:
    """Read the questions of a split.

    Raises:
        UserError: Their file cannot be read, or has faults.
    """
    rows: list[dict[str, Any]] = read_questions(folder, split).to_pylist()
    return rows


def make_items(folder: Path, split: str, rows: Sequence[Mapping[str, Any]]) -> list[Item]:
    """Add to questions what is shown of their histories.

    Args:
        folder: The dataset folder.
        split: Their split.
        rows: The questions.

    Returns:
        The items, in the order of the questions. Where a question has evidence, the messages around it are shown, else
        the whole history; the lines of whole histories are shared by the items of one context.

    Raises:
        UserError: The shared contexts cannot be read, or one is missing.
    """
    path = folder / contexts_path(split)
    by_context: dict[str, list[int]] = {}
    for place, row in enumerate(rows):
        by_context.setdefault(row["shared_context_id"], []).append(place)
    items: dict[int, Item] = {}
    for context_id, places in by_context.items():
        context = _read(path, context_id)
        own = [rows[place] for place in places]
        end = max((row["end_index_in_shared_context"] for row in own if not _evidence(row)), default=0)
        whole = history_lines(context, range(end), (), end)
        for place, row in zip(places, own, strict=True):
            items[place] = _item(row, context, whole)
    return [items[place] for place in range(len(rows))]


def history_lines(context: Mapping[str, Any], shown: Iterable[int], evidence: Collection[int], end: int) -> list[Line]:
    """Return the lines that show some messages of a context.

    Args:
        context: The row of the shared context.
        shown: Indices of the messages, in order.
        evidence: Those that are evidence.
        end: Where the history ends.

    Returns:
        The messages, with a line before the first of each session, and one for each gap.
    """
    starts, heads = context["session_starts"], _session_heads(context)
    lines: list[Line] = []
    following, session = 0, None
    for index in shown:
        if index > following:
            lines.append({"gap": index - following})
        here = bisect_right(starts, index) - 1
        if here != session and here >= 0:
            lines.append({"session": heads[here]})
        message = context["messages"][index]
        line = {"index": index, "role": message["role"], "text": message["content"], "evidence": index in evidence}
        lines.append(line)
        following, session = index + 1, here
    if end > following:
        lines.append({"gap": end - following})
    return lines


def sample_digest(items: Sequence[Item]) -> str:
    """Return what names a sample: 16 hexadecimal digits that follow from its questions and options."""
    content = [[item.id, item.message, item.options] for item in items]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


def key_of(items: Sequence[Item], *, split: str, data_digest: str, seed: int) -> dict[str, Any]:
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
                "id": item.id,
                "answer": option_letter(item.answer),
                "options": len(item.options),
                "persona_id": item.row["persona_id"],
                "question_type": item.row["question_type"],
                "topic": item.row["topic"],
            }
            for item in items
        ],
    }


def _evidence(row: Mapping[str, Any]) -> set[int]:
    return set(row["evidence_message_indices"] or ())


def _item(row: Mapping[str, Any], context: Mapping[str, Any], whole: Sequence[Line]) -> Item:
    end, evidence = row["end_index_in_shared_context"], _evidence(row)
    if not evidence:
        places = [place for place, line in enumerate(whole) if line.get("index", -1) < end and "index" in line]
        return Item(row, whole[: places[-1] + 1] if places else [], True)
    shown = {near for index in evidence for near in range(index - _AROUND, index + _AROUND + 1)}
    # The first message tells who the user is, where it is the system's.
    shown |= {0} if context["messages"][0]["role"] == "system" else set()
    return Item(row, history_lines(context, sorted(i for i in shown if 0 <= i < end), evidence, end), False)


def _session_heads(context: Mapping[str, Any]) -> list[str]:
    """Return a name for each session; one that is about no topic only fills the context."""
    known = any(context["session_topics"])
    heads, number = [], 0
    for topic, date in zip(context["session_topics"], context["session_dates"], strict=True):
        if known and not topic:
            heads.append("Other talk")
            continue
        number += 1
        heads.append(" · ".join(part for part in (f"Session {number}", topic, date) if part))
    return heads


def _read(path: Path, context_id: str) -> dict[str, Any]:
    context = read_context(path, context_id)
    if context is None:
        raise UserError(f"{path} has no context {context_id}", AGAIN)
    return context
