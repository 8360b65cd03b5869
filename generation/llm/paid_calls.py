"""Calls to language models that were paid for, one by one and summed up."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat

CallOutcome = Literal["ok", "repaired", "cut", "refusal", "rejected", "error"]
"""What came of a call: a good reply, a good one to a repair turn, or what was wrong with it."""

ShareOf = Literal["persona_id", "topic"]
"""By what calls are shared out."""

MOST_TOKENS: Final = 10**12  # of a call


class PaidCall(BaseModel):
    """A line of a ledger.

    Attributes:
        cost: In US dollars; None where the model had no price.
        persona_id: For which user it was; None if for none.
        topic: In which topic; empty if in none.
        disagreed: Of a reading, whether it found something else than was to be written; None of other calls.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    stage: str
    template: str
    model: str
    prompt_tokens: int = Field(ge=0, le=MOST_TOKENS)
    reply_tokens: int = Field(ge=0, le=MOST_TOKENS)
    cost: NonNegativeFloat | None
    outcome: CallOutcome
    persona_id: int | None = None
    topic: str = ""
    disagreed: bool | None = None


class Readings(NamedTuple):
    """How often texts were read back by one model, and how often it found something else than was to be written."""

    texts: int
    disagreed: int


@dataclass
class StageUsage:
    """The calls of one stage to one model.

    Attributes:
        cost: In US dollars; None if that of any of the calls is unknown.
        outcomes: How often each outcome was.
    """

    stage: str
    model: str
    calls: int = 0
    prompt_tokens: int = 0
    reply_tokens: int = 0
    cost: float | None = 0.0
    outcomes: dict[CallOutcome, int] = field(default_factory=dict)


@dataclass
class Share:
    """The calls for one user, or in one topic; the cost is None if that of any is unknown."""

    calls: int = 0
    cost: float | None = 0.0
