"""Controls: conditions without a memory system, which show a stored history or a part of it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate, takewhile
from typing import Any, ClassVar, Final, NamedTuple

from generation.errors import UserError
from generation.seeds import rng_for
from generation.tokenizer import num_tokens
from personamem_builder.dataset.contexts import ContextStore
from personamem_builder.schema import Message, QuestionRow

History = tuple[list[Message], list[int]]
"""Messages, and the indices among them at which a session starts."""


class SplitQuestions(NamedTuple):
    """The questions of a split, those of them that are asked, and where they are from, for errors."""

    whole: Sequence[QuestionRow]
    asked: Sequence[QuestionRow]
    origin: str


class Control:
    """Shows the user's profile and then the messages of a stored history that `indices` chooses, here none.

    Attributes:
        name: Its name among the values of `--metadata memory=…`.
        takes_settings: Whether it has settings.
        shows_whole: Whether it shows all of a history, from its first message on and as it is stored.
        is_measured: Whether `personamem memory run` knows it.
        reads_whole_contexts: See `Condition`.
    """

    name: ClassVar[str]
    takes_settings: ClassVar[bool] = False
    shows_whole: ClassVar[bool] = False
    is_measured: ClassVar[bool] = True
    reads_whole_contexts: ClassVar[bool] = False

    def __init__(self, settings: Mapping[str, Any] | None, questions: SplitQuestions) -> None:
        self.settings = settings

    @property
    def identity(self) -> list[Any]:
        """See `Condition`."""
        return [self.name, self.settings]

    def prepare(self, split: str, rows: Sequence[QuestionRow]) -> dict[str, Any]:
        """Do nothing: all that it shows is stored."""
        return {}

    def group(self, row: QuestionRow) -> str:
        """See `Condition`."""
        return f"{self.name} {self.context_id(row)}"

    def context_id(self, row: QuestionRow) -> str:
        """See `Condition`."""
        return row["shared_context_id"]

    def end(self, row: QuestionRow, session_starts: Sequence[int]) -> int:
        """Return where the context that a question is asked with is cut; `session_starts` are its own."""
        return row["end_index_in_shared_context"]

    def indices(self, row: QuestionRow, messages: Sequence[Message], session_starts: Sequence[int]) -> Collection[int]:
        """Return which messages of the context, cut at `end`, a question is asked with, beside the profile."""
        return range(len(messages)) if self.shows_whole else ()

    def history(self, store: ContextStore, row: QuestionRow) -> History:
        """See `Condition`."""
        context_id = self.context_id(row)
        starts = store.session_starts(context_id)
        messages = store.messages(context_id, self.end(row, starts))
        return (
            (messages, starts) if self.shows_whole else _chosen(messages, starts, self.indices(row, messages, starts))
        )


def _chosen(messages: Sequence[Message], session_starts: Sequence[int], indices: Collection[int]) -> History:
    """Return some messages of a history after the profile, and where among them a session starts."""
    place = next((i for i, message in enumerate(messages) if message["role"] == "system"), None)
    profile = [] if place is None else [messages[place]]
    chosen = sorted({i for i in indices if i < len(messages)} - {place})
    session = [bisect_right(session_starts, i) for i in chosen]
    starts = [len(profile) + n for n in range(1, len(chosen)) if session[n] != session[n - 1]]
    return [*profile, *(messages[i] for i in chosen)], starts


class Full(Control):
    """The user's whole history."""

    name = "full"
    shows_whole = True


class Nothing(Control):
    """The question alone."""

    name = "none"

    def group(self, row: QuestionRow) -> str:
        """Return an empty name: there is nothing to share."""
        return ""

    def history(self, store: ContextStore, row: QuestionRow) -> History:
        """Return nothing, without the profile."""
        return [], []


class Persona(Control):
    """The user's profile."""

    name = "persona"
    is_measured = False  # the profile counts nowhere as found


class Oracle(Control):
    """The evidence: the messages that the answer follows from.

    Raises:
        UserError: Some questions do not say where it stands, as all of the official release.
    """

    name = "oracle"

    def __init__(self, settings: Mapping[str, Any] | None, questions: SplitQuestions) -> None:
        super().__init__(settings, questions)
        if lacking := [row["question_id"] for row in questions.asked if not row["evidence_message_indices"]]:
            raise UserError(
                f"memory=oracle: {len(lacking)} of {len(questions.asked)} questions of {questions.origin} do not say "
                f"where their evidence stands, such as {lacking[0]}",
                "take generated data: the official release has none",
            )

    def indices(self, row: QuestionRow, messages: Sequence[Message], session_starts: Sequence[int]) -> Collection[int]:
        """Return where the evidence stands."""
        return row["evidence_message_indices"] or ()


