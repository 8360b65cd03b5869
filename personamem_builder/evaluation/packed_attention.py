"""Attention for a few new tokens over a long cache, without copying the cache for each group of heads."""

from __future__ import annotations

from typing import Any, Final

import torch
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from personamem_builder.evaluation.tree_mask import is_used, or_tree

_NAME: Final = "personamem_packed_sdpa"
_FEW_QUERIES: Final = 32
"""Up to here copies of a mask cost less than a batch of groups."""
_BLOCK: Final = 256
"""Queries of a longer input attend in blocks, each without the keys that come after it."""


def use_packed_attention(model: Any) -> None:
    """Make a model that attends by `sdpa` use `packed_attention`; leave any other as it is."""
    if getattr(model.config, "_attn_implementation", None) != "sdpa":
        return
    AttentionInterface.register(_NAME, packed_attention)
    AttentionMaskInterface.register(_NAME, or_tree(sdpa_mask))
    model.set_attn_implementation(_NAME)


def packed_attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Attend as transformers' `sdpa` does, with its arguments.

    With a mask and grouped heads, `sdpa` repeats keys and values for every head of a group, which for an option of a
    few tokens copies the whole history in every layer. Here the heads of a group become further queries instead, or, of
    longer inputs, a batch over the same keys and values.
    `query` is (batch, heads, queries, size), `key` and `value` (batch, key-value heads, keys, size), and the first
    result (batch, queries, heads, size).
    """
    batch, heads, queries, size = query.shape
    groups = heads // key.shape[1]
    plain = attention_mask is None or attention_mask.shape[1] != 1 or batch > 1
    plain = plain or (groups == 1 and queries <= _BLOCK)
    # On a GPU a long history's own tokens outweigh what is gained.
    plain = plain or (queries > _BLOCK and not is_used() and query.device.type != "cpu")
    if attention_mask is not None and attention_mask.dtype not in (torch.bool, query.dtype):
        attention_mask = attention_mask.to(query.dtype)  # under autocast
    if plain or dropout or any(kwargs.get(name) is not None for name in ("position_bias", "softcap", "s_aux")):
        return sdpa_attention_forward(  # type: ignore[no-any-return]
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, is_causal=is_causal, **kwargs
        )
    assert attention_mask is not None
    attend = torch.nn.functional.scaled_dot_product_attention
    if queries <= _FEW_QUERIES:
        folded = query.reshape(1, heads // groups, groups * queries, size)
        output = attend(folded, key, value, attn_mask=attention_mask.repeat(1, 1, groups, 1), scale=scaling)
        return output.reshape(1, heads, queries, -1).transpose(1, 2).contiguous(), None
    by_group = query.reshape(heads // groups, groups, queries, size).transpose(0, 1)
    blocks = []
    for begin in range(0, queries, _BLOCK):
        end = min(queries, begin + _BLOCK)
        seen = key.shape[2] - queries + end
        states = (every[:, :, :seen].expand(groups, -1, -1, -1) for every in (key, value))
        mask = attention_mask[:, :, begin:end, :seen]
        blocks.append(attend(by_group[:, :, begin:end], *states, attn_mask=mask, scale=scaling))
    output = torch.cat(blocks, dim=2)
    return output.permute(2, 1, 0, 3).reshape(1, queries, heads, -1), None
