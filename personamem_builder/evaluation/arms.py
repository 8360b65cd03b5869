"""A model's answers with and without what tells the answer: the arms of an audit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal

from personamem_builder.dataset.load import read_questions
from personamem_builder.evaluation.run import run_lm_eval

_ARMS: Final = {
    "no_context": ("full", "_nocontext"),
    "wrong_user": ("wrong-user", ""),
    "oracle": ("oracle", ""),
    "full": ("full", ""),
}
"""For each arm its `--metadata memory=…`, and how its task's name ends."""


def possible_arms(folder: Path, split: str) -> list[str]:
    """Return the arms that a split allows.

    Args:
        folder: A dataset folder.
        split: One of its splits.

    Returns:
        `no_context`; `wrong_user` where there are two personas; `oracle` where the questions say where their evidence
        stands; `full`.
    """
    rows = read_questions(folder, split).select(["persona_id", "evidence_message_indices"]).to_pylist()
    impossible = set()
    if len({row["persona_id"] for row in rows}) < 2:
        impossible.add("wrong_user")
    if not all(row["evidence_message_indices"] for row in rows):
        impossible.add("oracle")
    return [arm for arm in _ARMS if arm not in impossible]


def run_arms(
    folder: Path,
    split: str,
    model: str,
    model_args: str,
    options: Sequence[str],
    output: Path,
    arms: Sequence[str],
    setting: Literal["options", "letters", "generate"] = "options",
) -> dict[str, dict[str, float]]:
    """Have a model answer the questions of a split in several ways.

    Args:
        folder: A dataset folder.
        split: One of its splits, for which there are tasks.
        model: As lm-eval has it.
        model_args: As lm-eval has it; may be empty.
        options: Further arguments of `personamem eval`.
        output: Where the results go.
        arms: Some of those that `possible_arms` returns.
        setting: How they are asked: by the tasks without an ending, with `_letters` or with `_generate`.

    Returns:
        For each arm the credit of each question that was asked: `acc`, by the filter `robust` where letters are read
        from what the model writes.

    Raises:
        UserError: See `run_lm_eval`.
    """
    base = f"personamem_{split}" if setting == "options" else f"personamem_{split}_{setting}"
    score = "robust" if setting == "generate" else "acc"
    credits_: dict[str, dict[str, float]] = {arm: {} for arm in arms}
    for memory in dict.fromkeys(_ARMS[arm][0] for arm in arms):  # each loads the model once
        tasks = {base + _ARMS[arm][1]: arm for arm in arms if _ARMS[arm][0] == memory}
        for row in _predictions(
            ["--tasks", ",".join(tasks), "--model", model]
            + (["--model_args", model_args] if model_args else [])
            + [*options, "--output_path", str(output)]
            # The last one counts where the options have metadata too.
            + ["--metadata", json.dumps({"data": str(folder.resolve()), "memory": memory})]
        ):
            credits_[tasks[row["task"]]][row["question_id"]] = row["credits"][score]
    return credits_


def _predictions(arguments: Sequence[str]) -> list[dict[str, Any]]:
    return [
        json.loads(line) for path in run_lm_eval(arguments) for line in path.read_text(encoding="utf-8").splitlines()
    ]
