"""What a question is asked with: the user's history, that of another user, or nothing of it but the evidence."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from generation.errors import UserError
from generation.seeds import rng_for
from personamem_builder.contexts import ContextStore, Message

HISTORIES: Final = ("full", "wrong_user", "evidence")
"""Values of `--metadata history=…`, the default first."""

Row = Mapping[str, Any]
History = Callable[[ContextStore, Row], tuple[list[Message], list[int]]]
"""Gives the messages that a question is asked with, and the indices among them at which a session starts."""


def own_history(store: ContextStore, row: Row) -> tuple[list[Message], list[int]]:
    """Return the context of a question, cut at its end index."""
    context_id = row["shared_context_id"]
    return store.messages(context_id, row["end_index_in_shared_context"]), store.session_starts(context_id)


def evidence(store: ContextStore, row: Row) -> tuple[list[Message], list[int]]:
    """Return the messages that the answer follows from, after the first system message: the persona."""
    messages, sessions = own_history(store, row)
    persona = [i for i, message in enumerate(messages) if message["role"] == "system"][:1]
    chosen = sorted({i for i in row["evidence_message_indices"] if i < len(messages)}.difference(persona))
    session = [bisect_right(sessions, i) for i in chosen]
    starts = [len(persona) + k for k in range(1, len(chosen)) if session[k] != session[k - 1]]
    return [messages[i] for i in (*persona, *chosen)], starts


def check_evidence(rows: Sequence[Row], origin: str) -> None:
    """Raise if questions do not say where their evidence stands.

    Raises:
        UserError: Some do not, as all of the official release.
    """
    if lacking := [row["question_id"] for row in rows if not row["evidence_message_indices"]]:
        raise UserError(
            f"history=evidence: {len(lacking)} of {len(rows)} questions of {origin} do not say where their evidence "
            f"stands, such as {lacking[0]}",
            "take generated data: the official release has none",
        )


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
                f"history=wrong_user needs another user, and {origin} has one persona in this split",
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

    def __call__(self, store: ContextStore, row: Row) -> tuple[list[Message], list[int]]:
        """Return the history that a question is asked with; see `History`."""
        other = self.context_id(row)
        starts = store.session_starts(other)
        # A message of the user whose answer is cut off would run into the question.
        ends = sorted({*starts, *self._ends[other]} - {0})
        end = min(ends, key=lambda end: abs(end - row["end_index_in_shared_context"]))
        return store.messages(other, end), starts
