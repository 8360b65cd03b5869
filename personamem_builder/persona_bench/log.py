"""Scoring outputs that were logged elsewhere, by the rules of the source's log evaluator and by ours."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from generation.errors import UserError
from generation.reading import as_one
from personamem_builder.persona_bench.metrics import (
    BEST_OF,
    SCORES_END,
    ScoredItem,
    parse,
    pooled,
    score_answer,
    summarise,
)
from personamem_builder.persona_bench.records import TASKS
from personamem_builder.results.files import read_lines
from personamem_builder.statistics import Estimate

_OUTPUTS: Final = ("response", "responses", "output", "outputs", "prediction", "generated_text", "generated_texts")
_TRUTHS: Final = ("true_label", "truth", "label")
_AUTHOR_OF_ID: Final = re.compile(r"(u\d+)p\d+")
_SHOWN_LETTERS: Final = 60

_SOURCE_METRICS: Final = {
    "sentiment": ("acc", "f1_weighted", "mcc"),
    "impact": ("rmse", "mae"),
    "next_text": ("rouge1", "rougeL", "meteor", "meteor_unsplit", "meteor_exact_stem", "bleu", "bleu_unsplit", "sbert"),
}


class LogScores(NamedTuple):
    """The scores of a log.

    Attributes:
        task: The task.
        rows: How many rows there are.
        dropped: How many of them the source leaves out: unparsed, empty, or (in `next_text`) with the text `Error:`.
        source: Its metrics over the others; empty if there are none.
        scores: Ours over all rows, with intervals clustered by author.
        clustered: Whether rows name their authors; otherwise each row counts as an author of its own.
    """

    task: str
    rows: int
    dropped: int
    source: Mapping[str, float]
    scores: Mapping[str, Estimate]
    clustered: bool


class _Logged(NamedTuple):
    """A row: what was to be found, and what a model gave; no id or author where the row has none."""

    item_id: str
    author: str
    truth: Any
    outputs: list[str]


def evaluate_log(path: Path, task: str) -> LogScores:
    """Score logged outputs.

    The file is JSONL. Three forms of rows are read, and may be mixed:

    - lm-eval's samples of these tasks (`doc` and `resps`);
    - the source's rows with an output beside: `prediction_task` (with `true_label`, `target_reply_id`), or `user`,
      `true_label`;
    - any row with a truth (`true_label`, `truth` or `label`) and an output, such as those of `write_prompts` with a
      `response` added to them.

    The output is under `response`, `responses`, `output`, `outputs`, `prediction`, `generated_text` or
    `generated_texts`: a text, or a list of candidates; null counts as no answer. Only the first candidate is
    scored, as in the source.

    Args:
        path: The file.
        task: One of `TASKS`.

    Returns:
        The source's metrics, by its rules, and ours.

    Raises:
        UserError: No such task, or the file cannot be read: all faulty rows are listed.
    """
    logged = _read(path, task)
    answers = [_scored(task, row) for row in logged]
    kept = [answer for row, answer in zip(logged, answers, strict=True) if _kept(task, row)]
    source: dict[str, float] = {}
    if kept:
        means = {name: sum(a.values[name] for a in kept) / len(kept) for name in kept[0].values}
        every = means | pooled(task, [a.truth for a in kept], [a.prediction for a in kept])
        source = {name: every[name] for name in _SOURCE_METRICS[task] if name in every}
    clustered = all(row.author for row in logged)
    return LogScores(task, len(logged), len(logged) - len(kept), source, summarise(task, answers), clustered)


def read_answers(path: Path, task: str) -> list[ScoredItem]:
    """Read and score a log, for `metrics.compare_conditions`; arguments and errors as for `evaluate_log`."""
    return [_scored(task, row) for row in _read(path, task)]


def render_log(scores: LogScores) -> str:
    """Return the scores of a log in plain text."""
    lines = [
        f"{scores.task}: {scores.rows} rows; the source's rules leave out {scores.dropped} of them",
        "",
        "by the source's rules",
        *(f"  {name:<20} {value:.4f}" for name, value in scores.source.items()),
        "",
        f"all rows, 95 % intervals{' clustered by author' if scores.clustered else ' (rows name no authors)'}",
    ]
    for name, estimate in scores.scores.items():
        if not BEST_OF.match(name):
            ends = "" if estimate.low is None else f"  [{estimate.low:.4f}, {estimate.high:.4f}]"
            lines.append(f"  {name:<20} {estimate.value:.4f}{ends}")
    return "\n".join(lines)


def _scored(task: str, row: _Logged) -> ScoredItem:
    first = row.outputs[0] if row.outputs else ""
    return score_answer(task, row.item_id, row.author or row.item_id, row.truth, [parse(task, first)])


def _kept(task: str, row: _Logged) -> bool:
    first = row.outputs[0] if row.outputs else ""
    return parse(task, first) is not None and not (task == "next_text" and "Error:" in first)


def _read(path: Path, task: str) -> list[_Logged]:
    if task not in TASKS:
        raise UserError(f"no task {task!r}", f"use one of {', '.join(TASKS)}")
    faults: list[UserError] = []
    rows = [row for _, row in read_lines(path, partial(_logged, task=task), faults, "give a JSONL file")]
    if faults:
        raise as_one(faults)
    if not rows:
        raise UserError(f"{path} has no rows", "give a JSONL file, a row per answer")
    return [row._replace(item_id=row.item_id or str(number)) for number, row in enumerate(rows, start=1)]


def _logged(row: Any, where: str, task: str) -> _Logged:
    try:
        return _row(row, task)
    except _Fault as fault:
        raise UserError(f"{where}: {fault}", "each row needs a truth and an output, see --help") from fault


class _Fault(ValueError):
    """What is wrong with a row."""


def _row(row: Any, task: str) -> _Logged:
    if not isinstance(row, dict):
        raise _Fault("not a JSON object")
    doc = row.get("doc")
    if isinstance(doc, dict) and "truth" in doc:  # a sample of lm-eval
        author = str(doc.get("author") or "")
        return _Logged(str(doc.get("item_id", "")), author, _truth(task, doc["truth"]), _sample_outputs(row))
    inner = row.get("prediction_task")
    inner = inner if isinstance(inner, dict) else {}
    merged = {**inner, **row}
    truth = next((merged[key] for key in _TRUTHS if key in merged), None)
    if truth is None:
        raise _Fault(f"has no truth (one of {', '.join(_TRUTHS)})")
    output = next((key for key in _OUTPUTS if key in merged), None)
    if output is None:
        raise _Fault(f"has no output (one of {', '.join(_OUTPUTS)})")
    item_id = merged.get("item_id")
    return _Logged(
        item_id if isinstance(item_id, str) else "", _author(merged), _truth(task, truth), _candidates(merged[output])
    )


def _sample_outputs(row: Mapping[str, Any]) -> list[str]:
    resps = row.get("resps")
    if not isinstance(resps, list) or not resps:
        raise _Fault("a sample of lm-eval without resps")
    if len(resps) == 2:  # the log-likelihoods of positive and negative
        try:
            positive, negative = (float(choice[0][0]) for choice in resps)
        except (TypeError, ValueError, LookupError):
            raise _Fault("its resps are not the log-likelihoods of two answers") from None
        return ["" if positive == negative else "positive" if positive > negative else "negative"]
    return _candidates(resps[0])


def _author(row: Mapping[str, Any]) -> str:
    """Return the author's name, or the number that the source's ids hold; empty where the row has neither."""
    if isinstance(name := row.get("user") or row.get("author"), str):
        return name
    ids = (row.get("target_reply_id"), row.get("target_post_reference_id"))
    return next((found[1] for value in ids if isinstance(value, str) and (found := _AUTHOR_OF_ID.match(value))), "")


def _candidates(output: Any) -> list[str]:
    candidates: Sequence[Any] = output if isinstance(output, list) else [output]
    if not all(candidate is None or isinstance(candidate, str | int | float) for candidate in candidates):
        raise _Fault("its output is neither a text nor a list of texts")
    return ["" if candidate is None else str(candidate) for candidate in candidates]


def _truth(task: str, value: Any) -> Any:
    if task == "next_text":
        if not isinstance(value, str):
            raise _Fault(f"its truth is {_short(value)}, not a text")
        return value
    if task == "sentiment":
        if isinstance(value, str) and value.strip().lower() in ("positive", "negative"):
            return value.strip().lower() == "positive"
        if isinstance(value, int | float) and value in (0, 1):  # False and True as well
            return bool(value)
        raise _Fault(f"its truth is {_short(value)}, not positive or negative")
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not abs(number) < SCORES_END:
        raise _Fault(f"its truth is {_short(value)}, not a number of 64 bits")
    return number


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_LETTERS else f"{text[: _SHOWN_LETTERS - 1]}…"
