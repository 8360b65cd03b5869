from __future__ import annotations

import pytest

from personamem_builder.results.model_names import ends_of, short_names


@pytest.mark.parametrize(
    ("model", "ends"),
    [
        ("gpt-4o", ["gpt-4o"]),
        ("org/model", ["org/model"]),
        ("together_ai/org/model", ["together_ai/org/model"]),
        ("/home/me/model", ["model", "me/model", "home/me/model", "/home/me/model"]),
        ("./runs/model/", ["model", "runs/model", "./runs/model/"]),
        ("../model", ["model", "../model"]),
        ("~/model", ["model", "~/model"]),
        (r"C:\models\mine", ["mine", "models/mine", "C:/models/mine", r"C:\models\mine"]),
        ("hf//home/model", ["model", "home/model", "hf/home/model", "hf//home/model"]),
        ("/a/base + /b/lora", ["base + lora", "a/base + b/lora", "/a/base + /b/lora"]),
        ("org/base + /b/lora", ["org/base + lora", "org/base + b/lora", "org/base + /b/lora"]),
        ("../..", ["../.."]),
        ("/", ["/"]),
    ],
)
def test_a_path_may_be_called_by_its_ends_and_a_name_by_itself_alone(model: str, ends: list[str]) -> None:
    assert ends_of(model) == ends


@pytest.mark.parametrize(
    "called",
    [
        {"/a/model": "model", "org/other": "org/other"},
        {"/a/x/model": "x/model", "/b/y/model": "y/model", "/b/y/third": "third"},
        {"/a/x/model": "a/x/model", "/b/x/model": "b/x/model"},
        {"model": "model", "/a/model": "a/model"},
        {"/a/org/name": "name", "org/name": "org/name"},
        {"/a/model": "/a/model", "a/model": "a/model", "model": "model"},
    ],
)
def test_no_two_models_have_one_name(called: dict[str, str]) -> None:
    assert short_names(called) == called
    assert short_names(reversed(called)) == called
    assert len(set(called.values())) == len(called)
