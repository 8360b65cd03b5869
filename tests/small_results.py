"""Results of evaluations as `personamem eval` leaves them, for tests of reports."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from generation.records import QUESTION_TYPES
from personamem_builder.dataset.check import read_questions
from personamem_builder.manifest import read_manifest
from personamem_builder.results.answers import ScoredAnswer
from personamem_builder.results.runs import Run

DATE = "2026-11-27T10-11-12.123456"

Row = dict[str, Any]
Choose = Callable[[Row, int], "int | None"]
"""Chooses an option of a question, which has a number in its split; None for an answer without a letter."""


def right(row: Row, number: int) -> int:
    """Choose the right option."""
    return int(row["answer_index"])


def first(row: Row, number: int) -> int:
    """Choose the first option."""
    return 0


def right_half_the_time(row: Row, number: int) -> int:
    """Choose the right option of every second question, else the next one."""
    return int(row["answer_index"] + number % 2) % 4


def right_as_often(skill: float, seed: int) -> Choose:
    """Choose the right option as often as a skill says, else any."""
    rng = random.Random(seed)

    def choose(row: Row, number: int) -> int:
        return int(row["answer_index"]) if rng.random() < skill else rng.randrange(4)

    return choose


def write_results(
    folder: Path,
    dataset: Path,
    model: str,
    choose: Choose,
    *,
    split: str = "32k",
    kind: str = "",
    limit: int | None = None,
    **metadata: Any,
) -> Path:
    """Write the results of a model that answers the questions of a dataset.

    Args:
        folder: Where they go.
        dataset: Its folder.
        model: Name of the model, or `floor: POLICY`.
        choose: How it answers.
        split: Which split is asked.
        kind: End of the task's name, such as `_generate`; tasks without `_generate` have log-probabilities.
        limit: Only the first questions are asked.
        **metadata: More that the task says of itself.

    Returns:
        The results file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    task = f"personamem_{split}{kind}"
    rows = read_questions(dataset, split).to_pylist()
    told = {"data": str(dataset), "data_digest": read_manifest(dataset)["digest"], **metadata}
    is_floor = model.startswith("floor: ")
    results = {
        "results": {},
        "configs": {task: {"test_split": split, "metadata": told}},
        "config": {
            "model": "personamem-floor" if is_floor else "hf",
            "model_args": {"policy": model[7:]} if is_floor else {"pretrained": model},
            "limit": limit,
        },
        "n-samples": {task: {"original": len(rows), "effective": len(rows[:limit])}},
    }
    path = folder / f"results_{DATE}.json"
    path.write_text(json.dumps(results), encoding="utf-8")
    lines = [_line(task, row, choose(row, number)) for number, row in enumerate(rows[:limit])]
    write_lines(folder / f"predictions_{DATE}.jsonl", lines)
    return path


def write_lines(path: Path, lines: Sequence[Any]) -> None:
    """Write a file of JSON lines."""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def _line(task: str, row: Row, chosen: int | None) -> dict[str, Any]:
    letter = None if chosen is None else "abcd"[chosen]
    credit = float(chosen == row["answer_index"])
    line = {
        "task": task,
        **{name: row[name] for name in ("question_id", "persona_id", "question_type", "shared_context_id")},
        "answer": "abcd"[row["answer_index"]],
        "n_options": 4,
        "skipped": False,
        "truncated": False,
    }
    if "_generate" in task:
        return line | {"response": "…", "predictions": {"robust": letter}, "credits": {"robust": credit}}
    return line | {
        "option_logprobs": [-10.0 if i == chosen else -12.0 for i in range(4)],
        "option_tokens": [10, 10, 10, 10],
        "predictions": {"acc": letter, "acc_per_token": letter},
        "credits": {"acc": credit, "acc_per_token": credit},
    }


def make_answers(credits: list[float], score: str = "acc", **changes: Any) -> dict[str, ScoredAnswer]:
    """Two questions a persona, the types in turn."""
    return {
        f"q{i}": ScoredAnswer(
            **{
                "persona_id": i // 2,
                "question_type": QUESTION_TYPES[i % 7],
                "n_options": 4,
                "credits": {score: credit},
                "invalid": frozenset(),
                "skipped": False,
                "truncated": False,
            }
            | changes
        )
        for i, credit in enumerate(credits)
    }


def make_run(model: str, answers: Mapping[str, ScoredAnswer], **changes: Any) -> Run:
    is_floor = model.startswith("floor")
    fields: dict[str, Any] = {
        "model": model,
        "backend": "personamem-floor" if is_floor else "hf",
        "model_args": (("policy" if is_floor else "pretrained", model),),
        "task": "personamem_32k",
        "data_digest": "abc",
        "limit": None,
        "date": DATE,
        "path": Path("results.json"),
        "answers": answers,
    }
    return Run(**(fields | changes))
