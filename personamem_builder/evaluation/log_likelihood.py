"""How likely a model finds a text, as lm-eval passes it on, with the tokens it is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class LogLikelihood(tuple[float, bool]):
    """lm-eval's pair `(logprob, is_greedy)`, with what it was made of.

    Attributes:
        token_logprobs: Log-probability of each token of the continuation.
    """

    token_logprobs: list[float]

    def __new__(cls, token_logprobs: Sequence[float], is_greedy: bool) -> LogLikelihood:
        """Make the pair from the log-probabilities of the tokens."""
        pair = super().__new__(cls, (float(sum(token_logprobs)), is_greedy))
        pair.token_logprobs = list(token_logprobs)
        return pair

    @property
    def num_tokens(self) -> int:
        """Number of tokens of the continuation."""
        return len(self.token_logprobs)

    def __reduce__(self) -> Any:
        """Keep the tokens when pickled, as lm-eval's result cache does."""
        return LogLikelihood, (self.token_logprobs, self[1])
