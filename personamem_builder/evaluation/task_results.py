"""The metrics of a task, as lm-eval has them, computed from the answers to its questions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from lm_eval.api.metrics import mean, stderr_for_metric

from personamem_builder.evaluation import scoring
from personamem_builder.schema import Prediction


def task_results(known: Mapping[str, Any], rows: Sequence[Prediction], bootstrap_iters: int) -> dict[str, Any]:
    """Return all metrics of a task with their standard errors.

    Args:
        known: The results for some of the questions, which have the task's name and its filters.
        rows: The answers to all questions, in the order of the questions, in which lm-eval adds.
        bootstrap_iters: As for lm-eval, where 0 stands for no standard errors.
    """
    filters = list(dict.fromkeys(name.partition(",")[2] for name in known if "," in name))
    may_fail = any(name != "none" for name in filters) or any(row.get("unseen") is not None for row in rows)
    weights = scoring.type_weights(Counter(row["question_type"] for row in rows if row["outcome"] != "failed"))
    values: dict[str, list[float]] = {}
    for name in filters:
        for row in rows:
            for metric, value in _metrics(row, name, weights, may_fail=may_fail).items():
                values.setdefault(f"{metric},{name}", []).append(value)
    stderr = stderr_for_metric(mean, bootstrap_iters)
    results = {name: known[name] for name in ("name", "alias") if name in known}
    results["sample_len"] = max(map(len, values.values()))
    for key, own in values.items():
        metric, _, name = key.partition(",")
        results[key] = mean(own)
        results[f"{metric}_stderr,{name}"] = stderr(own) if stderr and len(own) > 1 else "N/A"
    return results


def _metrics(row: Prediction, name: str, weights: Mapping[str, float], *, may_fail: bool) -> dict[str, float]:
    """Return what a question gives to the metrics under a filter; `none` is the one of tasks that score options."""
    is_written = name != "none"
    credits = {"acc": row["credits"][name]} if is_written and name in row["credits"] else row["credits"]
    return scoring.question_metrics(
        row["question_type"],
        credits,
        weights,
        is_written=is_written,
        may_fail=may_fail,
        unseen=row.get("unseen") if row["outcome"] == "answered" else None,
        invalid=not row["skipped"] and row["predictions"].get(name) is None,
        outcome=row["outcome"],
        skipped=row["skipped"],
        truncated=row["truncated"],
    )
