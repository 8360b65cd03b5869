"""One key-value cache that follows a walk over token prefixes."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from generation.errors import UserError
from personamem_builder.evaluation.packed_attention import use_packed_attention
from personamem_builder.evaluation.token_paths import Tokens
from personamem_builder.evaluation.tree_mask import TreeMask, using

Positions = npt.NDArray[np.int64]


class ReservedLayer(DynamicLayer):
    """A full-attention layer that writes into memory reserved once.

    The stock layer concatenates, which copies the whole history for every option. Here the states in use are a view
    of the reserved tensors, so that going back is a shorter view.
    """

    def __init__(self, reserve: int) -> None:
        super().__init__()
        self.reserve = reserve
        self._memory: tuple[torch.Tensor, torch.Tensor] | None = None

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append states; return all of them."""
        used = 0 if self._memory is None else self.keys.shape[-2]
        needed = used + key_states.shape[-2]
        if self._memory is None or needed > self._memory[0].shape[-2]:
            self._grow(key_states, value_states, used, max(needed, self.reserve))
        assert self._memory is not None
        for memory, states in zip(self._memory, (key_states, value_states), strict=True):
            memory[..., used:needed, :] = states
        self.keep(needed)
        return self.keys, self.values

    @property
    def bytes_per_token(self) -> int:
        """Bytes that the states of one token take; 0 before the first."""
        return sum(memory[..., 0, :].numel() * memory.element_size() for memory in self._memory or ())

    def keep(self, length: int) -> None:
        """Keep the first states only."""
        if self._memory is not None:
            self.keys, self.values = (memory[..., :length, :] for memory in self._memory)

    def _grow(self, key_states: torch.Tensor, value_states: torch.Tensor, used: int, size: int) -> None:
        old = self._memory
        self._memory = (_empty(key_states, size), _empty(value_states, size))
        if old is not None:
            for memory, before in zip(self._memory, old, strict=True):
                memory[..., :used, :] = before[..., :used, :]
        self.dtype, self.device = key_states.dtype, key_states.device
        self.is_initialized = True


def _empty(states: torch.Tensor, size: int) -> torch.Tensor:
    return states.new_empty((*states.shape[:-2], size, states.shape[-1]))


class LiveCache:
    """The cache of one model, holding some token prefix.

    Full-attention layers go back by a shorter view. Sliding-window and linear-attention layers forget what they have
    passed, so their states are copied at the positions to which the walk will come back.

    Args:
        model: A decoder-only transformers model.
        reserve: The most tokens that it will have to hold.

    Attributes:
        cache: The transformers cache.
        argument: Name under which the model takes it.
        length: Number of tokens it holds.

    Raises:
        UserError: transformers has no cache that can be kept between calls for this model.
    """

    def __init__(self, model: Any, reserve: int) -> None:
        self._model = model
        base = model.get_base_model() if hasattr(model, "get_base_model") else model
        use_packed_attention(base)
        parameters = inspect.signature(base.forward).parameters
        self.device = base.get_input_embeddings().weight.device
        # transformers 5 renames the argument, and older models cannot leave out logits.
        self.argument = "cache" if "cache" in parameters else "past_key_values"
        self._keeps_logits = "logits_to_keep" in parameters
        try:
            self.cache = DynamicCache(config=base.config)
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(
                f"hf-prefix has no cache for {type(base).__name__} with this transformers ({error!r})",
                "pip install --upgrade transformers, or use --model hf",
            ) from error
        layers = self.cache.layers
        if not layers:
            # Older releases add layers as they are used where the config names none.
            count = base.config.get_text_config(decoder=True).num_hidden_layers
            layers.extend(DynamicLayer() for _ in range(count))
        self.cache.layers = [ReservedLayer(reserve) if type(layer) is DynamicLayer else layer for layer in layers]
        self._forgetful = [layer for layer in self.cache.layers if not isinstance(layer, ReservedLayer)]
        self._snapshots: list[tuple[int, list[dict[str, Any]]]] = []
        self._initial = self._copy_states()
        self.length = 0

    @property
    def needs_snapshots(self) -> bool:
        """Whether some layers cannot go back without one."""
        return bool(self._forgetful)

    @property
    def bytes_per_token(self) -> int:
        """Bytes that one token takes in the layers that keep all of them."""
        return sum(layer.bytes_per_token for layer in self.cache.layers if isinstance(layer, ReservedLayer))

    def rewind(self, length: int) -> None:
        """Go back to so many tokens: where layers forget, to a position at which `snapshot` was called, or 0."""
        if length == self.length:
            return
        for layer in self.cache.layers:
            if isinstance(layer, ReservedLayer):
                layer.keep(length)
        if self._forgetful:
            while self._snapshots and self._snapshots[-1][0] > length:
                self._snapshots.pop()
            states = self._snapshots[-1][1] if length else self._initial
            assert not length or self._snapshots[-1][0] == length, "no snapshot at this position"
            for layer, state in zip(self._forgetful, states, strict=True):
                layer.__dict__.update(_clone(state))
        self.length = length

    def moved(self, length: int) -> None:
        """Take note that the cache was used by others and holds another number of tokens; it must go back next."""
        self.length = length

    def snapshot(self) -> None:
        """Remember this position, if some layers need that to come back to it."""
        if self._forgetful and (not self._snapshots or self._snapshots[-1][0] < self.length):
            self._snapshots.append((self.length, self._copy_states()))

    def extend(self, tokens: Tokens, wanted: Positions) -> torch.Tensor:
        """Run the next tokens through the model; return the logits of those wanted, (wanted, vocabulary)."""
        logits = self._forward(tokens, wanted)
        self.length += len(tokens)
        return logits

    @contextlib.contextmanager
    def branching(self) -> Iterator[Branching]:
        """Run tokens that see the cache and only some of each other; afterwards the cache is as before."""
        layers = self.cache.layers
        # A window may be needed as it was by several branches: what they add stands beside it.
        self.cache.layers = [layer if isinstance(layer, ReservedLayer) else _OpenWindow(layer) for layer in layers]
        try:
            yield Branching(self)
        finally:
            self.cache.layers = layers
            for layer in layers:
                if isinstance(layer, ReservedLayer):
                    layer.keep(self.length)

    def _forward(self, tokens: Tokens, wanted: Positions, **options: Any) -> torch.Tensor:
        device = self.device
        ids = torch.as_tensor(tokens, dtype=torch.long, device=device)[None]
        rest = len(tokens) - len(wanted)
        rows: Any = torch.as_tensor(wanted, dtype=torch.long, device=device)
        if self._keeps_logits:
            at_end = np.array_equal(wanted, np.arange(rest, len(tokens)))
            options["logits_to_keep"] = max(1, len(wanted)) if at_end else rows
            rows = slice(None)
        output = self._model(input_ids=ids, use_cache=True, **{self.argument: self.cache}, **options)
        return output.logits[0, rows if len(wanted) else slice(0, 0)]

    def _copy_states(self) -> list[dict[str, Any]]:
        return [_clone(layer.__dict__) for layer in self._forgetful]


