from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from generation.seeds import rng_for

PATHS = st.lists(st.text(max_size=8), max_size=4)


def draws(*path: Any, seed: int = 7) -> list[int]:
    rng = rng_for(seed, *path)
    return [rng.getrandbits(64) for _ in range(4)]


@given(st.integers(), PATHS)
def test_the_same_path_gives_the_same_stream(seed: int, path: list[str]) -> None:
    assert draws(*path, seed=seed) == draws(*path, seed=seed)


@given(PATHS, PATHS)
@example(["a", "b"], ["ab"])
@example(["a"], ["a", ""])
@example(["a", "b"], ["b", "a"])
def test_different_paths_give_different_streams(one: list[str], other: list[str]) -> None:
    assert (draws(*one) == draws(*other)) == (one == other)


def test_no_character_of_a_name_can_be_taken_for_the_border_between_two() -> None:
    assert draws("a\x1fb") != draws("a", "b")


@given(st.integers(), st.integers())
def test_different_seeds_give_different_streams(one: int, other: int) -> None:
    assert (draws("options", seed=one) == draws("options", seed=other)) == (one == other)


def test_a_path_may_hold_numbers() -> None:
    assert draws("persona", 3) != draws("persona", 4)


@pytest.mark.parametrize("hash_seed", ["0", "1"])
def test_another_process_draws_the_same(python: Callable[..., Any], hash_seed: str) -> None:
    code = (
        "from generation.seeds import rng_for; r = rng_for(7, 'options', 'q1'); print([r.random() for _ in range(3)])"
    )
    rng = rng_for(7, "options", "q1")
    assert python(code, PYTHONHASHSEED=hash_seed).stdout == f"{[rng.random() for _ in range(3)]}\n"


def test_drawing_from_one_stream_changes_no_other() -> None:
    alone = draws("b")
    first, second = rng_for(7, "a"), rng_for(7, "b")
    mixed = []
    for _ in range(4):
        first.getrandbits(64)
        mixed.append(second.getrandbits(64))
    assert mixed == alone


def test_the_global_generator_is_left_alone() -> None:
    before = random.getstate()
    draws("a")
    assert random.getstate() == before
