"""The no-context filter: questions that a model answers without any history."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import permutations
from typing import Final, Literal, NamedTuple

from pydantic import BaseModel

from generation.errors import UserError
from generation.llm.backends import KINDS, parse_backend
from generation.llm.client import Client, ReplyError, Request
from generation.records import Question
from generation.seeds import rng_for
from personamem_builder.assemble.refined import Filtered, NoContext
from personamem_builder.refine.clients import Clients, ConnectedBackend
from personamem_builder.refine.drafts import QuestionDraft
from personamem_builder.schema import option_index

_ORDERS: Final = tuple(permutations(range(4)))
_CHANCE: Final = 0.25


class NoContextFilter(NamedTuple):
    """Who answers, and what drops a question.

    Attributes:
        model: The name of the backend.
        votes: Answers to each question, each with the options in another order.
        at_least: Right answers that drop it.
    """

    model: str
    votes: int
    at_least: int


class Answer(BaseModel):
    """What the model replies."""

    choice: Literal["a", "b", "c", "d"]


def check_filter(filter_: NoContextFilter) -> None:
    """Refuse a filter that cannot work.

    Raises:
        UserError: There is no such backend, it cannot read, or the numbers are impossible.
    """
    if parse_backend(filter_.model).is_offline:
        raise UserError("--no-context: the offline backend cannot read questions", f"give {' or '.join(KINDS[:2])}")
    if not 1 <= filter_.votes <= len(_ORDERS):
        raise UserError(
            f"--votes must be from 1 to {len(_ORDERS)}, as many as four options have orders (it is {filter_.votes})"
        )
    if not 1 <= filter_.at_least <= filter_.votes:
        raise UserError(
            f"--at-least must be from 1 to --votes, {filter_.votes} (it is {filter_.at_least})",
            "so many of the answers have to be right for a question to be dropped",
        )


def no_context_request(question: Question, vote: int) -> Request:
    """Return the call for a vote, from 0, on message and options alone; each vote has its own order of options."""
    options = [question.options[i].text for i in _order(question, vote)]
    return Request("no_context", {"message": question.message, "options": options}, (question.question_id, vote))


def _order(question: Question, vote: int) -> tuple[int, ...]:
    # All are shuffled, so that the first votes are the same however many there are.
    return rng_for(0, "no_context", question.question_id).sample(_ORDERS, len(_ORDERS))[vote]


def apply_filter(
    clients: Clients, model: ConnectedBackend, filter_: NoContextFilter, drafts: Sequence[QuestionDraft]
) -> NoContext:
    """Have questions answered without the history, and drop those that are answered right too often.

    An answer that cannot be used counts as not right.

    A model that guesses anew each time is right `at_least` times of `votes` in a part of the questions that the
    binomial distribution gives. One that knows nothing but has its favourites is consistent, and right in a quarter of
    them: how many such fall is told by how often one wrong option is chosen as often.

    Questions that are dropped already are left alone.
    """
    kept = [draft for draft in drafts if draft.dropped is None]
    client = clients.client(model, "no_context")
    tasks = [(draft.question, vote) for draft in kept for vote in range(filter_.votes)]
    what = f"asking {filter_.model} without the history"
    answers = list(clients.map(model, what, lambda task: _answer(client, *task), tasks))
    by_type: dict[str, Counter[str]] = {}
    for i, draft in enumerate(kept):
        chosen = answers[i * filter_.votes : (i + 1) * filter_.votes]
        draft.votes = [None if one is None else one == draft.question.answer_index for one in chosen]
        counts = by_type.setdefault(draft.question.question_type, Counter())
        counts["asked"] += 1
        counts["unusable"] += chosen.count(None)
        often = [one for one in range(4) if chosen.count(one) >= filter_.at_least]
        if draft.question.answer_index in often:
            draft.dropped = "no_context"
            counts["dropped"] += 1
        counts["wrong"] += sum(one != draft.question.answer_index for one in often)
    total = sum(by_type.values(), Counter[str]())
    return NoContext(
        model=filter_.model,
        votes=filter_.votes,
        at_least=filter_.at_least,
        unusable=total["unusable"],
        all=_filtered(total, filter_),
        types={name: _filtered(counts, filter_) for name, counts in by_type.items()},
    )


def _answer(client: Client, question: Question, vote: int) -> int | None:
    """Return the option that the model chooses, as an index into those of the question."""
    try:
        answer = client.ask(no_context_request(question, vote), Answer)
    except ReplyError:
        return None
    return _order(question, vote)[option_index(answer.choice)]


def _filtered(counts: Counter[str], filter_: NoContextFilter) -> Filtered:
    return Filtered(
        asked=counts["asked"],
        dropped=counts["dropped"],
        by_chance=round(counts["asked"] * chance_of(filter_.votes, filter_.at_least), 2),
        by_taste=round(counts["wrong"] / 3, 2),
    )


def chance_of(votes: int, at_least: int) -> float:
    """Return how likely at least so many of some guesses among four options are right."""
    return sum(math.comb(votes, k) * _CHANCE**k * (1 - _CHANCE) ** (votes - k) for k in range(at_least, votes + 1))
