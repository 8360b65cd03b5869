"""Paths of tokens and walks over them, against brute force on sequences of very few different tokens."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from personamem_builder.evaluation.token_paths import (
    Request,
    Step,
    TokenPath,
    common_prefix,
    distinct_prefixes,
    plan_walk,
    tokens_to_forward,
)

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


@st.composite
def requests(draw: st.DrawFn, bounded: bool = True) -> list[Request]:
    """Any requests; some go on where another one ends, as options and longer histories do."""
    made: list[Request] = []
    for _ in range(draw(st.integers(0, 9))):
        tokens = draw(TOKENS)
        if made and draw(st.booleans()):
            before = tokens_of(draw(st.sampled_from(made)).path)
            tokens = before[: draw(st.integers(0, len(before)))] + tokens
        reuse = draw(st.integers(0, len(tokens))) if bounded else len(tokens)
        made.append(Request(path_of(tokens, draw(CUTS)), reuse))
    return made


# ---- paths


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


# ---- walks


class StrictCache:
    """Holds tokens; goes back only to the start, or to a place that was noted on the way there."""

    def __init__(self) -> None:
        self.held: List = []
        self.noted: set[int] = set()

    def run(self, path: List, step: Step) -> None:
        reachable = step.start in {0, len(self.held)} | self.noted
        assert reachable, f"cannot go back to {step.start}, only to {sorted(self.noted)}"
        assert self.held[: step.start] == path[: step.start], "the cache holds other tokens"
        self.noted = {position for position in self.noted if position <= step.start}
        self.held = path
        assert all(step.start < position <= len(path) for position in step.snapshots)
        self.noted |= set(step.snapshots)


@given(requests())
def test_one_cache_serves_every_step(asked: list[Request]) -> None:
    steps = plan_walk(asked)
    assert sorted(step.index for step in steps) == list(range(len(asked)))
    cache = StrictCache()
    for step in steps:
        request = asked[step.index]
        assert 0 <= step.start - step.known <= request.reuse
        assert list(step.snapshots) == sorted(set(step.snapshots))
        cache.run(tokens_of(request.path), step)


@given(requests())
def test_outputs_that_are_not_computed_were_wanted_in_the_step_before(asked: list[Request]) -> None:
    steps = plan_walk(asked)
    assert not steps or steps[0].known == 0
    for before, step in pairwise(steps):
        request, last = asked[step.index], asked[before.index]
        assert step.known == max(0, step.start - request.reuse)
        if step.known:
            assert last.reuse <= request.reuse
            # What is asked of each output is how likely the token after it is, so that token is the same as well.
            assert shared(tokens_of(last.path), tokens_of(request.path)) > step.start


@given(requests())
def test_every_snapshot_is_gone_back_to(asked: list[Request]) -> None:
    steps = plan_walk(asked)
    for position, step in enumerate(steps):
        assert set(step.snapshots) <= {later.start for later in steps[position + 1 :]}


@given(requests())
def test_counts_against_the_set_of_all_prefixes(asked: list[Request]) -> None:
    steps = plan_walk(asked)
    paths = [tokens_of(request.path) for request in asked]
    prefixes = {tuple(path[:end]) for path in paths for end in range(1, len(path) + 1)}
    assert distinct_prefixes(asked, steps) == len(prefixes)
    assert len(prefixes) <= tokens_to_forward(asked, steps) <= sum(map(len, paths))


@given(requests(bounded=False))
def test_each_prefix_is_computed_once_if_all_may_be_reused(asked: list[Request]) -> None:
    steps = plan_walk(asked)
    assert tokens_to_forward(asked, steps) == distinct_prefixes(asked, steps)


@given(requests(), st.randoms(use_true_random=False))
def test_counts_do_not_depend_on_the_order_of_requests(asked: list[Request], chance: random.Random) -> None:
    other = chance.sample(asked, len(asked))
    steps, other_steps = plan_walk(asked), plan_walk(other)
    assert distinct_prefixes(other, other_steps) == distinct_prefixes(asked, steps)
    assert tokens_to_forward(other, other_steps) == tokens_to_forward(asked, steps)


@pytest.mark.parametrize("reuses", [(3, 1), (1, 3)])
def test_of_equal_paths_the_one_that_may_reuse_least_comes_first(reuses: tuple[int, int]) -> None:
    """As for a long continuation, and the end of it after a context that holds its start."""
    asked = [Request(path_of([1, 2, 3, 4]), reuse) for reuse in reuses]
    assert tokens_to_forward(asked, plan_walk(asked)) == 4 + 1


def test_questions_at_nested_ends_of_a_history() -> None:
    history = list(range(100, 200))
    paths = [
        [*history[:end], 1, question, 2, *options]
        for end in (40, 100, 70)
        for question in (10, 11)
        for options in ([20, 21], [20, 22], [23])
    ]
    asked = [Request(path_of(path, [50, 60]), len(path) - 2) for path in paths]
    steps = plan_walk(asked)
    # Each end adds 1, two questions and their 2, and their four option tokens.
    assert distinct_prefixes(asked, steps) == 100 + 3 * (1 + 2 * (1 + 1 + 4))
    # What two options of a question share last is computed again, since what comes after it is asked.
    assert (
        distinct_prefixes(asked, steps) < tokens_to_forward(asked, steps) <= distinct_prefixes(asked, steps) + 3 * 2 * 2
    )
    assert tokens_to_forward(asked, steps) < sum(map(len, paths)) / 8
    cache = StrictCache()
    for step in steps:
        cache.run(paths[step.index], step)


def test_no_request_takes_no_step() -> None:
    assert plan_walk([]) == []
    assert tokens_to_forward([], []) == distinct_prefixes([], []) == 0


def test_the_same_request_again_computes_only_its_last_token() -> None:
    asked = [Request(path_of([1, 2, 3, 4]), 2)] * 3
    steps = plan_walk(asked)
    assert [(step.start, step.known) for step in steps] == [(0, 0), (3, 1), (3, 1)]
    assert steps[0].snapshots == (3,)
    assert tokens_to_forward(asked, steps) == 6
    assert distinct_prefixes(asked, steps) == 4
