"""Shortcut policies: ways to choose an option without reading the conversation."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Final

from generation.seeds import rng_for
from generation.tokenizer import token_length
from personamem_builder.schema import QuestionRow, option_texts

Policy = Callable[[QuestionRow], list[float]]
"""Gives each option of a question row a value; the highest is chosen, and ties share the credit."""

_WORD: Final = re.compile(r"\w+")


def best_credit(values: Sequence[float] | Sequence[tuple[float, ...]], answer_index: int) -> float:
    """Return 1 if the right option has the highest value, shared equally between options that tie for it."""
    best = max(values)
    tied = [index for index, value in enumerate(values) if value == best]
    return 1 / len(tied) if answer_index in tied else 0.0


def opposite(policy: Policy) -> Policy:
    """Return the policy that prefers what another one puts last."""
    return lambda row: [-value for value in policy(row)]


def longest(row: QuestionRow) -> list[float]:
    """Prefer the longest option, in characters without its label."""
    return [float(len(text)) for text in option_texts(row)]


shortest: Final = opposite(longest)
"""Prefers the shortest option, in characters without its label."""


def longest_tokens(row: QuestionRow) -> list[float]:
    """Prefer the option of most `o200k_base` tokens, without its label."""
    return [float(token_length(text)) for text in option_texts(row)]


shortest_tokens: Final = opposite(longest_tokens)
"""Prefers the option of fewest `o200k_base` tokens, without its label."""


def overlap(row: QuestionRow) -> list[float]:
    """Prefer the option that shares most words with the question (Jaccard)."""
    question = _words(row["user_question_or_message"])
    return [jaccard(_words(text), question) for text in option_texts(row)]


least_overlap: Final = opposite(overlap)
"""Prefers the option that shares fewest words with the question (Jaccard)."""


def central(row: QuestionRow) -> list[float]:
    """Prefer the option most like the other options (mean Jaccard of their words)."""
    words = [_words(text) for text in option_texts(row)]
    return [
        # fsum: with plain sums the order of the options, and the version of Python, would decide ties.
        math.fsum(jaccard(own, other) for j, other in enumerate(words) if j != i) / max(1, len(words) - 1)
        for i, own in enumerate(words)
    ]


odd_one_out: Final = opposite(central)
"""Prefers the option least like the other options (mean Jaccard of their words)."""


def at_position(index: int) -> Policy:
    """Return the policy that always takes one position."""
    return lambda row: [float(i == index) for i in range(len(row["all_options"]))]


def at_random(seed: int) -> Policy:
    """Return the policy that draws an option, the same one for a seed and a question id in every process."""

    def policy(row: QuestionRow) -> list[float]:
        rng = rng_for(seed, "floor", "random", row["question_id"])
        return [rng.random() for _ in row["all_options"]]

    return policy


def type_length(rows: Sequence[QuestionRow]) -> Policy:
    """Learn for each question type whether the longest or the shortest option tends to be right.

    For a question, the labels of all other personas are used; its own persona's are not.
    """
    # credit[type][persona] = (credit of longest, credit of shortest)
    credit: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(lambda: [0.0, 0.0]))
    for row in rows:
        for side, values in enumerate((longest(row), shortest(row))):
            credit[row["question_type"]][row["persona_id"]][side] += best_credit(values, row["answer_index"])

    def policy(row: QuestionRow) -> list[float]:
        others = [sums for persona, sums in credit[row["question_type"]].items() if persona != row["persona_id"]]
        by_longest, by_shortest = (math.fsum(sums[side] for sums in others) for side in (0, 1))
        return longest(row) if by_longest >= by_shortest else shortest(row)

    return policy


POLICIES: Final[Mapping[str, Callable[[Sequence[QuestionRow], int], Policy]]] = {
    "longest": lambda rows, seed: longest,
    "shortest": lambda rows, seed: shortest,
    "first": lambda rows, seed: at_position(0),
    "second": lambda rows, seed: at_position(1),
    "third": lambda rows, seed: at_position(2),
    "fourth": lambda rows, seed: at_position(3),
    "overlap": lambda rows, seed: overlap,
    "central": lambda rows, seed: central,
    "random": lambda rows, seed: at_random(seed),
    "type-length": lambda rows, seed: type_length(rows),
}
"""Each policy by name, made from the questions of the run and a seed."""


def word_list(text: str) -> list[str]:
    """Return the words of a text in their order, in lower case: what stands between white space and punctuation."""
    return _WORD.findall(text.lower())


def _words(text: str) -> frozenset[str]:
    return frozenset(word_list(text))


def jaccard(a: Set[str], b: Set[str]) -> float:
    """Return the share of the words of either that both have, 0 where neither has any."""
    common = len(a & b)
    return common / (len(a) + len(b) - common) if common else 0.0
