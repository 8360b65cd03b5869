"""A stand-in for the package vllm, with the names and the rules of its release 0.33: a real, small model on the CPU.

What it takes from vLLM is what a caller sees: prompts of token ids, sampling parameters by name, a cache of prefixes in
blocks of 16 tokens, and that log-probabilities of a prompt are there only for what the cache did not hold.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import transformers

BLOCK = 16
MOST_LOGPROBS = 20

_SAMPLING = {
    "temperature": 1.0,
    "max_tokens": 16,
    "stop": None,
    "detokenize": True,
    "top_p": 1.0,
    "logprob_token_ids": None,
    "prompt_logprob_token_ids": None,
    "prompt_logprob_start": None,
    "skip_reading_prefix_cache": None,
}


class VLLMValidationError(Exception):
    __module__ = "vllm.exceptions"


class SamplingParams:
    def __init__(self, **given: Any) -> None:
        unknown = given.keys() - _SAMPLING.keys()
        if unknown:
            raise TypeError(f"unexpected sampling parameters {unknown}")
        vars(self).update({**_SAMPLING, **given})


def TokensPrompt(prompt_token_ids: list[int]) -> dict[str, list[int]]:
    assert all(type(token) is int for token in prompt_token_ids)
    return {"prompt_token_ids": prompt_token_ids}


class LLM:
    """`computed` counts the tokens that were run, over all instances; `requests` the prompts."""

    computed = 0
    requests = 0

    def __init__(
        self,
        model: str,
        *,
        max_model_len: int | None = None,
        enable_prefix_caching: bool | None = None,
        dtype: str = "auto",
    ) -> None:
        assert dtype in ("auto", "float32")
        self._model = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()
        self._tokenizer = transformers.AutoTokenizer.from_pretrained(model)
        window = max_model_len or self._model.config.max_position_embeddings
        self.model_config = SimpleNamespace(max_model_len=window)
        self._keeps = bool(enable_prefix_caching)
        self._blocks: set[tuple[int, ...]] = set()

    def get_tokenizer(self) -> Any:
        return self._tokenizer

    def generate(
        self, prompts: Sequence[Any], sampling_params: Sequence[SamplingParams], *, use_tqdm: bool
    ) -> list[Any]:
        return [
            self._answer(prompt["prompt_token_ids"], params)
            for prompt, params in zip(prompts, sampling_params, strict=True)
        ]

    def _answer(self, prompt: list[int], params: Any) -> Any:
        if len(prompt) + 1 > self.model_config.max_model_len:
            raise VLLMValidationError(f"the prompt has {len(prompt)} tokens, more than the model can take")
        skips = params.skip_reading_prefix_cache
        if skips is None:
            skips = params.prompt_logprob_token_ids is not None
        hit = 0
        while not skips and hit + BLOCK < len(prompt) and tuple(prompt[: hit + BLOCK]) in self._blocks:
            hit += BLOCK
        LLM.computed += len(prompt) - hit
        LLM.requests += 1
        with torch.inference_mode():
            table = self._model(torch.tensor([prompt])).logits[0].float().log_softmax(-1)
        if self._keeps:
            self._blocks |= {tuple(prompt[:end]) for end in range(BLOCK, len(prompt) + 1, BLOCK)}
        output = self._written(prompt, params, table[-1])
        return SimpleNamespace(
            prompt_token_id_logprobs=self._scores(prompt, params, table, hit), outputs=[output], num_cached_tokens=hit
        )

    def _scores(self, prompt: list[int], params: Any, table: Any, hit: int) -> Any:
        rows, start = params.prompt_logprob_token_ids, params.prompt_logprob_start or 0
        if rows is None:
            assert params.prompt_logprob_start is None
            return None
        assert len(rows) == len(prompt) - 1 - start
        width = max(map(len, rows))
        assert 0 < width <= MOST_LOGPROBS
        if hit > start:
            return None
        scores = np.full((len(rows), width), -np.inf, np.float32)
        for row, ids in enumerate(rows):
            scores[row, : len(ids)] = table[start + row][torch.tensor(ids)].numpy()
        return scores

    def _written(self, prompt: list[int], params: Any, last: Any) -> Any:
        wanted = params.logprob_token_ids
        assert wanted is None or len(wanted) <= MOST_LOGPROBS
        logprobs = (
            None if wanted is None else [{token: SimpleNamespace(logprob=float(last[token])) for token in wanted}]
        )
        tokens: list[int] = []
        text, reason = "", "length"
        while len(tokens) < params.max_tokens:
            assert params.temperature == 0
            token = int(last.argmax())
            tokens.append(token)
            if token == self._tokenizer.eos_token_id:
                reason = "stop"
                break
            text = self._tokenizer.decode(tokens, skip_special_tokens=True) if params.detokenize else ""
            if found := [text.find(stop) for stop in params.stop or () if stop in text]:
                text, reason = text[: min(found)], "stop"
                break
            if len(tokens) < params.max_tokens:
                with torch.inference_mode():
                    last = self._model(torch.tensor([prompt + tokens])).logits[0, -1].float().log_softmax(-1)
        return SimpleNamespace(text=text, token_ids=tokens, finish_reason=reason, logprobs=logprobs)


def install(monkeypatch: pytest.MonkeyPatch) -> type[LLM]:
    """Have `import vllm` give this; the counts begin anew."""
    module = ModuleType("vllm")
    module.LLM, module.SamplingParams, module.TokensPrompt = LLM, SamplingParams, TokensPrompt  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "vllm", module)
    monkeypatch.setattr(LLM, "computed", 0)
    monkeypatch.setattr(LLM, "requests", 0)
    return LLM
