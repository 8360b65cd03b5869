"""YAML, JSON and text that others wrote: read right, or refused with the place, and never at any cost."""

from __future__ import annotations

import json
import time
import tracemalloc
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from generation import reading
from generation.errors import UserError
from generation.reading import clean_text, json_lines, parse_json, read_json, read_model, read_text
from generation.yaml_reading import parse_yaml, read_yaml

FAULTS = Path(__file__).resolve().parents[3] / "shared" / "data" / "faults"

texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]))
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63) + 1, 2**63 - 1) | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


@given(values)
def test_what_json_holds_comes_back_as_it_was(value: Any) -> None:
    assert parse_json(json.dumps(value), "here") == value
    assert parse_json(json.dumps(value, ensure_ascii=False), "here") == value


@given(values)
def test_what_yaml_holds_comes_back_as_it_was(value: Any) -> None:
    assert parse_yaml(yaml.safe_dump(value), "here") == value


marks = st.text("{}[]:,-&*!?|>'\"%@`#\n\t 0123456789.eE+abtruefalsn~<=\\x").map(str.encode)


@given(st.binary(max_size=60) | marks)
@example(b"2021-13-45")
@example(b"!!int foo")
@example(b"!!python/object/apply:os.system [ls]")
@example(b"? [a]\n: b")
@example(b"<<: 1")
@example(b"=")
@example(b"a: &a [*a]")
@example(b"{1: 2, [3]: 4}")
@example(b"!!timestamp x")
@example(b"!!binary x")
@example(b"!!float x")
@example(b"190:20:30:-")
@example(b"0b")
@example(b"1" * 5_000)
@example(b"0x" + b"f" * 5_000)
@example(b"[" * 200)
@example(b"[" * 100_000)
@example(b"- " * 100_000)
@example(b'{"a":' * 100_000)
@example("\ufeff1".encode())
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    for parse in (parse_json, parse_yaml):
        with suppress(UserError):
            parse(reading.decode(data, "here"), "here")


@pytest.mark.parametrize("text", ["[" * 101 + "]" * 101, '{"a":' * 101 + "1" + "}" * 101])
@pytest.mark.parametrize("parse", [parse_json, parse_yaml])
def test_one_level_too_many_is_refused(parse: Any, text: str) -> None:
    with pytest.raises(UserError, match="deeper than the limit of 100"):
        parse(text, "here")
    inner = text[1:-1] if text[0] == "[" else text[5:-1]
    assert parse(inner, "here")


@pytest.mark.parametrize(
    ("number", "is_right"), [("9" * 18, True), ("-" + "9" * 18, True), ("9" * 20, False), ("-" + "9" * 5_000, False)]
)
@pytest.mark.parametrize("parse", [parse_json, parse_yaml])
def test_whole_numbers_have_64_bits(parse: Any, number: str, is_right: bool) -> None:
    if is_right:
        assert parse(number, "here") == int(number)
    else:
        with pytest.raises(UserError, match="here"):
            parse(f"[{number}]", "here")


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        ("a: 1\nb: 2\na: 3", "line 3, column 1", "the key 'a' stands twice"),
        ("a:\n  b: {c: 1, c: 2}", "line 2, column 13", "the key 'c' stands twice"),
        ("a: 1\nb: 2021-13-45", "line 2, column 4", "'2021-13-45' is no timestamp"),
        ("a: !!int foo", "line 1, column 4", "'foo' is no int"),
        ("a: !!float foo", "line 1, column 4", "'foo' is no float"),
        ("a: !mine foo", "line 1, column 4", "could not determine a constructor"),
        ("a: &x [*x]", "line 1, column 4", "holds itself"),
        ("a: [1, 2", "line 2, column 1", "did not find expected"),
        ("a: \x01", "", "not YAML"),
        ("--- 1\n--- 2", "line 2", "another document"),
    ],
)
def test_faults_of_yaml_have_their_place(text: str, place: str, problem: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_yaml(text, "some.yaml", "a hint")
    assert caught.value.message.startswith("some.yaml")
    assert place in caught.value.message
    assert problem in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.hint == "a hint"


def test_a_merged_key_may_be_overridden() -> None:
    assert parse_yaml("x: &x {a: 1, b: 2}\ny: {<<: *x, a: 3}", "here")["y"] == {"a": 3, "b": 2}


def test_what_is_empty_is_none_in_yaml_and_an_error_in_json() -> None:
    assert parse_yaml("", "here") is None
    with pytest.raises(UserError, match="here is not JSON"):
        parse_json("", "here")


# --- bombs


def bomb(levels: int) -> str:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, levels)]
    return "\n".join(rows)


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (parse_yaml, bomb(40)),
        (parse_yaml, "[" + "1," * 10_000_000 + "]"),
        (parse_yaml, "a: " + "9" * 1_000_000),
        (parse_yaml, "{" * 1_000_000),
        (parse_json, "[" * 1_000_000),
        (parse_json, "9" * 10_000_000),
        (parse_json, '{"":' * 1_000_000),
    ],
    ids=["aliases", "values", "digits", "yaml depth", "json depth", "json digits", "json mappings"],
)
def test_a_bomb_is_refused_before_it_goes_off(parse: Any, text: str) -> None:
    start = time.process_time()
    with pytest.raises(UserError, match="here"):
        parse(text, "here")
    assert time.process_time() - start < 20


