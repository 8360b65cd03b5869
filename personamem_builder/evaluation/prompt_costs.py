"""How many tokens the questions of a task take, without a model and without tokenising histories."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise, takewhile
from operator import eq
from typing import Any, Final, NamedTuple

from generation.tokenizer import num_tokens
from personamem_builder.dataset.contexts import open_contexts
from personamem_builder.dataset.folder import context_files
from personamem_builder.schema import QuestionRow

_PER_MESSAGE: Final = 4
"""Tokens that chat templates put around a message."""


_MOST_COMPARED: Final = 2_000
"""Contexts that are compared: more take minutes to read."""


class QuestionCost(NamedTuple):
    """What one question takes, in `o200k_base` tokens.

    Attributes:
        group: Name of the histories that start alike; empty where a question shares nothing with others.
        history: Of what is shown before the last turn.
        turn: Of the last turn: the question, and where they are shown the options.
        options: Of each continuation that is scored; empty where the model writes.
    """

    group: str
    history: int
    turn: int
    options: tuple[int, ...]

    @property
    def prompt(self) -> int:
        """Tokens of the whole prompt."""
        return self.history + self.turn

    @property
    def run_after(self) -> int:
        """Tokens of the options that a model runs: the last one of each never is."""
        return sum(tokens - 1 for tokens in self.options)


def question_costs(task: Any, docs: Sequence[QuestionRow], instruction: str | None) -> Iterator[QuestionCost]:
    """Yield what questions of a task take, those that share a history in a row and with growing histories.

    Whole histories are counted by the token columns of the questions, to which the tokens of a chat template are added.
    (The columns count a persona text once for each session, and only one is shown, so that official histories come out
    some 3 % too long.) Another user's history counts as long as the user's own. What other conditions show is read and
    counted.

    Args:
        task: A `PersonaMemTask`.
        docs: Its questions.
        instruction: lm-eval's system instruction.
    """
    written = task.OUTPUT_TYPE == "generate_until"
    shares = task.with_context and task.condition.shows_whole
    extra = num_tokens(instruction) if instruction else 0
    places: dict[str, list[QuestionRow]] = {}
    for number, doc in enumerate(docs):
        group = task.condition.group(doc) if shares else str(number)
        places.setdefault(group, []).append(doc)
    for group, own in places.items():
        for doc in sorted(own, key=lambda doc: doc["end_index_in_shared_context"]):
            turn = num_tokens(task.doc_to_text(doc)) + 2 * _PER_MESSAGE + (0 if shares else extra)
            history = _shown(task, doc, is_whole=shares) + (extra if shares else 0)
            choices = () if written else tuple(num_tokens(f" {text}") for text in task.doc_to_choice(doc))
            yield QuestionCost(group if shares else "", history, turn, choices)


def _shown(task: Any, doc: QuestionRow, *, is_whole: bool) -> int:
    """Return the tokens of what is shown before the last turn."""
    if not task.with_context:
        return 0
    if is_whole:
        question = num_tokens(doc["user_question_or_message"])
        return max(0, doc["context_length_in_tokens"] - question) + _PER_MESSAGE * doc["end_index_in_shared_context"]
    # The last turn may be part of a message with what is shown before it.
    messages = task.messages(doc)
    shown = sum(num_tokens(message["content"]) + _PER_MESSAGE for message in messages)
    return max(0, shown - num_tokens(task.doc_to_text(doc)) - _PER_MESSAGE)


class Shared(NamedTuple):
    """What questions in a row share.

    Attributes:
        cached: Tokens of each prompt that the one before it has too.
        distinct: Distinct tokens of all prompts.
    """

    cached: list[int]
    distinct: int


def shared_tokens(costs: Iterable[QuestionCost]) -> Shared:
    """Return what questions share with the one before, given in the order in which they are asked.

    Contexts that begin alike count each by itself, see `tokens_in_common`.
    """
    cached: list[int] = []
    distinct = 0
    for group, own in groupby(costs, key=lambda cost: cost.group):
        before = 0
        for cost in own:
            shared = min(before, cost.history) if group else 0
            cached.append(shared)
            distinct += cost.prompt - shared
            before = max(before, cost.history)
    return Shared(cached, distinct)


def tokens_in_common(task: Any, docs: Sequence[QuestionRow]) -> int | None:
    """Return the tokens that the shared contexts of some questions have in common with others at their start.

    Contexts of one persona often begin with the same sessions. Messages are compared and not tokenised: where in its
    tokens a context parts from another is taken from the token columns of the questions about it, between which it is
    interpolated.

    Returns:
        None where the contexts are not on this machine, or are too many to look at.
    """
    if not (task.with_context and task.condition.shows_whole):
        return 0
    files = context_files(task.source.folder, task.config.test_split)
    points: dict[int, dict[str, dict[int, int]]] = {}
    for doc in docs:
        own = points.setdefault(doc["persona_id"], {}).setdefault(task.condition.context_id(doc), {0: 0})
        own[doc["end_index_in_shared_context"]] = doc["context_length_in_tokens"]
    if sum(map(len, points.values())) > _MOST_COMPARED or not all(path.is_file() for path in files):
        return None
    store = open_contexts(task.source.folder)
    total = 0
    for contexts in points.values():
        # Those that begin alike stand beside each other, in whatever order.
        hashed = sorted(
            ([hash(message["content"]) for message in store.messages(context, max(own))], context)
            for context, own in contexts.items()
        )
        for (before, _), (messages, context) in pairwise(hashed):
            end = sum(1 for _ in takewhile(bool, map(eq, before, messages)))
            total += _tokens_at(end, contexts[context])
    return total


def _tokens_at(end: int, points: Mapping[int, int]) -> int:
    """Return the tokens of so many messages, given those of some numbers of them."""
    below = max(known for known in points if known <= end)
    above = min((known for known in points if known >= end), default=below)
    if below == above:
        return points[below]
    share = (end - below) / (above - below)
    return int(points[below] + share * (points[above] - points[below]))
