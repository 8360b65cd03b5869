"""What a chat model's reply to one question is: its text, and how it came about."""

from __future__ import annotations

from typing import Literal, Self

Outcome = Literal["answered", "refused", "cut", "failed"]
"""`answered`: whole. `refused`: declined by the model, or withheld by a filter. `cut`: at the longest reply.
`failed`: no answer came within all tries; says nothing about the model."""


class Reply(str):
    """A reply as lm-eval passes it on, which knows strings only.

    Attributes:
        outcome: How it came about.
        finish_reason: As the endpoint gave it; empty where it gave none. For a failure, what happened.
    """

    __slots__ = ("finish_reason", "outcome")

    outcome: Outcome
    finish_reason: str

    def __new__(cls, text: str, outcome: Outcome = "answered", finish_reason: str = "") -> Self:
        """Make a reply."""
        reply = super().__new__(cls, text)
        reply.outcome = outcome
        reply.finish_reason = finish_reason
        return reply

    # So that pickle, which carries replies from rank to rank, keeps what is beside the text.
    def __getnewargs__(self) -> tuple[str, Outcome, str]:  # type: ignore[override]
        return str(self), self.outcome, self.finish_reason
