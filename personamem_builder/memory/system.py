"""What a memory system is: the few methods through which the benchmark speaks to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from personamem_builder.schema import Message


class Session(NamedTuple):
    """One conversation of a history, as a memory system is shown it.

    Attributes:
        number: Its place in the history, from 0.
        date: ISO date; empty where it is not known.
        messages: `{role, content}`; the first may be a system message that describes the user.
        first_index: Index of the first message in the whole history.
    """

    number: int
    date: str
    messages: tuple[Message, ...]
    first_index: int


class Memory(NamedTuple):
    """A piece of what a memory system knows.

    Attributes:
        text: What is put before the model.
        date: ISO date of what it tells; empty where it is not known.
        message_indices: The messages of the history that it stands for word for word; empty where the text is the
            system's own.
    """

    text: str
    date: str = ""
    message_indices: tuple[int, ...] = ()


class MemorySystem(Protocol):
    """A memory of one user at a time.

    A system may also have `answer(query, options) -> int`, which gives the index of the option that it chooses itself,
    and `snapshot() -> bytes` with `restore(bytes)`. One that keeps what it knows in one place outside of itself has the
    attribute `parallel = False`: it is never made twice at a time, see `SystemSpec.is_parallel`. It never sees types,
    golds or evidence, and sees a question's text only in `search`. With `search_with_options(query, k, options)` in its
    place it sees the options too, and all that it finds counts as tainted. `takes_in_once = True` says that a session
    which is shown again is not taken in again.
    """

    def reset(self) -> None:
        """Forget everything: another user's history begins."""

    def add_session(self, session: Session) -> None:
        """Take in the next conversation."""

    def search(self, query: str, k: int) -> Sequence[Memory]:
        """Return up to `k` memories that bear on a message of the user, the best first; this changes nothing."""
