"""The one object in a reply is found, and never a part of a broken one."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generation.llm.reply_text import is_refusal, json_text

GOOD = '{"name": "rust", "red": 183, "notes": {"tags": ["{a}", "}"]}}'


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"  {GOOD}\n",
        f"```json\n{GOOD}\n```",
        f"```\n{GOOD}```",
        f"Sure! Here is the JSON:\n\n{GOOD}\n\nIs there anything else?",
        f"With {{placeholders}} filled in: {GOOD}",
        f"<think>Maybe {{}} or {GOOD}?</think>\n{GOOD}",
        f"Maybe {GOOD}?\n</think>\n{GOOD}",
        f"[{GOOD}]",
    ],
)
def test_an_object_is_found_in_what_is_around_it(text: str) -> None:
    assert json_text(text) == GOOD


@pytest.mark.parametrize(
    "text",
    [
        "",
        "rust",
        '"rust"',
        f"{GOOD}\n{GOOD}",
        f"First {GOOD}, or rather {{}}.",
        f"[{GOOD}, {GOOD}]",
        '{"turns": [{"user": "Hello"}, {"user": "By',
        '{"first": {"user": "Hello"} "second": 2}',
        '{"name": "rust",}',
        "{" * 50_000,
        '{"a":' * 50_000,
        f"<think>Maybe {GOOD}?",
    ],
    ids=lambda text: text[:30],
)
def test_a_text_without_one_object_stays_as_it_is(text: str) -> None:
    assert json_text(text) == text


def test_thoughts_are_never_part_of_a_text() -> None:
    assert json_text("<think>rust?</think> rust") == "rust"
    assert json_text("<think>rust?</think>") == ""


def test_what_looks_like_thoughts_within_an_answer_stays() -> None:
    text = '{"name": "the mark </think> ends {thoughts}"}'
    assert json_text(text) == text


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(st.text(), values, max_size=4),
    st.text(st.characters(exclude_characters="{}<>")),
    st.text(st.characters(exclude_characters="{}<>")),
)
def test_any_object_is_found_in_any_prose(content: dict[str, object], before: str, after: str) -> None:
    found = json_text(f"{before}{json.dumps(content)}{after}")
    assert json.loads(found) == content
    assert json_text(found) == found


@given(st.text('{}[]",:a \\<think/>'))
def test_any_text_gives_a_part_of_it(text: str) -> None:
    assert json_text(text) in text


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, but I can't help with that.",
        "I\u2019m sorry, but I can\u2019t assist with this request.",
        "I am very sorry, I cannot do that.",
        "Sorry, I can't write this.",
        "Unfortunately, I am not able to write such a profile.",
        "I apologize, but I won't continue.",
        "I cannot create content of that kind.",
        "I can't. {not an object",
        "I must decline.",
        "As an AI, I have no opinions.",
        "<think>Hm, is this allowed?</think>I will not answer.",
    ],
)
def test_refusals_are_seen(text: str) -> None:
    assert is_refusal(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "rust",
        GOOD,
        f"I'm sorry, I cannot be shorter: {GOOD}",
        '{"user": "I\'m sorry, but I can\'t make it."}',
        "The colour is rust. I can't say more.",
        "Unfortunately, the season was over.",
        "I can do that: rust.",
    ],
)
def test_answers_are_no_refusals(text: str) -> None:
    assert not is_refusal(text)
