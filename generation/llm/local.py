"""A language model on this machine, through transformers."""

from __future__ import annotations

import threading
from typing import Any

from generation.errors import UserError
from generation.llm.client import Call, Completion
from generation.llm.reply_text import json_text
from generation.progress import Waiting
from generation.reading import clean_text
from generation.resources import install_hint


class LocalModel:
    """Asks a chat model of transformers, one call at a time.

    Temperature 0 takes the likeliest answer, None leaves the sampling to the model's own settings.

    Raises:
        UserError: transformers is missing, or the model cannot be loaded or has no chat template.
    """

    def __init__(self, path: str, *, temperature: float | None, max_tokens: int) -> None:
        try:
            import torch
            from transformers import AutoModelForCausalLM, AutoTokenizer
        except ImportError as error:
            raise UserError(f"hf:{path} needs {error.name}, which is not installed", install_hint("hf")) from error
        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(path)
            self._model: Any = AutoModelForCausalLM.from_pretrained(path, dtype="auto")
        except (OSError, ValueError) as error:
            raise UserError(
                f"hf:{path} cannot be loaded: {error}", "give a folder or a Hub name of a chat model"
            ) from error
        if not self._tokenizer.chat_template:
            raise UserError(f"hf:{path} has no chat template", "give a model that was tuned to chat")
        self._torch = torch
        self._model.to("cuda" if torch.cuda.is_available() else "cpu").eval()
        self._path = path
        self._temperature = temperature
        self._max_tokens = max_tokens
        self._lock = threading.Lock()
        self._waiting = Waiting(f"hf:{path}")

    @property
    def identity(self) -> dict[str, object]:
        """Name the model and its sampling."""
        return {"backend": "hf", "model": self._path, "temperature": self._temperature}

    def complete(self, call: Call) -> Completion:
        """Answer a conversation.

        Raises:
            UserError: The prompt does not fit the model's window.
        """
        chat = [{"role": message.role, "content": message.content} for message in call.messages]
        with self._waiting.call(), self._lock:
            encoded = self._tokenizer.apply_chat_template(
                chat, add_generation_prompt=True, return_tensors="pt", return_dict=True
            ).to(self._model.device)
            prompt_tokens = encoded["input_ids"].shape[1]
            window = getattr(self._model.config, "max_position_embeddings", None)
            if window is not None and prompt_tokens >= window:
                name = call.request.template
                raise UserError(
                    f"the prompt {name} has {prompt_tokens:,} tokens; hf:{self._path} has a window of {window:,}",
                    "give a model with a longer window",
                )
            room = self._max_tokens if window is None else min(self._max_tokens, window - prompt_tokens)
            self._torch.manual_seed(call.seed)
            sampling: dict[str, object] = {} if self._temperature is None else {"do_sample": self._temperature > 0}
            if self._temperature:
                sampling["temperature"] = self._temperature
            with self._torch.inference_mode():
                output = self._model.generate(
                    **encoded, max_new_tokens=room, pad_token_id=self._tokenizer.eos_token_id, **sampling
                )
        new = output[0, prompt_tokens:]
        # A reply that uses all the room did not end by itself.
        finish_reason = "length" if len(new) >= room else "stop"
        text = clean_text(self._tokenizer.decode(new, skip_special_tokens=True))
        return Completion(json_text(text), finish_reason if text.strip() else "empty", prompt_tokens, len(new))
