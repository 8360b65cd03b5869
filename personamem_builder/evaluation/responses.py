"""What a model gives back for a request: a reply or a log-likelihood, each of which knows how it came about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from personamem_builder.schema import AnswerOutcome
from personamem_builder.usage import AnswerUsage


class Reply(str):
    """A reply as lm-eval passes it on, which knows strings only.

    `finish_reason` is as the endpoint gave it; empty where it gave none. For a failure, it says what happened.
    """

    __slots__ = ("finish_reason", "outcome", "usage")

    outcome: AnswerOutcome
    finish_reason: str
    usage: AnswerUsage

    def __new__(
        cls,
        text: str,
        outcome: AnswerOutcome = "answered",
        finish_reason: str = "",
        usage: AnswerUsage = AnswerUsage(),  # noqa: B008 (it cannot be changed)
    ) -> Self:
        """Make a reply."""
        reply = super().__new__(cls, text)
        reply.outcome = outcome
        reply.finish_reason = finish_reason
        reply.usage = usage
        return reply

    # So that pickle, which carries replies from rank to rank, keeps what is beside the text.
    def __getnewargs__(self) -> tuple[str, AnswerOutcome, str, AnswerUsage]:  # type: ignore[override]
        return str(self), self.outcome, self.finish_reason, self.usage


class LetterAnswer(tuple[float, bool]):
    """lm-eval's pair `(logprob, is_greedy)` of a letter, with what came of the question.

    Attributes:
        unseen: Probability that is on no letter, see `letters.LetterScores`.
        outcome: `answered`, `refused` or `failed`.
        finish_reason: For a failure, what happened.
        usage: What the answer took; the letters of a question share it.
    """

    unseen: float
    outcome: AnswerOutcome
    finish_reason: str
    usage: AnswerUsage

    def __new__(
        cls,
        logprob: float,
        is_greedy: bool,
        unseen: float = 0.0,
        outcome: AnswerOutcome = "answered",
        finish_reason: str = "",
        usage: AnswerUsage = AnswerUsage(),  # noqa: B008 (it cannot be changed)
    ) -> Self:
        """Make the pair."""
        pair = super().__new__(cls, (logprob, is_greedy))
        pair.unseen, pair.outcome, pair.finish_reason, pair.usage = unseen, outcome, finish_reason, usage
        return pair

    def __reduce__(self) -> Any:
        """Keep what is beside the pair when pickled, as from rank to rank."""
        return LetterAnswer, (self[0], self[1], self.unseen, self.outcome, self.finish_reason, self.usage)


def outcome_of(response: Any) -> AnswerOutcome:
    """Return what came of a question; lm-eval's own backends tell of nothing but answers."""
    return response.outcome if isinstance(response, Reply | LetterAnswer) else "answered"


def finish_reason_of(response: Any) -> str:
    """Return the reason that an endpoint gave for the end of its reply; empty where there is none."""
    return response.finish_reason if isinstance(response, Reply | LetterAnswer) else ""


def usage_of(response: Any) -> AnswerUsage | None:
    """Return what an answer took, where our client asked for it."""
    return response.usage if isinstance(response, Reply | LetterAnswer) else None


class LogLikelihood(tuple[float, bool]):
    """lm-eval's pair `(logprob, is_greedy)`, with the log-probability of each token of the continuation."""

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
