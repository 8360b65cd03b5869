"""From a model's answer to one question to its credit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

from personamem_builder.evaluation.extraction import extract_choice, has_marker, v1_parity_letters
from personamem_builder.evaluation.responses import outcome_of
from personamem_builder.schema import AnswerOutcome, QuestionRow, option_letter


class Skipped(Enum):
    """What stands for the answer to a question that was not asked, being too long for the model."""

    SKIPPED = "skipped"


SKIPPED: Final = Skipped.SKIPPED


class OptionScore(NamedTuple):
    """How likely a model finds one option, and whether it is what the model would say.

    `num_tokens` is in the model's tokenizer; None where that is out of reach.
    """

    logprob: float
    is_greedy: bool
    num_tokens: int | None


def per_token(scores: Sequence[OptionScore]) -> list[float] | None:
    """Return the mean log-probability per token of each option: the paper's generative score."""
    if any(score.num_tokens is None for score in scores):
        return None
    return [score.logprob / score.num_tokens for score in scores]  # type: ignore[operator]


def letter_credit(letters: str, answer_index: int) -> float:
    """Return 1 if the extracted letter is the right one; `""` stands for an answer without a letter."""
    return float(option_letter(answer_index) in letters)


def type_weights(counts: Mapping[str, int]) -> dict[str, float]:
    """Return a weight for the questions of each type, by how many there are of each.

    A mean over questions with these weights is the mean over types, whatever their sizes.
    """
    total = sum(counts.values())
    return {kind: total / (len(counts) * count) for kind, count in counts.items()}


def question_metrics(
    question_type: str,
    credits: Mapping[str, float],
    weights: Mapping[str, float],
    *,
    is_written: bool,
    may_fail: bool,
    unseen: float | None,
    invalid: bool,
    outcome: AnswerOutcome,
    skipped: bool,
    truncated: bool,
) -> dict[str, float]:
    """Return what one question, under one filter, gives to the metrics of its task.

    A question that got no answer is counted in `failed`, and no score knows of it.

    Args:
        question_type: Its canonical type.
        credits: `acc`, and `acc_per_token` where it is known; nothing after `--predict_only`.
        weights: Those of `type_weights`.
        is_written: Whether the model writes, as opposed to scoring options.
        may_fail: Whether a question may get no answer, or be declined: of models behind an endpoint.
        unseen: Probability that is on none of the letters; None where no endpoint scored them.
        invalid: Whether no letter was found in what it wrote.
        outcome: How the answer came about.
        skipped: Whether the question was too long to be asked.
        truncated: Whether the model saw a cut context.
    """
    came_of_it = {"skipped": float(skipped), "truncated": float(truncated)}
    if may_fail:
        came_of_it["failed"] = float(outcome == "failed")
        if outcome == "failed":
            return came_of_it
        came_of_it |= {"cut": float(outcome == "cut"), "refused": float(outcome == "refused")}
    if not credits:
        return came_of_it
    return {
        **credits,
        **({"invalid_rate": float(invalid)} if is_written else {}),
        **({} if unseen is None else {"unseen": unseen}),
        "acc_macro": credits["acc"] * weights[question_type],
        f"acc_{question_type}": credits["acc"],
        **came_of_it,
    }


def robust(responses: Iterable[Sequence[Any]], docs: Iterable[QuestionRow]) -> list[Any]:
    """Extract the chosen letter: lm-eval filter `robust`, by `extract_choice`.

    A reply that was cut has chosen only what stands behind the answer's marker; one that was refused, nothing.
    """

    def rule(text: str, n_options: int, cut: bool) -> str:
        return extract_choice(text, n_options, marked_only=cut) or ""

    return [_extract(response, rule, doc) for response, doc in zip(responses, docs, strict=True)]


def v1_parity(responses: Iterable[Sequence[Any]], docs: Iterable[QuestionRow]) -> list[Any]:
    """Extract the letters that the published rule credits: lm-eval filter `v1_parity`.

    The published script does not know which replies were cut. Here such a one has letters only if it got as far as the
    answer's marker: any before that are those it was thinking of.
    """

    def rule(text: str, n_options: int, cut: bool) -> str:
        return "" if cut and not has_marker(text) else v1_parity_letters(text, n_options)

    return [_extract(response, rule, doc) for response, doc in zip(responses, docs, strict=True)]


def _extract(response: Sequence[Any], rule: Callable[[str, int, bool], str], doc: QuestionRow) -> Any:
    text = response[0]
    if text is SKIPPED:
        return SKIPPED
    outcome = outcome_of(text)
    # A backend may give None for an answer that the provider withheld.
    if text is None or outcome in ("refused", "failed"):
        return ""
    return rule(text, len(doc["all_options"]), outcome == "cut")
