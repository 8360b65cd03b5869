"""What a model can take: its context window and its token counts, found before the first request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final

from generation.tokenizer import load_encoding

_ROUGH_OVERHEAD: Final = 1.1
"""Factor on `o200k_base` counts where the model's own tokenizer is out of reach, for the template's tokens."""


running_model: ContextVar[Any] = ContextVar("running_model", default=None)
"""The model of the run, where the runner knows it."""


@dataclass(frozen=True)
class Window:
    """A model's limits, as far as they are known.

    Attributes:
        max_length: The longest input, answer included, in tokens; None if unknown.
        count: Counts the tokens of a whole prompt; None if the model's tokenizer is out of reach.
        count_option: Counts the tokens of an option; None likewise.
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

    Args:
        chat_template: lm-eval's `LM.apply_chat_template`, or None.
        metadata: The task's metadata.
    """
    lm = model_of(chat_template)
    if lm is None:
        return _from_metadata(metadata)
    if scores_no_loglikelihood(lm):
        # A chat endpoint: lm-eval checks no length there and its default of 2,048 says nothing about the model.
        return Window(_max_length(metadata), _rough_count, None)
    encode = getattr(lm, "tok_encode", None)
    if encode is None:
        return Window(None, None, None)
    return Window(
        getattr(lm, "max_length", None),
        lambda text: len(encode(text)),
        lambda text: len(encode(text, add_special_tokens=False)),
    )


def scores_no_loglikelihood(lm: Any) -> bool:
    """Say whether a model (or its class) is a chat backend, which cannot score given text.

    lm-eval's chat backends raise `NotImplementedError` before they look at a request, so no list of their names is
    needed: the method is called without a request on an object that was never set up.
    """
    cls: Any = lm if isinstance(lm, type) else type(lm)
    try:
        cls.loglikelihood(object.__new__(cls), [])
    except NotImplementedError:
        return True
    except Exception:  # any other failure comes from a method that tried to work
        return False
    return False


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
    return Window(
        max_length,
        lambda text: len(tokenizer.encode(text)),
        lambda text: len(tokenizer.encode(text, add_special_tokens=False)),
    )


def _max_length(metadata: Mapping[str, Any]) -> int | None:
    value = metadata.get("max_length") or metadata.get("max_model_len")
    return int(value) if value else None


def _rough_count(text: str) -> int:
    return int(len(load_encoding()[0].encode_ordinary(text)) * _ROUGH_OVERHEAD)