class WrongUser(Control):
    """The histories of other users: each shared context stands for one of another persona.

    It is drawn from those of the split that are long enough for all questions about the own one, or is the longest
    where none is. For each question it is cut where, nearest to as many messages as the question's own history has, a
    session ends or a question about it stands.

    Raises:
        UserError: The questions of the split are about one persona.
    """

    name = "wrong-user"
    shows_whole = True

    def __init__(self, settings: Mapping[str, Any] | None, questions: SplitQuestions) -> None:
        super().__init__(settings, questions)
        owners: dict[str, int] = {}
        self._ends: dict[str, set[int]] = {}
        for row in questions.whole:
            owners[row["shared_context_id"]] = row["persona_id"]
            self._ends.setdefault(row["shared_context_id"], set()).add(row["end_index_in_shared_context"])
        if len(set(owners.values())) < 2:
            raise UserError(
                f"memory=wrong-user needs another user, and {questions.origin} has one persona in this split",
                "take data with at least two personas",
            )
        self._other = {context_id: self._draw(context_id, owners) for context_id in owners}

    def _draw(self, context_id: str, owners: Mapping[str, int]) -> str:
        others = sorted(other for other, persona in owners.items() if persona != owners[context_id])
        length = {other: max(self._ends[other]) for other in others}
        needed = min(max(self._ends[context_id]), max(length.values()))
        drawable = [other for other in others if length[other] >= needed]
        return rng_for(0, "wrong user", context_id).choice(drawable)

    def context_id(self, row: QuestionRow) -> str:
        """Return the id of another user's shared context."""
        return self._other[row["shared_context_id"]]

    def end(self, row: QuestionRow, session_starts: Sequence[int]) -> int:
        """Return an end about as far into it as the question is into its own."""
        # A message of the user whose answer is cut off would run into the question.
        ends = sorted({*session_starts, *self._ends[self.context_id(row)]} - {0})
        return min(ends, key=lambda end: abs(end - row["end_index_in_shared_context"]))


class Recent(Control):
    """The end of the user's history.

    `settings` are `{"tokens": N}`, for whole messages of at most so many `o200k_base` tokens together, or
    `{"sessions": N}`, for the last sessions, the one in which the question stands included.

    Raises:
        UserError: They are neither of the two, or N is no positive number.
    """

    name = "recent"
    takes_settings = True

    def __init__(self, settings: Mapping[str, Any] | None, questions: SplitQuestions) -> None:
        super().__init__(settings, questions)
        given = settings or {}
        hint = '--metadata \'{"memory": "recent", "settings": {"tokens": 4000}}\', or sessions in place of tokens'
        if len(given) != 1 or not given.keys() <= {"tokens", "sessions"}:
            raise UserError(f"memory=recent takes tokens or sessions, not {', '.join(given) or 'nothing'}", hint)
        for name, value in given.items():
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise UserError(f"memory=recent: {name}={value!r} is no positive whole number", hint)
        self._tokens: int = given.get("tokens", 0)
        self._sessions: int | None = given.get("sessions")

    def group(self, row: QuestionRow) -> str:
        """Return a name for each point at which questions stand: at another the history begins elsewhere."""
        return f"{super().group(row)} {row['end_index_in_shared_context']}"

    def indices(self, row: QuestionRow, messages: Sequence[Message], session_starts: Sequence[int]) -> Collection[int]:
        """Return what was said from the first message on that is recent enough."""
        first = self._first_index(messages, session_starts)
        return [i for i in range(first, len(messages)) if messages[i]["role"] != "system"]

    def _first_index(self, messages: Sequence[Message], session_starts: Sequence[int]) -> int:
        if self._sessions is not None:
            starts = sorted({0, *session_starts})
            starts = starts[: bisect_left(starts, len(messages))]
            return starts[-self._sessions] if self._sessions < len(starts) else 0
        sums = accumulate(num_tokens(m["content"]) if m["role"] != "system" else 0 for m in reversed(messages))
        return len(messages) - sum(1 for _ in takewhile(lambda total: total <= self._tokens, sums))


CONTROLS: Final[Mapping[str, type[Control]]] = {
    control.name: control for control in (Full, Nothing, Persona, Oracle, WrongUser, Recent)
}
"""The controls by name, the default first."""
