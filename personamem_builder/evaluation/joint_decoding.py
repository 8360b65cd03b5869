"""Answers to several prompts below one cache, generated together: a step of all is one pass."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers.generation.configuration_utils import GenerationMode

from personamem_builder.evaluation.live_cache import LiveCache
from personamem_builder.evaluation.passes import Pack
from personamem_builder.evaluation.tree_mask import lay_out

_JOINT_MODES = {GenerationMode.GREEDY_SEARCH, GenerationMode.SAMPLE}


@dataclass(slots=True)
class Speaker:
    """One prompt and its answer so far, with what transformers' `generate` made of the arguments.

    Attributes:
        ids: Their tokens, (1, tokens).
        processors: Change the logits of the next token.
        criteria: Say when the answer ends.
        samples: Whether tokens are drawn; else each is the likeliest.
    """

    ids: torch.Tensor
    processors: Any
    criteria: Any
    samples: bool

    def goes_on(self, logits: torch.Tensor) -> bool:
        """Take the next token by its logits, (1, vocabulary); return whether another one follows."""
        scores = self.processors(self.ids, logits.to(dtype=torch.float32, copy=True))
        token = torch.multinomial(scores.softmax(-1), 1) if self.samples else scores.argmax(-1, keepdim=True)
        self.ids = torch.cat([self.ids, token.to(self.ids.device)], dim=1)
        return not bool(self.criteria(self.ids, None).all())


def prepare(model: Any, generate: Callable[..., Any]) -> Speaker | None:
    """Return what `generate` would do, or None if it is more than to take one token after another.

    Args:
        model: A transformers model.
        generate: Calls its `generate` for one prompt, with the arguments that it gets and its own.
    """
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    parameter = inspect.signature(base.generate).parameters.get("custom_generate")
    if parameter is None or "Callable" not in str(parameter.annotation):
        return None
    found: list[Speaker] = []

    def note(
        _model: Any,
        input_ids: torch.Tensor,
        logits_processor: Any,
        stopping_criteria: Any,
        generation_config: Any,
        **_: Any,
    ) -> torch.Tensor:
        if generation_config.get_generation_mode() in _JOINT_MODES and generation_config.num_return_sequences == 1:
            found.append(Speaker(input_ids, logits_processor, stopping_criteria, bool(generation_config.do_sample)))
        return input_ids

    generate(custom_generate=note)
    return found[0] if found else None


def decode(cache: LiveCache, pack: Pack, speakers: Mapping[int, Speaker]) -> None:
    """Have speakers answer.

    Args:
        cache: Holds what the pack hangs on.
        pack: The prompts.
        speakers: By the index of their request.
    """
    layout = lay_out(pack.branches)
    ends = {row: segment.asks[0].request for segment, row in layout.rows.items() if not segment.children}
    rows = np.array(list(ends))
    live = [speakers[request] for request in ends.values()]
    with cache.branching() as branching:
        sees = torch.as_tensor(layout.sees, device=cache.device)
        logits = branching.run(layout.tokens, layout.positions, layout.hang, sees, rows)
        sees, hang = sees[rows], layout.hang[rows]
        while True:
            going = [i for i, speaker in enumerate(live) if speaker.goes_on(logits[i : i + 1])]
            if not going:
                return
            live, hang = [live[i] for i in going], hang[going]
            own = torch.eye(len(going), dtype=torch.bool, device=sees.device)
            sees = torch.cat([sees[going], own], dim=1)
            tokens = np.array([int(speaker.ids[0, -1]) for speaker in live], np.int32)
            positions = np.array([speaker.ids.shape[1] - 1 for speaker in live])
            logits = branching.run(tokens, positions, hang, sees, np.arange(len(live)))
