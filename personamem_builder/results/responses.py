"""What models wrote: beside the letters that reports need, for people to read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from generation.reading import bounded_lines, parse_json_line
from personamem_builder.results.files import LOG_SUFFIX
from personamem_builder.results.inspect_logs import read_replies
from personamem_builder.results.runs import Run


def read_responses(run: Run) -> Iterator[tuple[str, str]]:
    """Yield what the model wrote, by question id; `read_runs` has checked the files."""
    if run.path.suffix == LOG_SUFFIX:
        yield from read_replies(run.path)
        return
    predictions = run.path.with_name(f"predictions_{run.date}.jsonl")
    if predictions.exists():
        for line in _lines(predictions):
            if line["task"] == run.task and isinstance(line.get("response"), str):
                yield line["question_id"], line["response"]
        return
    for sample in _lines(run.path.with_name(f"samples_{run.task}_{run.date}.jsonl")):
        if sample["filter"] != "none" and (response := _first(sample.get("resps"))) is not None:
            yield sample["doc"]["question_id"], response


def _first(responses: object) -> str | None:
    """Return the text in `[["…"]]`, as lm-eval keeps responses."""
    while isinstance(responses, list) and responses:
        responses = responses[0]
    return responses if isinstance(responses, str) else None


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    yield from (parse_json_line(line, f"{path}, line {number}") for number, line in bounded_lines(path))
