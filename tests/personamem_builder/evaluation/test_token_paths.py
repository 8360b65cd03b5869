"""Paths of tokens, against brute force on sequences of very few different tokens."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from personamem_builder.evaluation.token_paths import TokenPath, common_prefix, sorted_order

List = list[int]

# Few tokens make shared prefixes, nested branches and repeats common.
TOKENS = st.lists(st.integers(0, 2), max_size=9)
CUTS = st.lists(st.integers(0, 9), max_size=4)


def array(tokens: Sequence[int]) -> np.ndarray:
    return np.asarray(tokens, np.int32)


def path_of(tokens: Sequence[int], cuts: Sequence[int] = ()) -> TokenPath:
    """The path of some tokens, cut into parts at any places; parts may be empty."""
    bounds = [0, *sorted(min(cut, len(tokens)) for cut in cuts), len(tokens)]
    return TokenPath.of([array(tokens[start:stop]) for start, stop in pairwise(bounds)])


def tokens_of(path: TokenPath) -> List:
    return [int(token) for part in path.parts for token in part]


def shared(a: Sequence[int], b: Sequence[int]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


@given(TOKENS, CUTS, TOKENS, CUTS)
def test_the_common_prefix_does_not_depend_on_the_parts(a: List, a_cuts: List, b: List, b_cuts: List) -> None:
    assert common_prefix(path_of(a, a_cuts), path_of(b, b_cuts)) == shared(a, b)


@given(st.lists(TOKENS, max_size=4), CUTS, CUTS, CUTS)
def test_the_common_prefix_of_paths_that_share_parts_as_objects(
    pieces: list[List], a: List, b: List, offset: List
) -> None:
    parts = [array(piece) for piece in pieces]
    # The same objects in other places, after other ones, or after a part of them.
    first = [parts[i] for i in a if i < len(parts)]
    second = [array(offset), *(parts[i] for i in b if i < len(parts))]
    expected = shared(tokens_of(TokenPath.of(first)), tokens_of(TokenPath.of(second)))
    assert common_prefix(TokenPath.of(first), TokenPath.of(second)) == expected
    assert common_prefix(TokenPath.of(second), TokenPath.of(first)) == expected


@given(TOKENS, CUTS, TOKENS)
def test_a_path_is_a_list(tokens: List, cuts: List, more: List) -> None:
    path = path_of(tokens, cuts)
    assert path.length == len(tokens)
    assert tokens_of(path) == tokens
    assert all(len(part) for part in path.parts)
    longer = path.then(array(more))
    assert (longer.length, tokens_of(longer)) == (len(tokens + more), tokens + more)
    assert tokens_of(path) == tokens, "`then` changed its path"
    if tokens + more:
        shorter = longer.without_last()
        assert (shorter.length, tokens_of(shorter)) == (len(tokens + more) - 1, (tokens + more)[:-1])


@given(TOKENS, CUTS, st.integers(0, 10), st.integers(0, 10))
def test_a_slice_is_that_of_the_list(tokens: List, cuts: List, start: int, stop: int) -> None:
    part = path_of(tokens, cuts).slice(start, stop)
    assert part.dtype == np.int32
    assert part.tolist() == tokens[start:stop]


@given(st.lists(TOKENS, max_size=9))
def test_paths_are_sorted_by_their_tokens(lists: list[List]) -> None:
    order = sorted_order([path_of(tokens) for tokens in lists])
    assert sorted(order) == list(range(len(lists)))
    assert [lists[index] for index in order] == sorted(lists)
