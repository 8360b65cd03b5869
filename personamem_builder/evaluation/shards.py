"""Parts of an evaluation: which questions each of several processes asks."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from generation.errors import UserError
from generation.files import json_digest
from generation.shards import Shard
from personamem_builder.schema import QuestionRow

Docs = list[tuple[int, QuestionRow]]
"""Questions with their numbers in the run, as lm-eval's tasks yield them."""


def part_folder(shard: Shard) -> str:
    """Return the folder of the results of a part: `part-3-of-8`, with zeros where that sorts parts by number."""
    return f"part-{shard.number:0{len(str(shard.of))}}-of-{shard.of}"


def deal(costs: Mapping[str, int], count: int) -> list[set[str]]:
    """Deal what has a cost, by its name, into parts of about equal cost.

    The longest goes first, each into the part that is least full. Then, as long as that makes the fullest part less
    full, something of it changes places with something smaller, or with nothing, of the emptiest part that allows it.
    There are parts without anything only where there are more parts than names.

    Args:
        costs: Positive costs; their order does not matter.
        count: Number of parts.
    """
    parts: list[set[str]] = [set() for _ in range(count)]
    loads = [0] * count

    def move(name: str, source: int | None, target: int) -> None:
        if source is not None:
            parts[source].remove(name)
            loads[source] -= costs[name]
        parts[target].add(name)
        loads[target] += costs[name]

    for name in sorted(costs, key=lambda name: (-costs[name], name)):
        move(name, None, loads.index(min(loads)))
    while (change := _best_change(costs, parts, loads)) is not None:
        fullest, other, given, taken = change
        move(given, fullest, other)
        if taken:
            move(taken, other, fullest)
    return parts


def _best_change(
    costs: Mapping[str, int], parts: Sequence[set[str]], loads: Sequence[int]
) -> tuple[int, int, str, str | None] | None:
    """Return the fullest part, another one, and what they exchange, so that both come nearest to each other."""
    fullest = loads.index(max(loads))
    for other in sorted(range(len(loads)), key=lambda index: (loads[index], index)):
        gap = loads[fullest] - loads[other]
        taken = [(0, ""), *((costs[name], name) for name in parts[other])]
        changes = [
            (abs(gap - 2 * (costs[name] - cost)), name, back)
            for name in parts[fullest]
            for cost, back in taken
            if 0 < costs[name] - cost < gap
        ]
        if changes:
            _, given, back = min(changes)
            return fullest, other, given, back or None
    return None


def context_costs(docs: Docs, context_of: Callable[[QuestionRow], str], *, shares_history: bool) -> dict[str, int]:
    """Return what the questions of each shared context cost, by the id of the context.

    Where they share its history, that is in tokens: its longest prefix, and each question with its options, whose
    tokens are estimated from their characters at the rate of the history. Else each question counts for one.
    """
    prefixes: dict[str, int] = {}
    costs: dict[str, int] = {}
    for _, doc in docs:
        context = context_of(doc)
        own = 1
        if shares_history:
            tokens, letters = doc["context_length_in_tokens"], doc["context_length_in_letters"]
            prefixes[context] = max(prefixes.get(context, 0), tokens)
            shown = len(doc["user_question_or_message"]) + sum(map(len, doc["all_options"]))
            own = max(1, shown * tokens // max(1, letters))
        costs[context] = costs.get(context, 0) + own
    return {context: cost + prefixes.get(context, 0) for context, cost in costs.items()}


def deal_contexts(
    docs: Docs, count: int, context_of: Callable[[QuestionRow], str], *, shares_history: bool
) -> list[Docs]:
    """Deal questions into parts of whole contexts, each in the order of the questions; see `context_costs`."""
    dealt = deal(context_costs(docs, context_of, shares_history=shares_history), count)
    part_of = {context: index for index, part in enumerate(dealt) for context in part}
    parts: list[Docs] = [[] for _ in range(count)]
    for number, doc in docs:
        parts[part_of[context_of(doc)]].append((number, doc))
    return parts


def plan_digest(parts: Sequence[Sequence[str]]) -> str:
    """Return the digest of which questions, by id, each part asks: parts of one run agree in it."""
    return json_digest([list(part) for part in parts])


def check_processes(world_size: int, *, is_ours: bool) -> None:
    """Refuse processes that share a run where lm-eval would lose questions or metrics.

    Args:
        world_size: Number of processes.
        is_ours: Whether `personamem eval` runs them.

    Raises:
        UserError: Several run the plain `lm_eval` command, or they are on several machines.
    """
    if world_size == 1:
        return
    if not is_ours:
        raise UserError(
            "on several processes the plain lm_eval command loses metrics that only some of them have",
            "launch `personamem eval` in its place, with the same arguments",
        )
    if int(os.environ.get("LOCAL_WORLD_SIZE", world_size)) != world_size:
        raise UserError(
            "lm-eval numbers the processes of each machine from 0, so several machines would ask the same questions",
            "launch each machine on its own, with --shard 1/2, --shard 2/2 and so on, then `personamem merge`",
        )
