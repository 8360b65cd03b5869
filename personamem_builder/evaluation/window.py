"""What a model can take, and the questions whose input does not fit it, found before the first request.

lm-eval's backends cut such inputs from the left, with at most a warning: what goes is the persona and the first
sessions, and the question is scored all the same.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Mapping, Sized
from contextlib import redirect_stderr
from contextvars import ContextVar
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, Literal

from generation.errors import UserError
from generation.tokenizer import num_tokens
from personamem_builder.evaluation.chat import PromptRef, to_text
from personamem_builder.manifest import read_manifest
from personamem_builder.memory.controls import Full

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance

Overlength = Literal["error", "skip", "left"]

_ROUGH_OVERHEAD: Final = 1.1
"""Factor on `o200k_base` counts where the model's own tokenizer is out of reach, for the template's tokens."""


running_model: ContextVar[Any] = ContextVar("running_model", default=None)
"""The model of the run, where the runner knows it."""


@dataclass(frozen=True)
class Window:
    """A model's limits; each is None where the model or its tokenizer is out of reach.

    `max_length` is the longest input, answer included, in tokens; `count` counts those of a whole prompt, and
    `count_option` those of an option.
    """

    max_length: int | None
    count: Callable[[str], int] | None
    count_option: Callable[[str], int] | None


def model_of(chat_template: Any) -> Any:
    """Return the model whose bound `apply_chat_template` is given, else that of the run, else None."""
    return getattr(chat_template, "__self__", None) or running_model.get()


def window_of(chat_template: Any, metadata: Mapping[str, Any]) -> Window:
    """Find a model's limits.

    With a chat template lm-eval hands over the model's bound method, and with it the model; `personamem eval` tells
    the model in any case. Otherwise there are only the model arguments, which lm-eval copies into the task's metadata:
    the tokenizer they name is loaded.
    """
    lm = model_of(chat_template)
    if lm is None:
        return _from_metadata(metadata)
    if scores_no_loglikelihood(lm):
        # A chat endpoint: lm-eval checks no length there and its default of 2,048 says nothing about the model.
        return Window(_max_length(metadata), rough_count, None)
    encode = getattr(lm, "tok_encode", None)
    if encode is None:
        return Window(None, None, None)
    return _window_with(getattr(lm, "max_length", None), encode)


def scores_no_loglikelihood(lm: Any) -> bool:
    """Say whether a model (or its class) is a chat backend, which cannot score given text.

    lm-eval's chat backends raise `NotImplementedError` before they look at a request, so no list of their names is
    needed: the method is called without a request on an object that was never set up.
    """
    cls: Any = lm if isinstance(lm, type) else type(lm)
    if scores_letters(cls):  # and nothing else
        return True
    try:
        with redirect_stderr(io.StringIO()):  # where some show a bar even then
            cls.loglikelihood(object.__new__(cls), [])
    except NotImplementedError:
        return True
    except Exception:  # any other failure comes from a method that tried to work
        return False
    return False


def scores_letters(lm: Any) -> bool:
    """Say whether a model (or its class) is a chat backend that can score the letters of shown options."""
    return bool(getattr(lm, "scores_letters", False))


def no_loglikelihood(model: str, task: str) -> UserError:
    """Return the error for a log-likelihood task on a chat backend, and what to run instead."""
    base, nocontext = (task.removesuffix("_nocontext"), task.endswith("_nocontext"))
    instead = f"{base.removesuffix('_letters')}_generate{'_nocontext' if nocontext else ''}"
    ours = task.startswith("personamem")
    return UserError(
        f"{task} needs log-likelihoods, which {model} (a chat backend) cannot give",
        f"use --tasks {instead}" if ours else "use a task of the output type generate_until",
    )


def _from_metadata(metadata: Mapping[str, Any]) -> Window:
    name = metadata.get("tokenizer") or metadata.get("pretrained")
    if not isinstance(name, str) or find_spec("transformers") is None:
        return Window(None, None, None)
    from transformers import AutoConfig, AutoTokenizer

    options = {"trust_remote_code": bool(metadata.get("trust_remote_code", False))}
    if metadata.get("gguf_file"):
        options["gguf_file"] = metadata["gguf_file"]
    tokenizer = AutoTokenizer.from_pretrained(name, **options)
    max_length = _max_length(metadata)
    if max_length is None and metadata.get("pretrained"):
        from lm_eval.models.utils import resolve_max_length

        config = AutoConfig.from_pretrained(metadata["pretrained"], **options)
        max_length = resolve_max_length(config, tokenizer)
    return _window_with(max_length, tokenizer.encode)


def _window_with(max_length: int | None, encode: Callable[..., Sized]) -> Window:
    return Window(max_length, lambda text: len(encode(text)), lambda text: len(encode(text, add_special_tokens=False)))


def _max_length(metadata: Mapping[str, Any]) -> int | None:
    value = metadata.get("max_length") or metadata.get("max_model_len")
    return int(value) if value else None


def rough_count(text: str) -> int:
    """Estimate the tokens of a prompt for a model whose tokenizer is out of reach."""
    return int(num_tokens(text) * _ROUGH_OVERHEAD)


@dataclass(frozen=True)
class OverlongQuestions:
    """The first request of each question that does not fit, and how many questions were looked at.

    Attributes:
        longest: Tokens that the longest of them needs, answer included.
        max_length: The model's window, in tokens.
        inflation: Most tokens of the model per `o200k_base` token of the dataset.
    """

    instances: list[Instance]
    longest: int
    total: int
    max_length: int
    inflation: float

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
        if not task.with_context or task.condition.name != Full.name:
            fits = ""  # the manifest knows the lengths of whole histories only
        return UserError(
            f"{task.config.task}: {len(self.instances)} of {self.total} questions are too long for the model: its "
            f"window is {self.max_length} tokens, the longest needs {self.longest} with its answer{fits}",
            "take a model with a longer window (or raise its max_length)"
            + ("" if skipped else ", or count these questions as wrong: --metadata overlength=skip"),
        )


def find_overlength(task: Any, window: Window) -> OverlongQuestions:
    """Find the questions of a task, its requests built, that do not fit a window; where that is unknown all fit."""
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