class Branching:
    """Tokens that hang below a cache, run in any number of passes.

    Attributes:
        after: Positions of the tokens run so far.
    """

    def __init__(self, cache: LiveCache) -> None:
        self._cache = cache
        self.after = torch.empty(0, dtype=torch.long, device=cache.device)

    def run(self, tokens: Tokens, positions: Positions, hang: Positions, sees: torch.Tensor, wanted: Positions) -> Any:
        """Run some more tokens.

        Args:
            tokens: Their ids.
            positions: Their positions in their sequences.
            hang: How many tokens of the cache each may see.
            sees: Which of all tokens run in the branches, these included, each may see, (tokens, all).
            wanted: Those whose logits are wanted.

        Returns:
            The logits, (wanted, vocabulary).
        """
        own = torch.as_tensor(positions, device=self._cache.device)
        self.after = torch.cat([self.after, own])
        mask = TreeMask(
            self._cache.length, own, torch.as_tensor(hang, device=own.device), sees.to(own.device), self.after
        )
        with using(mask):
            return self._cache._forward(tokens, wanted, position_ids=own[None])


class _OpenWindow(DynamicLayer):
    """What a layer with a sliding window holds, with all that is added to it."""

    is_sliding = True

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.__dict__.update(
            {key: layer.__dict__[key] for key in ("keys", "values", "dtype", "device") if key in layer.__dict__}
        )
        self.is_initialized = layer.is_initialized


def _clone(value: Any) -> Any:
    """Copy a layer's state: tensors are cloned, since some layers update theirs in place."""
    if isinstance(value, torch.Tensor):
        return value.clone()
    if isinstance(value, dict):
        return {key: _clone(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_clone(entry) for entry in value]
    return value


@contextlib.contextmanager
def readable_memory_errors(cache: LiveCache, length: int, chunk: int) -> Iterator[None]:
    """Turn a device's lack of memory, with so many tokens of context and of one pass, into a `UserError`."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        size = cache.bytes_per_token
        raise UserError(
            f"out of memory on the device: a context of {length:,} tokens, whose cache takes {size:,} bytes a token "
            f"({size * length / 2**30:.1f} GiB), beside the model and passes of {chunk:,} tokens",
            "lower prefill_chunk, take a dtype of fewer bytes (dtype=bfloat16), or a shorter split",
        ) from error
