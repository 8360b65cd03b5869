"""Questions whose input does not fit the model, found before the first request.

lm-eval's backends cut such inputs from the left, with at most a warning: what goes is the persona and the first
sessions, and the question is scored all the same.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal

from lm_eval.api.instance import Instance

from generation.errors import UserError
from personamem_builder.dataset.folder import read_manifest
from personamem_builder.evaluation.chat import PromptRef, to_text
from personamem_builder.evaluation.window import Window

Overlength = Literal["error", "skip", "left"]


@dataclass(frozen=True)
class OverlongQuestions:
    """The first request of each question that does not fit.

    Attributes:
        instances: These requests.
        longest: Tokens that the longest of them needs, answer included.
        total: Number of questions looked at.
        max_length: The model's window, in tokens.
        inflation: Most tokens of the model per `o200k_base` token of the dataset.
    """

    instances: list[Instance]
    longest: int
    total: int
    max_length: int
    inflation: float

    def __iter__(self) -> Iterator[Instance]:
        return iter(self.instances)

    def __bool__(self) -> bool:
        return bool(self.instances)

    def error(self, task: Any) -> UserError:
        """Return the error for a task whose questions must all fit."""
        splits = read_manifest(task.source.folder)["splits"]
        fitting = [
            name
            for name, split in splits.items()
            if split["max_context_length_in_tokens"] * self.inflation <= self.max_length
        ]
        skipped = task.config.metadata["overlength"] == "skip"  # and so nothing would be left to ask
        fits = f"; fits: split {', '.join(fitting)}" if fitting else "; no split of this dataset fits"
        if not task.with_context or task.memory != "full":
            fits = ""  # the manifest knows the lengths of whole histories only
        return UserError(
            f"{task.config.task}: {len(self.instances)} of {self.total} questions are too long for the model: its "
            f"window is {self.max_length} tokens, the longest needs {self.longest} with its answer{fits}",
            "take a model with a longer window (or raise its max_length)"
            + ("" if skipped else ", or count these questions as wrong: --metadata overlength=skip"),
        )


def find_overlength(task: Any, window: Window) -> OverlongQuestions:
    """Find the questions of a task that do not fit a model's window.

    Args:
        task: The task, its requests built.
        window: The model's limits; where they are unknown every question is taken to fit.
    """
    instances: list[Instance] = []
    longest = total = 0
    inflation = 0.0
    for _, group in groupby(task.instances, key=lambda instance: instance.doc_id):
        requests = list(group)
        total += 1
        if window.max_length is None or window.count is None:
            continue
        needed = _needed(requests, window.count, window.max_length)
        longest = max(longest, needed)
        inflation = max(inflation, needed / requests[0].doc["context_length_in_tokens"])
        if needed > window.max_length:
            instances.append(requests[0])
    return OverlongQuestions(instances, longest, total, window.max_length or 0, inflation)


def _needed(requests: list[Instance], count: Any, max_length: int) -> int:
    """Return the tokens of a question's input and answer; an upper bound if that already fits."""
    prompt = requests[0].args[0]
    if isinstance(prompt, PromptRef) and not prompt.templated:
        prompt = to_text(prompt.messages())
    if not isinstance(prompt, str):  # lm-eval's JsonChatStr
        prompt = "\n".join(message["content"] for message in json.loads(prompt.prompt))
    answers = [request.args[1] for request in requests]
    if isinstance(answers[0], dict):
        reserved = max(int(answers[0].get(name) or 0) for name in ("max_gen_toks", "max_tokens"))
    else:
        reserved = max(len(answer.encode()) for answer in answers)
        if _most_tokens(prompt) + reserved > max_length:
            reserved = max(map(count, answers))
    # A token is at least a byte, so most prompts of a large window need no counting.
    bound = _most_tokens(prompt) + reserved
    return int(bound) if bound <= max_length else int(count(prompt)) + reserved


def _most_tokens(prompt: str) -> float:
    return math.inf if isinstance(prompt, PromptRef) else len(prompt.encode())
