"""How likely a chat endpoint finds each letter, from the log-probabilities that it gives of its first tokens."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from generation.llm.token_choices import TokenChoice
from personamem_builder.schema import option_letters

TOP: Final = 20
"""Alternatives that are asked for at each token: as many as most endpoints give."""

MOST_TOKENS: Final = 3
"""Tokens of a reply that are asked for: a letter may stand behind a bracket that is a token of its own."""

_OPENING: Final = re.compile(r"[\s(\[{\"'*_`]*")
_SPELLING: Final = re.compile(r"[\s(\[{\"'*_`]*([a-z])[\s)\]}.:,\"'*_`]*", re.IGNORECASE)


class LetterScores(NamedTuple):
    """Log-probabilities of letters, by option.

    Attributes:
        logprobs: Of a letter that is not among the tokens seen, an upper bound: that of the least likely first token.
        seen: Which letters are among the tokens seen.
        unseen: Probability that is on no letter seen: of other words, or of tokens beyond those given.
    """

    logprobs: list[float]
    seen: list[bool]
    unseen: float


def letter_scores(tokens: Sequence[TokenChoice], count: int) -> LetterScores:
    """Return how likely each of `count` letters is, in all its spellings.

    A letter is spelled with any white space, brackets, quotes or marks around it, in either case. What is written first
    may be such marks alone; the letters behind them then count with the probability of the marks.
    """
    known = option_letters(count)
    mass = dict.fromkeys(known, 0.0)
    before, reached = "", 0.0  # what is written so far, and its log-probability
    for token in tokens:
        for text, logprob in dict(token.top).items():
            spelled = _SPELLING.fullmatch(before + text)
            if spelled and spelled[1].lower() in mass:
                mass[spelled[1].lower()] += math.exp(reached + logprob)
        before += token.written
        written = dict(token.top).get(token.written)
        if written is None or not _OPENING.fullmatch(before):
            break
        reached += written
    least = min(logprob for _, logprob in tokens[0].top)
    seen = [mass[letter] > 0 for letter in known]
    logprobs = [math.log(mass[letter]) if mass[letter] > 0 else least for letter in known]
    return LetterScores(logprobs, seen, max(0.0, 1.0 - sum(mass.values())))
