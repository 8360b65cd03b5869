"""No key of the environment reaches a stream, in whatever form and pieces it comes."""

from __future__ import annotations

import html
import io
import json
import logging
import os
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from unittest import mock
from urllib.parse import quote, quote_plus

import click
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from rich.console import Console
from tqdm import tqdm

from generation.redaction import RedactingStream, redact, redact_data

ROOT = Path(__file__).parents[2]
KEY = "sk-proj-SeCrEt_0123456789abcdef"

NAMES = st.sampled_from(
    ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "HF_TOKEN", "MY_SECRET", "APIKEY", "aws_secret_access_key", "DB_PASSWORD"]
)
VALUES = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=8, max_size=40).map(str.strip)


@contextmanager
def environment(**values: str) -> Iterator[None]:
    with mock.patch.dict(os.environ, values, clear=True):
        yield


def wrapped() -> tuple[RedactingStream, io.TextIOWrapper]:
    inner = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="")
    return RedactingStream(inner), inner


def written(stream: RedactingStream, inner: io.TextIOWrapper) -> str:
    stream.flush()
    content: bytes = inner.buffer.getvalue()  # type: ignore[attr-defined]
    return content.decode()


def spellings(value: str) -> dict[str, str]:
    return {
        "plain": value,
        "repr": repr(value)[1:-1],
        "ascii": ascii(value)[1:-1],
        "repr of bytes": repr(value.encode())[2:-1],
        "JSON": json.dumps(value)[1:-1],
        "JSON in UTF-8": json.dumps(value, ensure_ascii=False)[1:-1],
        "repr in JSON": json.dumps(repr(value))[2:-2],
        "URL": quote(value, safe=""),
        "path": quote(value),
        "form": quote_plus(value),
        "HTML": html.escape(value),
    }


@settings(max_examples=100, deadline=None)
@given(NAMES, VALUES, st.text(max_size=10), st.text(max_size=10))
def test_no_value_survives_in_any_spelling(name: str, value: str, before: str, after: str) -> None:
    assume(len(value) >= 8)
    assume(value not in "[redacted]" * 4)
    with environment(**{name: value}):
        for kind, spelled in spellings(value).items():
            assume(spelled not in "[redacted]" * 4)
            assert spelled not in redact(f"{before}{spelled}{after}"), kind


@settings(max_examples=70, deadline=None)
@given(VALUES, st.lists(st.integers(0, 60), max_size=6), st.text(max_size=10), st.text(max_size=10))
def test_no_value_survives_in_pieces(value: str, cuts: list[int], before: str, after: str) -> None:
    assume(len(value) >= 8)
    assume(value not in "[redacted]" * 4)
    assume(not set(value) & set("\n\r"))
    text = f"{before}{value}{after}"
    places = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    with environment(OPENAI_API_KEY=value):
        stream, inner = wrapped()
        for start, end in pairwise(places):
            assert stream.write(text[start:end]) == end - start
        assert value not in written(stream, inner)


@settings(max_examples=70, deadline=None)
@given(st.text())
def test_a_text_without_keys_is_written_as_it_is(text: str) -> None:
    assume("://" not in text)
    with environment(OPENAI_API_KEY=KEY):
        assert redact(text.replace("\ud800", "")) == text


@pytest.mark.parametrize("value", ["none", "x", "", "EMPTY", "1234567"])
def test_a_placeholder_is_no_key(value: str) -> None:
    with environment(OPENAI_API_KEY=value):
        assert redact("nonetheless EMPTY x 1234567") == "nonetheless EMPTY x 1234567"


def test_the_lines_of_a_long_key_are_keys() -> None:
    with environment(SSH_PRIVATE_KEY="-----BEGIN-----\nAbCdEfGhIj\nKlMnOpQrSt\n-----END-----"):
        assert redact("line: KlMnOpQrSt") == "line: [redacted]"


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer {}",
        "authorization=Basic {}",
        "Proxy-Authorization: Basic {}",
        "{{'Authorization': 'Bearer {}', 'User-Agent': 'x'}}",
        '{{"x-api-key": "{}"}}',
        r"{{\"x-api-key\": \"{}\"}}",
        "<CIMultiDictProxy('Host': 'a', 'Authorization': 'Bearer {}')>",
        "<CIMultiDict('x-api-key': '{}', 'anthropic-version': '2023-06-01')>",
        "Headers({{'host': 'a', 'x-api-key': '{}'}})",
        "[(b'Host', b'a'), (b'Authorization', b'Bearer {}')]",
        "[(b'x-api-key', b'{}')]",
        "{{'Authorization': ['Bearer {}']}}",
        "curl -H 'api-key: {}' https://a/",
        "token: bearer {}",
        "https://me:{}@host/v1",
        "postgres://me:{}@host/db",
        "Set-Cookie: sid={}; Path=/",
        "{{'Cookie': 'sid={}'}}",
    ],
)
def test_what_stands_where_keys_stand_is_hidden_whatever_it_is(text: str) -> None:
    with environment():
        shown = redact(text.format(KEY))
    assert KEY not in shown
    assert "[redacted]" in shown


