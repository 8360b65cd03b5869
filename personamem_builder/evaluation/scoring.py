"""From a model's answer to one question to its credit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

from personamem_builder.evaluation.extraction import extract_choice, v1_parity_letters
from personamem_builder.schema import option_letter


class Skipped(Enum):
    """What stands for the answer to a question that was not asked, being too long for the model."""

    SKIPPED = "skipped"


SKIPPED: Final = Skipped.SKIPPED


class OptionScore(NamedTuple):
    """How likely a model finds one option.

    Attributes:
        logprob: Sum of the log-probabilities of the option's tokens.
        is_greedy: Whether the option is what the model would say.
        num_tokens: Its tokens in the model's tokenizer; None where that is out of reach.
    """

    logprob: float
    is_greedy: bool
    num_tokens: int | None


def per_token(scores: Sequence[OptionScore]) -> list[float] | None:
    """Return the mean log-probability per token of each option: the paper's generative score."""
    if any(score.num_tokens is None for score in scores):
        return None
    return [score.logprob / score.num_tokens for score in scores]  # type: ignore[operator]


def best_letter(values: Sequence[float]) -> str:
    """Return the letter of the option with the highest value, the first of those that tie."""
    return option_letter(max(range(len(values)), key=values.__getitem__))


def letter_credit(letters: str, answer_index: int) -> float:
    """Return 1 if the extracted letter is the right one; `""` stands for an answer without a letter."""
    return float(option_letter(answer_index) in letters)


def robust(responses: Iterable[Sequence[Any]], docs: Iterable[dict[str, Any]]) -> list[Any]:
    """Extract the chosen letter: lm-eval filter `robust`, by `extract_choice`."""
    return [
        _extract(response, lambda text, n: extract_choice(text, n) or "", doc)
        for response, doc in zip(responses, docs, strict=True)
    ]


def v1_parity(responses: Iterable[Sequence[Any]], docs: Iterable[dict[str, Any]]) -> list[Any]:
    """Extract the letters that the published rule credits: lm-eval filter `v1_parity`."""
    return [_extract(response, v1_parity_letters, doc) for response, doc in zip(responses, docs, strict=True)]


def _extract(response: Sequence[Any], rule: Any, doc: dict[str, Any]) -> Any:
    text = response[0]
    if text is SKIPPED:
        return SKIPPED
    # A backend may give None for an answer that the provider withheld.
    return rule(text or "", len(doc["all_options"]))
