"""Histories that are no memory: another user's, the evidence alone, the last messages."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, takewhile
from typing import Any, NamedTuple

from generation.errors import UserError
from generation.seeds import rng_for
from generation.tokenizer import num_tokens
from personamem_builder.contexts import Message

Row = Mapping[str, Any]


def check_evidence(rows: Sequence[Row], origin: str) -> None:
    """Raise if questions do not say where their evidence stands.

    Raises:
        UserError: Some do not, as all of the official release.
    """
    if lacking := [row["question_id"] for row in rows if not row["evidence_message_indices"]]:
        raise UserError(
            f"memory=oracle: {len(lacking)} of {len(rows)} questions of {origin} do not say where their evidence "
            f"stands, such as {lacking[0]}",
            "take generated data: the official release has none",
        )


class Recent(NamedTuple):
    """How much of the end of a history is shown; one of the two.

    Attributes:
        tokens: Whole messages of at most so many `o200k_base` tokens together.
        sessions: The last sessions, the one in which the question stands included.
    """

    tokens: int | None = None
    sessions: int | None = None

    def first_index(self, messages: Sequence[Message], session_starts: Sequence[int]) -> int:
        """Return the first message that is shown of a history.

        Args:
            messages: The history.
            session_starts: Where its sessions start.
        """
        if self.sessions is not None:
            starts = sorted({0, *session_starts})
            starts = starts[: bisect_left(starts, len(messages))]
            return starts[-self.sessions] if self.sessions < len(starts) else 0
        sums = accumulate(num_tokens(m["content"]) if m["role"] != "system" else 0 for m in reversed(messages))
        return len(messages) - sum(1 for _ in takewhile(lambda total: total <= (self.tokens or 0), sums))


def recent(settings: Mapping[str, Any]) -> Recent:
    """Return what `recent` shows.

    Args:
        settings: `{"tokens": N}` or `{"sessions": N}`.

    Raises:
        UserError: It is neither of the two, or N is no positive number.
    """
    hint = '--metadata \'{"memory": "recent", "settings": {"tokens": 4000}}\', or sessions in place of tokens'
    if len(settings) != 1 or not settings.keys() <= {"tokens", "sessions"}:
        raise UserError(f"memory=recent takes tokens or sessions, not {', '.join(settings) or 'nothing'}", hint)
    for name, value in settings.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise UserError(f"memory=recent: {name}={value!r} is no positive whole number", hint)
    return Recent(**settings)


class WrongUser:
    """The histories of other users: each shared context stands for one of another persona.

    It is drawn from those of the split that are long enough for all questions about the own one, or is the longest
    where none is. For each question it is cut where, nearest to as many messages as the question's own history has, a
    session ends or a question about it stands.

    Args:
        rows: All questions of a split.
        origin: What they are from, for errors.

    Raises:
        UserError: They are about one persona.
    """

    def __init__(self, rows: Iterable[Row], origin: str) -> None:
        owners: dict[str, int] = {}
        self._ends: dict[str, set[int]] = {}
        for row in rows:
            owners[row["shared_context_id"]] = row["persona_id"]
            self._ends.setdefault(row["shared_context_id"], set()).add(row["end_index_in_shared_context"])
        if len(set(owners.values())) < 2:
            raise UserError(
                f"memory=wrong-user needs another user, and {origin} has one persona in this split",
                "take data with two personas or more",
            )
        self._other = {context_id: self._draw(context_id, owners) for context_id in owners}

    def _draw(self, context_id: str, owners: Mapping[str, int]) -> str:
        others = sorted(other for other, persona in owners.items() if persona != owners[context_id])
        length = {other: max(self._ends[other]) for other in others}
        needed = min(max(self._ends[context_id]), max(length.values()))
        drawable = [other for other in others if length[other] >= needed]
        return rng_for(0, "wrong user", context_id).choice(drawable)

    def context_id(self, row: Row) -> str:
        """Return the id of the shared context that a question is asked with."""
        return self._other[row["shared_context_id"]]

    def end(self, row: Row, session_starts: Sequence[int]) -> int:
        """Return where the shared context that a question is asked with is cut; `session_starts` are its own."""
        # A message of the user whose answer is cut off would run into the question.
        ends = sorted({*session_starts, *self._ends[self.context_id(row)]} - {0})
        return min(ends, key=lambda end: abs(end - row["end_index_in_shared_context"]))
