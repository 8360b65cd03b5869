"""Whether a model can run branches packed into one pass, and how many of them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import psutil
import torch
from transformers.cache_utils import DynamicSlidingWindowLayer

from personamem_builder.evaluation.live_cache import LiveCache, ReservedLayer
from personamem_builder.evaluation.passes import Limits
from personamem_builder.evaluation.token_paths import TokenPath
from personamem_builder.evaluation.token_tree import Request, grow_tree
from personamem_builder.evaluation.tree_mask import lay_out

_MOST_TOKENS: Final = 2048
_MOST_TOKENS_ON_CPU: Final = 768
"""Of a pass by default: beyond, what is computed and masked, of other branches, outweighs what a larger pass saves."""
_MOST_ANSWERS: Final = 16
"""Generated together: each step also reads, masked, what the others have said."""
_SHARE: Final = 1 / 8
"""Of the free memory that the logits and activations of a pass may take, and the answers generated together."""
_PACKED_KINDS: Final = {"full_attention", "sliding_attention"}
_PACKED_LAYERS: Final = (ReservedLayer, DynamicSlidingWindowLayer)
_MOVING_ROPES: Final = {"dynamic", "longrope"}
"""Kinds of rotary embeddings whose frequencies depend on the longest sequence of a pass."""


@dataclass(frozen=True, slots=True)
class Packing:
    """What is known about a model.

    Attributes:
        obstacle: Why its branches cannot be packed, or None.
        forgets: Whether its cache can go back only to where it was told to.
        token_bytes: Bytes that a token takes in the cache; 0 where nothing is packed.
    """

    obstacle: str | None
    forgets: bool
    token_bytes: int = 0


def read_packing(model: Any) -> Packing:
    """Find out whether branches of a model can be packed.

    Beside what its configuration says, two branches of a few tokens are run packed and one by one.
    """
    cache = LiveCache(model, 8)
    obstacle = _known_obstacle(model, cache)
    if obstacle is None:
        name = type(model).__name__
        try:
            if not _same_when_packed(model, cache):
                obstacle = f"{name} computes something else with a mask of branches"
        except (IndexError, KeyError, NotImplementedError, RuntimeError, TypeError, ValueError) as error:
            obstacle = f"{name} fails with a mask of branches ({error!r})"
    held = [states for layer in cache.cache.layers for states in (layer.keys, layer.values)] if obstacle is None else []
    return Packing(
        obstacle, cache.needs_snapshots, sum(states[..., 0, :].numel() * states.element_size() for states in held)
    )


def _known_obstacle(model: Any, cache: LiveCache) -> str | None:
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    config = base.config.get_text_config(decoder=True)
    kinds = {kind for kind in getattr(config, "layer_types", None) or () if kind not in _PACKED_KINDS}
    kinds |= {type(layer).__name__ for layer in cache.cache.layers if type(layer) not in _PACKED_LAYERS}
    if kinds:
        return f"layers of the kind {', '.join(sorted(kinds))}"
    if "position_ids" not in inspect.signature(base.forward).parameters:
        return f"{type(base).__name__} takes no position ids"
    ropes = _MOVING_ROPES & set(_values(config.to_dict(), ("rope_type", "type")))
    if ropes:
        return f"rotary embeddings of the kind {', '.join(sorted(ropes))}"
    implementation = str(getattr(config, "_attn_implementation", None))
    if implementation != "eager" and "sdpa" not in implementation:
        return f"attention by {implementation}, which takes no such mask"
    return None


def _values(value: Any, names: tuple[str, ...]) -> Iterator[str]:
    """Yield the texts that stand under some names anywhere in a configuration."""
    if isinstance(value, dict):
        for key, entry in value.items():
            if key in names and isinstance(entry, str):
                yield entry
            yield from _values(entry, names)


def _same_when_packed(model: Any, cache: LiveCache) -> bool:
    """Say whether two packed branches have the logits that each has alone."""
    vocabulary = model.get_input_embeddings().weight.shape[0]
    prefix, *branches = (
        np.asarray(tokens, np.int32) % vocabulary for tokens in ([5, 6, 7], [11, 12, 13], [8, 9, 10, 4])
    )
    paths = [TokenPath.of([prefix, branch]) for branch in branches]
    tree = grow_tree([Request(path, len(prefix)) for path in paths])
    layout = lay_out(tree.children[0].children)
    wanted = np.arange(1, len(layout.tokens))
    with torch.inference_mode():
        alone = []
        for branch in branches:
            ids = torch.as_tensor(np.concatenate([prefix, branch]), dtype=torch.long, device=cache.device)
            alone.append(model(input_ids=ids[None]).logits[0, len(prefix) :])
        cache.extend(prefix, np.empty(0, np.int64))
        with cache.branching() as branching:
            sees = torch.as_tensor(layout.sees)
            packed = branching.run(layout.tokens, layout.positions, layout.hang, sees, wanted)
    # In the order of their tokens.
    expected = torch.cat([alone[1], alone[0]])[1:].float()
    tolerance = 1e-3 if expected.dtype == packed.dtype else 0.1
    return bool((packed.float() - expected).abs().mean() <= tolerance * expected.std() + 1e-6)


def limits_of(model: Any, packing: Packing, pack: int | None, chunk: int, window: int) -> Limits:
    """Return what a packed pass may hold.

    Args:
        model: The model.
        packing: What is known about it.
        pack: Most tokens, as asked for; None chooses by the free memory.
        chunk: Most tokens of any pass.
        window: Most tokens that the cache may have to hold.
    """
    if packing.obstacle is not None:
        return Limits(1, forgets=packing.forgets)
    free = _free_bytes(model) * _SHARE
    if pack is None:
        # A token's logits, about what its layers hold at a time, and its row of the mask.
        vocabulary, hidden = model.get_input_embeddings().weight.shape
        weight = next(model.parameters()).element_size() * (vocabulary + 32 * hidden) + 4 * window
        most = _MOST_TOKENS_ON_CPU if model.device.type == "cpu" else _MOST_TOKENS
        pack = max(1, min(most, int(free / weight)))
    answers = _MOST_ANSWERS if pack > 1 else 1
    return Limits(min(pack, chunk), answers, int(free / max(1, packing.token_bytes)), packing.forgets)


def _free_bytes(model: Any) -> int:
    device = model.get_input_embeddings().weight.device
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return int(psutil.virtual_memory().available)
