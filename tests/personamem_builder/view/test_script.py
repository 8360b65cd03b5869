from __future__ import annotations

import json

import pytest

from personamem_builder.view.script import data_script


def value_of(script: bytes) -> object:
    text = script.decode()
    assert text.startswith("personamem(...")
    assert text.endswith(");\n")
    return json.loads(text.removeprefix("personamem(...").removesuffix(");\n"))


@pytest.mark.parametrize(
    "text",
    [
        "</script><script>alert(1)</script>",
        "<!-- <script",
        "a\u2028b\u2029c",
        '"); alert(1); ("',
        "\\",
        "\u202eüber 𝄞",
        "\0",
    ],
)
def test_any_text_is_kept_and_cannot_end_the_script(text):
    script = data_script("data/x.js", {"text": text})
    assert value_of(script) == ["data/x.js", {"text": text}]
    assert not {"<", "\u2028", "\u2029"} & set(script.decode())


def test_half_a_character_does_not_stop_the_page():
    assert value_of(data_script("x", ["a\ud800b"])) == ["x", ["a?b"]]
