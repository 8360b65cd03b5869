"""A model's answers under the conditions that an audit compares: with and without what tells the answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

from personamem_builder.dataset.check import read_questions
from personamem_builder.evaluation.run import run_lm_eval
from personamem_builder.memory.controls import Full, Oracle, WrongUser
from personamem_builder.schema import Prediction

_CONDITIONS: Final = {
    "no_context": (Full.name, "_nocontext"),
    "wrong_user": (WrongUser.name, ""),
    "oracle": (Oracle.name, ""),
    "full": (Full.name, ""),
}
"""For each condition, as the audit's checks name it, its `--metadata memory=…` and how its task's name ends."""


def possible_conditions(folder: Path, split: str) -> list[str]:
    """Return the conditions that a split allows.

    `wrong_user` needs two personas, `oracle` questions that say where their evidence stands.
    """
    rows = read_questions(folder, split).select(["persona_id", "evidence_message_indices"]).to_pylist()
    impossible = set()
    if len({row["persona_id"] for row in rows}) < 2:
        impossible.add("wrong_user")
    if not all(row["evidence_message_indices"] for row in rows):
        impossible.add("oracle")
    return [condition for condition in _CONDITIONS if condition not in impossible]


def run_conditions(
    folder: Path,
    split: str,
    model: str,
    model_args: str,
    options: Sequence[str],
    output: Path,
    conditions: Sequence[str],
    setting: Literal["options", "letters", "generate"] = "options",
) -> dict[str, dict[str, float]]:
    """Have a model, named and set up as for lm-eval, answer the questions of a split under some possible conditions.

    `options` are further arguments of `personamem eval`, and `setting` the kind of tasks: those without an ending, with
    `_letters` or with `_generate`.

    Returns:
        For each condition the credit of each question that was asked: `acc`, by the filter `robust` where letters are
        read from what the model writes.
    """
    base = f"personamem_{split}" if setting == "options" else f"personamem_{split}_{setting}"
    score = "robust" if setting == "generate" else "acc"
    credits_: dict[str, dict[str, float]] = {condition: {} for condition in conditions}
    tasks_by_memory: dict[str, dict[str, str]] = {}  # each memory loads the model once
    for condition in conditions:
        memory, ending = _CONDITIONS[condition]
        tasks_by_memory.setdefault(memory, {})[base + ending] = condition
    for memory, tasks in tasks_by_memory.items():
        for row in _predictions(
            ["--tasks", ",".join(tasks), "--model", model]
            + (["--model_args", model_args] if model_args else [])
            + [*options, "--output_path", str(output)]
            # The last one counts where the options have metadata too.
            + ["--metadata", json.dumps({"data": str(folder.resolve()), "memory": memory})]
        ):
            credits_[tasks[row["task"]]][row["question_id"]] = row["credits"][score]
    return credits_


def _predictions(arguments: Sequence[str]) -> list[Prediction]:
    return [
        json.loads(line) for path in run_lm_eval(arguments) for line in path.read_text(encoding="utf-8").splitlines()
    ]
