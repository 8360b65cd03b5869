"""JSON a value at a time: the same values as a plain parser gives, within bounds, whatever is in the file."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import personamem
from hypothesis import given, settings
from hypothesis import strategies as st

from personamem_builder.persona_bench import stream
from personamem_builder.persona_bench.stream import MAX_DEPTH, MAX_NUMBER, JsonError, entries, items, parse

TEXTS = st.text(st.characters(codec="utf-8", min_codepoint=32, exclude_characters="\x7f"), max_size=8)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


class Trickle(io.RawIOBase):
    """A file that gives a few bytes at a time."""

    def __init__(self, content: bytes, size: int) -> None:
        self._inner, self._size = io.BytesIO(content), size

    def read(self, size: int = -1) -> bytes:
        return self._inner.read(self._size)


def bounded(content: bytes, size: int) -> bytes:
    file = stream._Bounded(Trickle(content, size))
    return b"".join(iter(file.read, b""))


@settings(max_examples=60, deadline=None)
@given(st.lists(JSON_VALUES, max_size=4), st.booleans())
def test_values_are_those_of_a_plain_parser(values: list[Any], ascii_only: bool) -> None:
    text = json.dumps(values, ensure_ascii=ascii_only).encode()
    named = {str(number): value for number, value in enumerate(values)}
    assert parse(text) == values
    assert list(items(io.BytesIO(text))) == values
    assert list(entries(io.BytesIO(json.dumps(named).encode()))) == list(named.items())


@settings(max_examples=60, deadline=None)
@given(st.lists(JSON_VALUES, max_size=4), st.integers(1, 9))
def test_the_bounds_let_everything_within_them_pass_wherever_it_is_cut(values: list[Any], size: int) -> None:
    text = json.dumps(values).encode()
    assert bounded(text, size) == text


@pytest.mark.parametrize("size", [1, 7, 65536])
@pytest.mark.parametrize(
    ("content", "is_within"),
    [
        (b"[" * MAX_DEPTH, True),
        (b"[" * (MAX_DEPTH + 1), False),
        (b'{"a":' * (MAX_DEPTH + 1), False),
        (b"[]" * (3 * MAX_DEPTH), True),
        (b'["' + b"[" * (2 * MAX_DEPTH) + b'"]', True),
        (b'["\\"' + b"[" * (2 * MAX_DEPTH) + b'"]', True),
        (b'["\\\\"' + b"[" * (2 * MAX_DEPTH) + b"]", False),
        (b"[" + b"9" * MAX_NUMBER + b"]", True),
        (b"[" + b"9" * (MAX_NUMBER + 1) + b"]", False),
        (b"[-1." + b"0" * MAX_NUMBER + b"]", False),
        (b'["' + b"9" * 5000 + b'"]', True),
        (b"9" * 5000, False),
    ],
)
def test_depth_and_numbers_are_bounded_outside_of_texts_only(content: bytes, is_within: bool, size: int) -> None:
    if is_within:
        assert bounded(content, size) == content
    else:
        with pytest.raises(JsonError, match="limit of"):
            bounded(content, size)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "truncated"),
        (b'{"a": ', "truncated"),
        (b'{"a": 1}}', "not JSON"),
        (b'{"a": NaN}', "not JSON"),
        (b"\xff", "not JSON"),
        (b"{'a': 1}", "not JSON"),
    ],
)
def test_what_is_no_json_is_told(content: bytes, said: str) -> None:
    with pytest.raises(JsonError, match=said):
        parse(content)


@pytest.mark.parametrize("size", [1, 2, 5, 65536])
@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r"\ud83d\ude00", "😀"),
        (r"\ud83d", "\ufffd"),
        (r"\ude00\ud83d", "\ufffd\ufffd"),
        (r"\ud83d\ud83d\ude00", "\ufffd😀"),
        (r"\\ud83d", r"\ud83d"),
        (r"\\\uD83D.", "\\\ufffd."),
        (r"\n\ud83d\u00e9", "\n\ufffdé"),
    ],
)
def test_lone_surrogates_are_replaced_and_pairs_stay(text: str, value: str, size: int) -> None:
    content = f'["a, b", "{text}"]'.encode()
    assert json.loads(bounded(content, size)) == ["a, b", value]
    assert parse(content) == ["a, b", value]


def test_texts_can_be_encoded() -> None:
    (text,) = parse(rb'["\ud800 \u0000 \u001b[2J"]')
    text.encode()
    assert "\x00" not in text
    assert "\x1b" not in text


FILES = {
    "big integer": b'[{"author": ' + b"9" * 5000 + b"}]",
    "brackets": b"[" * 100_000,
    "objects": b'{"a":' * 100_000,
    "a deep list of a post": b'[{"author": "a", "comments": ' + b"[" * 9000 + b"]" * 9000 + b"}]",
    "deep row": b'{"post_data_store": ' + b"[" * 100_000,
    "prompt of brackets": b'{"user": "u", "true_label": "t", "prompt": "' + b"{\\n" * 100_000 + b'"}',
    "long keys": b'[{"author": "a", "' + b"k" * 500_000 + b'": ' + b"[" * 9000 + b"]" * 9000 + b"}]",
    "lone surrogates": rb'[{"author": "a\ud800", "title": "\udfff", "comments": []}]',
    "exponent": b'[{"author": "a", "score": 1e999999999, "timestamp": -1e999999999, "comments": []}]',
}


@pytest.mark.parametrize("name", FILES)
def test_no_file_crashes_the_import_or_fills_the_memory(name: str, tmp_path: Path) -> None:
    path = tmp_path / "posts.json"
    path.write_bytes(FILES[name])
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (2**31, 2**31));"
        "from personamem_builder.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "persona-bench", "import", str(path), "--out", str(tmp_path / "out")],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    if name in ("lone surrogates", "long keys"):
        assert done.returncode == 0
    else:
        assert done.returncode == 1
        assert done.stderr.startswith("error: ")
        assert "posts.json" in done.stderr
        assert not (tmp_path / "out").exists()
    assert "Traceback" not in done.stderr
    assert len(done.stderr) < 5000


@pytest.mark.parametrize("name", ["", "folder", "x" * 300])
def test_a_place_without_a_file_is_an_error(name: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    outcome = personamem("persona-bench", "import", str(tmp_path / name), "--out", tmp_path / "out")
    assert outcome.exit_code == 1
    assert "cannot be read" in outcome.err
    assert not (tmp_path / "out").exists()


def test_a_seed_has_64_bits(tmp_path: Path) -> None:
    outcome = personamem("persona-bench", "import", tmp_path / "x", "--seed", str(2**63))
    assert outcome.exit_code == 2
    assert "9223372036854775807" in outcome.err
