"""The passes of an engine that score the options of a question, each distinct token prefix in one of them.

An engine with a prefix cache computes only what it does not hold, and gives log-probabilities only of what it computes.
Where options begin alike, what stands behind their shared tokens is found in the pass that is the first to run them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Pass(NamedTuple):
    """One prompt to run.

    Attributes:
        prompt: Token ids, options included.
        start: The first position whose next token is asked for: behind `prompt[: start + 1]`.
        ids: For each position from `start` to the last but one, the tokens whose log-probabilities are wanted there.
    """

    prompt: list[int]
    start: int
    ids: list[list[int]]


class OptionPasses(NamedTuple):
    """The passes of a question, and where they tell of its options.

    Attributes:
        places: For each option and each of its tokens: which pass, which row of it, and which of the ids there.
    """

    passes: list[Pass]
    places: list[list[tuple[int, int, int]]]

    def token_logprobs(self, scores: Sequence[Sequence[Sequence[float]]]) -> list[list[float]]:
        """Return the log-probabilities of each option's tokens, given those of each pass in the form of its `ids`."""
        return [[scores[number][row][column] for number, row, column in own] for own in self.places]


def plan_options(prompt: Sequence[int], options: Sequence[Sequence[int]]) -> OptionPasses:
    """Plan the passes that score options after a prompt, which is not empty."""
    passes: list[Pass] = []
    rows: dict[tuple[int, ...], tuple[int, int]] = {}  # of what an option begins with: who runs it, and where
    places: list[list[tuple[int, int, int]]] = []
    for option in options:
        own: list[tuple[int, int, int]] = []
        is_run = False
        for length, token in enumerate(option):
            before = tuple(option[:length])
            if before not in rows:  # nor is anything longer
                if not is_run:
                    passes.append(Pass([*prompt, *option], len(prompt) - 1 + length, []))
                    is_run = True
                rows[before] = (len(passes) - 1, len(passes[-1].ids))
                passes[-1].ids.append([])
            number, row = rows[before]
            ids = passes[number].ids[row]
            if token not in ids:
                ids.append(token)
            own.append((number, row, ids.index(token)))
        places.append(own)
    return OptionPasses(passes, places)