@pytest.mark.parametrize(
    "text",
    [
        "My favourite cookie: oatmeal. A cookie, and milk.",
        "The bearer of news came.",
        "https://host/v1?a=b me@host.example",
        "max_tokens: 512, eos_token='</s>'",
        "He asked for authorization.",
    ],
)
def test_plain_words_stay(text: str) -> None:
    with environment():
        assert redact(text) == text


def test_data_lose_keys_and_nothing_else() -> None:
    with environment(HF_TOKEN=KEY):
        assert redact_data(
            {
                "header": {"X-Api-Key": "abc", "Cookie": "a=b", "Accept": "json"},
                "api_key": "abc",
                "auth_token": "abc",
                "eos_token": "</s>",
                "max_tokens": 5,
                "list": [KEY, 1, None, ("x", f"{KEY}y")],
            }
        ) == {
            "header": {"X-Api-Key": "[redacted]", "Cookie": "[redacted]", "Accept": "json"},
            "api_key": "[redacted]",
            "auth_token": "[redacted]",
            "eos_token": "</s>",
            "max_tokens": 5,
            "list": ["[redacted]", 1, None, ["x", "[redacted]y"]],
        }


# --- as the stream of everything that prints


def by_logging(stream: RedactingStream) -> None:
    handler = logging.StreamHandler(stream)
    logger = logging.Logger("test")
    logger.addHandler(handler)
    logger.error("Exception:%r", {"Authorization": f"Bearer {KEY}"})


def by_traceback(stream: RedactingStream) -> None:
    try:
        raise ValueError(KEY)
    except ValueError:
        traceback.print_exc(file=stream)


def by_warning(stream: RedactingStream) -> None:
    stream.write(warnings.formatwarning(KEY, UserWarning, "x.py", 1, ""))


def by_tqdm(stream: RedactingStream) -> None:
    with tqdm([1, 2], desc=KEY, file=stream) as bar:
        for _ in bar:
            bar.write(KEY, file=stream)


BY: dict[str, Callable[[RedactingStream], object]] = {
    "print": lambda stream: print(KEY, {"k": KEY}, sep="|", file=stream),
    "print without end": lambda stream: print(KEY, end="", file=stream, flush=True),
    "writelines": lambda stream: stream.writelines([KEY[:9], KEY[9:], "\n"]),
    "click": lambda stream: click.echo(f"a {KEY}", file=stream),
    "click, bytes": lambda stream: click.echo(f"a {KEY}".encode(), file=stream),
    "click, colours": lambda stream: click.secho(KEY, fg="red", file=stream),
    "buffer": lambda stream: stream.buffer.write(KEY.encode()),
    "rich": lambda stream: Console(file=stream, force_terminal=True, width=200).print(f"[bold]{KEY}[/bold]"),
    "logging": by_logging,
    "traceback": by_traceback,
    "warning": by_warning,
    "tqdm": by_tqdm,
}


@pytest.mark.parametrize("way", BY)
def test_whoever_prints_prints_no_key(way: str) -> None:
    with environment(OPENAI_API_KEY=KEY):
        stream, inner = wrapped()
        BY[way](stream)
        shown = written(stream, inner)
    assert KEY not in shown
    assert "[redacted]" in shown


def test_it_is_like_the_stream_below() -> None:
    stream, inner = wrapped()
    assert (stream.encoding, stream.errors, stream.isatty()) == (inner.encoding, inner.errors, False)
    assert stream.writable()
    assert not stream.buffer.isatty()
    assert not stream.closed
    assert stream.line_buffering is False
    with Path(os.devnull).open("w", encoding="utf-8") as null:
        assert RedactingStream(null).fileno() == null.fileno()
    with pytest.raises(TypeError):
        stream.write(b"bytes")  # type: ignore[arg-type]
    stream.write("one\ntwo")
    assert inner.tell() == 4
    stream.close()
    assert inner.tell() == 7
    inner.close()
    assert stream.closed
    stream.close()


def test_lines_are_not_held_back() -> None:
    stream, inner = wrapped()
    for text in ("a\n", "b\r", "c"):
        stream.write(text)
        inner.flush()
    assert inner.buffer.getvalue() == b"a\nb\r"  # type: ignore[attr-defined]


PROGRAM = """
import logging, os, sys, threading
from concurrent.futures import wait
from generation.parallel import process_pool
from generation.redaction import hide_keys

def loud(_=None):
    key = os.environ["OPENAI_API_KEY"]
    print(key, flush=True)
    logging.warning(key)
    sys.stderr.write(key[:8]); sys.stderr.write(key[8:])
    os.write(2, b"")

if __name__ == "__main__":
    hide_keys()
    loud()
    thread = threading.Thread(target=loud); thread.start(); thread.join()
    with process_pool(1, loud) as pool:
        wait([pool.submit(loud, 1)])
    failing = threading.Thread(target=lambda: 1 / 0, name=os.environ["OPENAI_API_KEY"]); failing.start(); failing.join()
    raise ValueError(os.environ["OPENAI_API_KEY"])
"""


def test_threads_workers_and_the_last_traceback_show_no_key(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    env = os.environ | {"OPENAI_API_KEY": KEY, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, program], env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert KEY not in done.stdout + done.stderr
    assert done.stdout.count("[redacted]") == 4
    assert done.stderr.count("[redacted]") >= 10
    assert "ZeroDivisionError" in done.stderr
    assert "ValueError: [redacted]" in done.stderr
