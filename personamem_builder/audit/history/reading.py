"""Rules that answer a question by where, and how often, the words of its options stand in the history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from personamem_builder.audit.history.index import ASSISTANT, USER, HistoryIndex, best
from personamem_builder.audit.history.words import Assertion

Values = Sequence[tuple[float, ...]]
"""What a rule gives to each option; the highest is chosen, and ties share the credit."""

RULES: Final = ("last_mentioned", "first_mentioned", "most_mentioned", "least_mentioned")

CHECKS: Final = (
    *(f"history.{rule}" for rule in RULES),
    *(f"history.{rule}_by_anyone" for rule in RULES),
    "history.most_mentioned_by_assistant",
    "history.best_match",
    "history.best_match_bm25",
)

_ENOUGH: Final = 0.75
"""A message mentions a thing if it has this share of what the best message for any option of the question has."""


class Mentions(NamedTuple):
    """Where the parts of each option are mentioned: for each option and part the messages, in order.

    Attributes:
        user: Messages of the user.
        anyone: Messages of the user or the assistant.
        assistant: Messages of the assistant.
    """

    user: list[list[list[int]]]
    anyone: list[list[list[int]]]
    assistant: list[list[list[int]]]


def find_mentions(index: HistoryIndex, options: Sequence[Assertion], end: int) -> Mentions:
    """Find where the parts of options are mentioned before message `end`.

    The share of a part that a message has is that of its stems, weighted by `HistoryIndex.idf`. What is enough for a
    mention depends on the question: options of one word stand in messages as they are, long ones only in part.
    """
    shares = {
        role: [[index.shares(part, end, role) for part in option.segments] for option in options]
        for role in (USER, ASSISTANT)
    }

    def at_least(enough: float, role: str) -> list[list[list[int]]]:
        return [
            [sorted(i for i, share in part.items() if share >= enough) for part in option] for option in shares[role]
        ]

    def most(*roles: str) -> float:
        return max(
            (s for role in roles for option in shares[role] for part in option for s in part.values()), default=0
        )

    both, user = _ENOUGH * most(USER, ASSISTANT), _ENOUGH * most(USER)
    anyone = [
        [sorted({*a, *b}) for a, b in zip(*pair, strict=True)]
        for pair in zip(at_least(both, USER), at_least(both, ASSISTANT), strict=True)
    ]
    return Mentions(at_least(user, USER), anyone, at_least(_ENOUGH * most(ASSISTANT), ASSISTANT))


def rule_values(places: Sequence[Sequence[Sequence[int]]]) -> dict[str, Values]:
    """Return what each of `RULES` gives to each option, from where its parts are mentioned.

    Of an option with several parts the last mention is that of its last part; the one before it decides between
    options that are equal in this, and so on. For the first mention it is the first part. What is never mentioned is
    neither first nor last.
    """
    never = float("-inf")
    counts = [float(sum(map(len, parts))) for parts in places]
    return {
        "last_mentioned": _even([[own[-1] if own else never for own in reversed(parts)] for parts in places]),
        "first_mentioned": _even([[-own[0] if own else never for own in parts] for parts in places]),
        "most_mentioned": [(count,) for count in counts],
        "least_mentioned": [(-count,) for count in counts],
    }


def _even(values: Sequence[Sequence[float]]) -> Values:
    """Cut values to the same length, so that no option wins by having more parts."""
    shortest = min(map(len, values))
    return [tuple(own[:shortest]) for own in values]


def history_values(index: HistoryIndex, options: Sequence[Assertion], end: int) -> dict[str, Values]:
    """Return what each of `CHECKS` gives to each option of a question that sees the messages before `end`.

    A match is the best that an option has with a single message of the user.
    """
    mentions = find_mentions(index, options, end)
    by_user, by_anyone = rule_values(mentions.user), rule_values(mentions.anyone)
    by_assistant = rule_values(mentions.assistant)["most_mentioned"]
    overlap = [(best(index.overlap(option.stems, end)),) for option in options]
    bm25 = [(best(index.bm25(option.stems, end)),) for option in options]
    values = [*(by_user[rule] for rule in RULES), *(by_anyone[rule] for rule in RULES), by_assistant, overlap, bm25]
    return dict(zip(CHECKS, values, strict=True))