def test_aliases_cost_no_memory_before_they_are_refused() -> None:
    tracemalloc.start()
    with pytest.raises(UserError, match="more than 100,000 values"):
        parse_yaml(bomb(40), "here")
    assert tracemalloc.get_traced_memory()[1] < 50 * 2**20
    tracemalloc.stop()


@pytest.mark.parametrize("name", ["bomb.yaml", "bad_date.yaml", "huge_int.yaml", "gates_date.yaml"])
def test_the_faults_that_were_found_are_refused(name: str) -> None:
    if not (FAULTS / name).is_file():
        pytest.skip(f"{name} is not beside this checkout (shared/data/faults)")
    with pytest.raises(UserError) as caught:
        read_yaml(FAULTS / name)
    assert str(FAULTS / name) in caught.value.message


# --- files


@pytest.mark.parametrize("read", [read_text, read_json, read_yaml])
def test_what_is_no_file_is_named(read: Any, tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent", Path("a\0b"), tmp_path / ("x" * 5_000)):
        with pytest.raises(UserError) as caught:
            read(path, "a hint")
        assert str(path) in caught.value.message
        assert caught.value.hint == "a hint"


def test_another_encoding_is_named_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one\ntwo\n\xff\xfe")
    with pytest.raises(UserError, match=r"line 3: byte 8 \(0xff\) is not UTF-8"):
        read_text(path)


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}')
    assert read_json(path) == {"a": 1}


def test_a_file_that_is_too_long_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    with path.open("wb") as file:
        file.truncate(2 * 2**20 + 1)
    monkeypatch.setattr(reading, "MAX_FILE_BYTES", 2 * 2**20)
    with pytest.raises(UserError, match="longer than the limit of 2 MiB"):
        read_text(path)


def test_lines_are_named_by_their_number(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text('{"a": "\u2028"}\n\n1\n')
    assert list(json_lines(path)) == [(1, {"a": "\u2028"}), (3, 1)]
    path.write_text("1\n\n{")
    with pytest.raises(UserError, match="file, line 3 is not JSON"):
        list(json_lines(path))


# --- text


@given(st.text())
def test_clean_text_can_be_encoded_and_good_text_stays(text: str) -> None:
    found = clean_text(text)
    found.encode()
    assert clean_text(found) == found
    assert len(found) == len(text)


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("tab\tend\r\n", "tab\tend\r\n"),
        ("Zoë 🙂", "Zoë 🙂"),
        ("a\0b", "a\ufffdb"),
        ("\ud800", "\ufffd"),
        ("\x1b[0m", "\ufffd[0m"),
    ],
)
def test_only_what_no_encoder_takes_is_replaced(text: str, clean: str) -> None:
    assert clean_text(text) == clean
    assert parse_json(json.dumps([text, {text: 1}]), "here") == [clean, {clean: 1}]


def test_escapes_of_yaml_are_made_encodable() -> None:
    assert parse_yaml('{"a\\0": ["b\\e"]}', "here") == {"a\ufffd": ["b\ufffd"]}


# --- forms


class Form(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    name: str
    counts: dict[str, int] = {}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{}", "name: Field required"),
        ('{"name": 1}', r"name: Input should be a valid string \(it is 1\)"),
        ('{"name": "x", "counts": {"a": true}}', r"counts.a: .*valid integer \(it is True\)"),
        ('{"name": "x", "more": 1}', "unknown key 'more'"),
        ("null", "valid dictionary"),
        ("[]", "valid dictionary"),
    ],
)
def test_another_form_is_described(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "file.json"
    path.write_text(content)
    with pytest.raises(UserError, match=message) as caught:
        read_model(path, Form)
    assert caught.value.message.startswith(f"{path}: ")


def test_many_faults_are_counted() -> None:
    with pytest.raises(UserError, match=r"; and 10 more$"):
        reading.as_model({"name": "x", "counts": {str(i): "" for i in range(30)}}, Form, "here")
