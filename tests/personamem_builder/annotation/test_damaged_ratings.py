"""Ratings and keys of wrong shapes: an error that names the file, and never a traceback."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import personamem

from personamem_builder.annotation.sheet import ANSWERS_FORMAT, ANSWERS_VERSION

KEY: dict[str, Any] = {
    "format": "personamem-annotation-key", "version": 1, "sample": "s1", "split": "32k",
    "items": [
        {"id": f"q{i}", "answer": "b", "options": 4, "question_type": "one", "topic": "tea"} for i in range(3)
    ],
}  # fmt: skip
SHEET: dict[str, Any] = {
    "format": ANSWERS_FORMAT, "version": ANSWERS_VERSION, "sample": "s1", "rater": "Ann",
    "answers": {"q0": {"best": "b", "comment": "fine"}, "q1": {"best": "unsure"}},
}  # fmt: skip
STUDIO: list[dict[str, Any]] = [
    {
        "data": {"item": "q0", "sample": "s1"},
        "annotations": [
            {
                "completed_by": {"id": 3, "email": "ann@example.org"},
                "result": [
                    {"from_name": "best", "value": {"choices": ["b"]}},
                    {"from_name": "comment", "value": {"text": ["fine"]}},
                    {"type": "relation"},
                ],
                "was_cancelled": False,
            }
        ],
    }
]
POTATO: dict[str, Any] = {
    "user_id": "ann",
    "instance_id_to_label_to_value": {"q0": [[{"schema": "best"}, "b"], [{"schema": "comment"}, "fine"]]},
}
ODD = (None, True, -1, 10**18, 1.5, float("nan"), "", "x" * 5000, "\ud800\x1b[2J", [], {}, [[None]], {"a": {"b": 1}})


def put(path: Path, value: object) -> Path:
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def agreement(tmp_path: Path, ratings: object, key: object = KEY) -> Any:
    return personamem("agreement", put(tmp_path / "ratings.json", ratings), "--key", put(tmp_path / "key.json", key))


@pytest.mark.parametrize("ratings", [SHEET, STUDIO, POTATO])
def test_the_three_forms_are_read(tmp_path: Path, ratings: object) -> None:
    assert agreement(tmp_path, ratings).exit_code == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"options": 27}, "items.0.options: "),
        ({"options": 10**9}, "items.0.options: "),
        ({"answer": "e"}, "items.0: answer: 'e' is the letter of none of 4 options"),
        ({"answer": ""}, "items.0: answer: '' is the letter of none of 4 options"),
        ({"id": "q1"}, "items: 'q1' appears twice"),
        ({"id": None}, "items.0.id: "),
        ({"topic": ["tea"]}, "items.0.topic: "),
    ],
)
def test_a_key_that_cannot_be_is_refused(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    key = KEY | {"items": [KEY["items"][0] | change, *KEY["items"][1:]]}
    outcome = agreement(tmp_path, SHEET, key)
    assert outcome.exit_code == 1
    assert f"{tmp_path / 'key.json'} is not a key of a sample: {said}" in outcome.err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is not JSON"),
        (b"[" * 100_000, "nested deeper than the limit of 100"),
        (b'{"version": ' + b"9" * 5000 + b"}", "a whole number of 5,000 digits"),
        (b"\xff", "is not UTF-8"),
        (b"3", "holds no answers of a rater"),
        (json.dumps([3]).encode(), "0: Input should be"),
        (json.dumps([{"data": {"item": "q0", "sample": "s1"}, "annotations": 7}]).encode(), "0.annotations: "),
        (json.dumps(SHEET | {"rater": "x" * 300}).encode(), "rater: "),
        (json.dumps(SHEET | {"answers": {"q0": {"best": ["b"]}}}).encode(), "best is ['b'], not one of"),
        (json.dumps(SHEET | {"answers": {"q0": {"best": "z" * 10_000}}}).encode(), "best is 'zzz"),
        (json.dumps(POTATO | {"instance_id_to_label_to_value": {"q0": [[7]]}}).encode(), "q0.0"),
    ],
)
def test_a_file_of_another_shape_is_named(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "ratings.json"
    path.write_bytes(content)
    outcome = personamem("agreement", path, "--key", put(tmp_path / "key.json", KEY))
    assert outcome.exit_code == 1
    assert str(path) in outcome.err
    assert said in outcome.err
    assert len(outcome.err) < 3000


def test_a_folder_in_place_of_a_file_is_named(tmp_path: Path) -> None:
    outcome = personamem("agreement", tmp_path, "--key", put(tmp_path / "key.json", KEY))
    assert outcome.exit_code == 1
    assert str(tmp_path) in outcome.err


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield (*at, key)
        yield from places(item, (*at, key))


def mutated(value: Any, rng: random.Random) -> Any:
    made = copy.deepcopy(value)
    *way, last = rng.choice(list(places(made)))
    target = made
    for key in way:
        target = target[key]
    if rng.random() < 0.25:
        del target[last]
    else:
        target[last] = copy.deepcopy(rng.choice(ODD))
    return made


@pytest.mark.parametrize("seed", range(3))
def test_mutated_ratings_are_read_or_refused(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    codes = set()
    for _ in range(60):
        ratings, key = rng.choice([SHEET, STUDIO, POTATO]), KEY
        if rng.random() < 0.3:
            key = mutated(key, rng)
        else:
            ratings = mutated(ratings, rng)
        outcome = agreement(tmp_path, ratings, key)
        assert ("error: " in outcome.err) == bool(outcome.exit_code)
        assert bool(outcome.out) != bool(outcome.exit_code)
        outcome.out.encode()
        codes.add(outcome.exit_code)
    assert codes == {0, 1}
