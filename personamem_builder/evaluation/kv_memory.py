"""How much memory the key-value cache of a local model takes, by its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from generation.errors import UserError
from generation.reading import read_json

_BYTES: Final = {"float64": 8, "float32": 4, "float": 4, "float16": 2, "half": 2, "bfloat16": 2}
_OTHER_FORMS: Final = ("kv_lora_rank", "num_kv_shared_layers")
"""Keys of models that keep something else than a key and a value for each head of a layer."""


class KVCache(NamedTuple):
    """The cache of one sequence.

    Attributes:
        per_token: Bytes of a token in the layers that see everything before it.
        windowed: Bytes of a token in those that see a window.
        window: Tokens of that window.
        dtype: Of keys and values.
    """

    per_token: int
    windowed: int
    window: int
    dtype: str

    def bytes_of(self, tokens: int) -> int:
        """Return the bytes of a sequence of so many tokens."""
        return self.per_token * tokens + self.windowed * min(tokens, self.window)


def find_config(pretrained: str, revision: str | None = None) -> Mapping[str, Any] | None:
    """Return the configuration of a model: of a folder, or of the Hub's cache on this machine; nothing is fetched."""
    path: object = Path(pretrained).expanduser() / "config.json"
    if not Path(str(path)).is_file():
        from huggingface_hub import try_to_load_from_cache
        from huggingface_hub.errors import HFValidationError

        try:
            path = try_to_load_from_cache(pretrained, "config.json", revision=revision or "main")
        except HFValidationError:  # a path that is not there
            return None
    if not isinstance(path, str | Path):
        return None
    try:
        config = read_json(Path(path))
    except UserError:
        return None
    if not isinstance(config, dict):
        return None
    inner = config.get("text_config")
    return {**config, **inner} if isinstance(inner, dict) else config


def kv_cache(config: Mapping[str, Any], dtype: str = "auto") -> KVCache | None:
    """Return the cache of a model by its configuration; None where that does not tell.

    Two vectors, key and value, of `head_dim` for each key-value head of each layer. Layers of linear attention keep a
    state that does not grow, which is left out.

    Args:
        config: As `config.json` has it.
        dtype: Of the model, as it will be loaded.
    """
    name = str(config.get("dtype") or config.get("torch_dtype") or "float32") if dtype == "auto" else dtype
    size = _BYTES.get(name.removeprefix("torch."))
    layers, heads, width = (
        next((config[key] for key in keys if isinstance(config.get(key), int)), 0)
        for keys in (("num_hidden_layers", "n_layer"), ("num_attention_heads", "n_head"), ("hidden_size", "n_embd"))
    )
    if size is None or not (layers and heads and width) or any(config.get(key) for key in _OTHER_FORMS):
        return None
    kv_heads, head_dim = config.get("num_key_value_heads") or heads, config.get("head_dim") or width // heads
    if not isinstance(kv_heads, int) or not isinstance(head_dim, int):
        return None
    of_layer = 2 * kv_heads * head_dim * size
    kinds = _kinds(config, layers)
    window = config.get("sliding_window") or config.get("attention_chunk_size") or 0
    seeing_all = sum(kind == "full_attention" for kind in kinds)
    seeing_part = sum(kind in ("sliding_attention", "chunked_attention") for kind in kinds)
    return KVCache(of_layer * seeing_all, of_layer * seeing_part, window, name.removeprefix("torch."))


def _kinds(config: Mapping[str, Any], layers: int) -> list[str]:
    """Return what kind of attention each layer has."""
    kinds = config.get("layer_types")
    if isinstance(kinds, list) and len(kinds) == layers:
        return [str(kind) for kind in kinds]
    is_windowed = config.get("sliding_window") and config.get("use_sliding_window", True)
    return ["sliding_attention" if is_windowed else "full_attention"] * layers
