"""`predictions_<date>.jsonl`: one small line per question, written beside lm-eval's results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from generation.reading import clean_text
from personamem_builder.evaluation import scoring
from personamem_builder.evaluation.responses import LetterAnswer, finish_reason_of, outcome_of, usage_of
from personamem_builder.schema import Prediction, QuestionRow, best_letter, option_letter
from personamem_builder.usage import AnswerUsage, summarise_usage

_RESPONSE_CHARACTERS: Final = 2000
"""Longer answers keep their end, where the choice stands; lm-eval's `--log_samples` keeps them whole."""
_IDS: Final = ("question_id", "persona_id", "question_type", "shared_context_id")


def prediction_rows(samples: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[Prediction]:
    """Turn lm-eval's samples of the personamem tasks into prediction rows.

    A row holds the task, the number of the question in it (`doc_id`, as in lm-eval's samples), its ids, its `answer`,
    what the model gave (`option_logprobs` and `option_tokens`, or `response`), what came of it (`outcome`, and the
    endpoint's `finish_reason`), and for each score (`acc` and `acc_per_token`, or the filters `robust` and
    `v1_parity`) the letter predicted (null for an answer without one) and the credit, 0 to 1. A question that got no
    answer has neither letters nor credits, and nothing has credits after `--predict_only`. Answers of our chat client
    have the fields of `AnswerUsage`, and letters that an endpoint scored have `unseen`, the probability that is on none
    of them. Rows stand in the order of the questions.
    """
    rows: dict[tuple[str, str], Prediction] = {}
    for task, task_samples in samples.items():
        for sample in task_samples:
            doc = sample["doc"]
            if "shared_context_id" not in doc:
                break
            row = rows.setdefault((task, doc["question_id"]), _head(task, sample))
            if sample["filter"] == "none":
                _add_option_scores(row, sample)
            elif row["outcome"] != "failed":
                row["predictions"][sample["filter"]] = _letter(sample["filtered_resps"][0])
                if "acc" in sample:
                    row["credits"][sample["filter"]] = sample["acc"]
    # Several processes have their questions one after another.
    places = {task: place for place, task in enumerate(samples)}
    return sorted(rows.values(), key=lambda row: (places[row["task"]], row["doc_id"]))


def usage_of_tasks(rows: Sequence[Prediction]) -> dict[str, Any]:
    """Return what the answers to each task took, as JSON; without tasks of which nothing is known."""
    tasks: dict[str, list[AnswerUsage]] = {}
    for row in rows:
        if "seconds" in row:
            usage = AnswerUsage(row["seconds"], row["prompt_tokens"], row["reply_tokens"], row["cached_tokens"])
            tasks.setdefault(row["task"], []).append(usage)
    summaries = {task: summarise_usage(usages) for task, usages in tasks.items()}
    return {task: summary.to_json() for task, summary in summaries.items() if summary is not None}


def _head(task: str, sample: Mapping[str, Any]) -> Prediction:
    doc: QuestionRow = sample["doc"]
    response = sample["resps"][0][0]
    row: Any = {
        "task": task,
        "doc_id": sample["doc_id"],
        **{name: doc[name] for name in _IDS},
        "answer": option_letter(doc["answer_index"]),
        "n_options": len(doc["all_options"]),
    }
    if sample["filter"] != "none":
        row["response"] = clean_text(response[-_RESPONSE_CHARACTERS:]) if isinstance(response, str) else None
    if (usage := usage_of(response)) is not None:
        row |= usage._asdict()
    if isinstance(response, LetterAnswer):
        row["unseen"] = response.unseen
    return cast(
        Prediction,
        row
        | {
            "outcome": outcome_of(response),
            "finish_reason": clean_text(finish_reason_of(response)),
            "predictions": {},
            "credits": {},
            "skipped": bool(sample["skipped"]),
            "truncated": bool(sample["truncated"]),
        },
    )


def _add_option_scores(row: Prediction, sample: Mapping[str, Any]) -> None:
    scores = sample["filtered_resps"]
    means = None
    if row["skipped"] or row["outcome"] in ("failed", "refused"):
        row["option_logprobs"] = row["option_tokens"] = None
    else:
        row["option_logprobs"] = [score.logprob for score in scores]
        means = scoring.per_token(scores)
        row["option_tokens"] = [score.num_tokens for score in scores] if means else None
    for name, values in (("acc", row["option_logprobs"]), ("acc_per_token", means)):
        if values or name in sample:
            row["predictions"][name] = best_letter(values) if values else None
        if name in sample:
            row["credits"][name] = sample[name]


def _letter(extracted: Any) -> str | None:
    return extracted if isinstance(extracted, str) and extracted else None
