"""Trees of token sequences and the passes planned for them, against brute force on very few different tokens."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from personamem_builder.evaluation.passes import Cost, Limits, Pack, Trunk, plan_passes
from personamem_builder.evaluation.token_paths import TokenPath
from personamem_builder.evaluation.token_tree import Ask, Request, Segment, grow_tree

List = list[int]

# Few tokens make shared prefixes, nested branches and repeats common.
TOKENS = st.lists(st.integers(0, 2), min_size=1, max_size=9)
LIMITS = st.builds(Limits, st.integers(1, 12), st.integers(1, 4), st.integers(0, 9), st.booleans())


def path_of(tokens: Sequence[int]) -> TokenPath:
    middle = len(tokens) // 2
    return TokenPath.of([np.asarray(part, np.int32) for part in (tokens[:middle], tokens[middle:])])


def tokens_of(path: TokenPath) -> List:
    return [int(token) for part in path.parts for token in part]


@st.composite
def requests(draw: st.DrawFn, generates: bool = False) -> list[Request]:
    """Any requests; some go on where another one ends, as options and longer histories do."""
    made: list[Request] = []
    for _ in range(draw(st.integers(0, 9))):
        tokens = draw(TOKENS)
        if made and draw(st.booleans()):
            before = tokens_of(draw(st.sampled_from(made)).path)
            tokens = before[: draw(st.integers(0, len(before)))] + tokens
        first = len(tokens) - 1 if generates else draw(st.integers(0, len(tokens) - 1))
        made.append(Request(path_of(tokens), first, draw(st.integers(0, 5)) if generates else None))
    return made


class StrictCache:
    """Holds tokens and computes from them, as far as it may.

    Attributes:
        computed: Tokens computed.
        found: For each request and position asked for, the tokens seen by it.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.held: List = []
        self.kept: set[int] = set()
        self.computed = 0
        self.found: dict[tuple[int, int], List] = {}

    def run(self, step: Trunk | Pack) -> None:
        path = tokens_of(step.path)
        start = step.start if isinstance(step, Trunk) else step.end
        assert self.held[:start] == path[:start], "the cache holds other tokens"
        assert start == len(self.held) or not self.limits.forgets or start in self.kept | {0}
        self.held = path[:start]
        self.kept = {position for position in self.kept if position <= start}
        if isinstance(step, Pack):
            self.branch(step)
            return
        self.computed += step.end - step.start
        self.held = path[: step.end]
        self.note(step.asks, path)
        if step.keep:
            self.kept.add(step.end)

    def branch(self, pack: Pack) -> None:
        assert self.limits.hold(pack.branches)
        for branch in pack.branches:
            assert branch.start == pack.end or (branch.start < pack.end and not self.limits.forgets)
            assert branch.parent is not None
            for segment in branch.walk():
                path = tokens_of(segment.path)
                assert path[: branch.start] == self.held[: branch.start], "it hangs elsewhere"
                self.computed += segment.end - segment.start
                self.note(segment.asks, path)

    def note(self, asks: Sequence[Ask], path: List) -> None:
        for ask in asks:
            for position in range(ask.first, ask.stop):
                assert (ask.request, position) not in self.found, "asked twice"
                self.found[ask.request, position] = path[: position + 1]


def distinct(asked: Sequence[Request]) -> int:
    paths = [tokens_of(request.path) for request in asked]
    return len({tuple(path[:end]) for path in paths for end in range(1, len(path) + 1)})


def run(asked: Sequence[Request], limits: Limits) -> StrictCache:
    root = grow_tree(asked)
    cache = StrictCache(limits)
    for step in plan_passes(root.path, 0, root.children, limits):
        cache.run(step)
    return cache


@given(requests())
def test_a_tree_holds_each_distinct_prefix_once(asked: list[Request]) -> None:
    root = grow_tree(asked)
    segments = list(root.walk())[1:]
    assert root.size == sum(segment.end - segment.start for segment in segments) == distinct(asked)
    for segment in segments:
        assert segment.start < segment.end
        assert all(child.start == segment.end and child.parent is segment for child in segment.children)
        nexts = [tokens_of(child.path)[child.start] for child in segment.children]
        assert nexts == sorted(set(nexts))


@given(requests(), LIMITS)
def test_every_output_is_computed_once_after_its_own_tokens(asked: list[Request], limits: Limits) -> None:
    cache = run(asked, limits)
    assert cache.computed == distinct(asked)
    wanted = {
        (index, position): tokens_of(request.path)[: position + 1]
        for index, request in enumerate(asked)
        for position in range(request.first, request.path.length)
    }
    assert cache.found == wanted


@given(requests(generates=True), LIMITS)
def test_every_prompt_ends_in_a_pack(asked: list[Request], limits: Limits) -> None:
    root = grow_tree(asked)
    cache = StrictCache(limits)
    ended: List = []
    for step in plan_passes(root.path, 0, root.children, limits):
        cache.run(step)
        if isinstance(step, Pack):
            ends = [segment for branch in step.branches for segment in branch.walk() if not segment.children]
            assert len(ends) == 1 or len(ends) <= limits.answers
            assert step.room == sum(asked[end.asks[0].request].room or 0 for end in ends)
            ended += [end.asks[0].request for end in ends]
        else:
            assert not step.asks
    assert sorted(ended) == list(range(len(asked)))
    assert set(cache.found) == {(index, request.first) for index, request in enumerate(asked)}


@given(requests(), LIMITS, st.integers(1, 5))
def test_the_cost_is_what_is_run(asked: list[Request], limits: Limits, chunk: int) -> None:
    cost = Cost()
    lengths = [request.path.length for request in asked]
    root = grow_tree(asked)
    cost.add(root, lengths, 1, limits, chunk)
    assert cost.forward == cost.distinct == distinct(asked)
    assert (cost.requests, cost.alone, cost.longest) == (len(asked), sum(lengths), max(lengths, default=0))
    assert cost.passes <= cost.forward
    assert cost.reserve <= max(lengths, default=0) + limits.pack


@given(requests(), LIMITS, LIMITS)
def test_a_pack_that_does_not_fit_is_planned_again(asked: list[Request], limits: Limits, smaller: Limits) -> None:
    """As when it runs out of memory: what it holds is run in passes that fit, from where its cache was."""
    smaller = Limits(smaller.pack, forgets=False)
    root = grow_tree(asked)
    cache = StrictCache(Limits(limits.pack, forgets=False))
    for step in plan_passes(root.path, 0, root.children, cache.limits):
        if not isinstance(step, Pack):
            cache.run(step)
            continue
        again = StrictCache(smaller)
        for part in plan_passes(step.path, step.end, step.branches, smaller):
            # Branches may hang at several places, to which the cache walks back.
            again.held = tokens_of(part.path)[: part.start if isinstance(part, Trunk) else part.end]
            again.run(part)
        assert again.computed == step.size
        cache.held = tokens_of(step.path)[: step.end]
        cache.found |= again.found
    assert len(cache.found) == sum(request.path.length - request.first for request in asked)


# ---- what is packed


def questions(ends: Sequence[int], options: int = 4, size: int = 10) -> list[Request]:
    """Questions of ten tokens at some ends of one history, and options of some."""
    asked = []
    fresh = 10_000
    for end in ends:
        prompt = [*range(end), *range(fresh, fresh + 10)]
        for option in range(options):
            path = [*prompt, *range(fresh + 100 * (option + 1), fresh + 100 * (option + 1) + size - 1)]
            asked.append(Request(path_of(path), len(prompt) - 1))
        fresh += 1000
    return asked


def passes(asked: Sequence[Request], limits: Limits) -> list[Trunk | Pack]:
    root = grow_tree(asked)
    return list(plan_passes(root.path, 0, root.children, limits))


@pytest.mark.parametrize("forgets", [False, True])
def test_a_question_and_its_options_are_one_pass(forgets: bool) -> None:
    steps = passes(questions([2000, 4000, 6000]), Limits(64, forgets=forgets))
    assert [type(step) for step in steps] == [Trunk, Pack] * 3
    # The history goes on to the last question, of which only the options are left.
    assert [step.end for step in steps] == [2000, 2000, 4000, 4000, 6010, 6010]
    assert [step.size for step in steps if isinstance(step, Pack)] == [10 + 4 * 9, 10 + 4 * 9, 4 * 9]


def test_questions_that_are_close_share_a_pass_where_the_cache_can_go_back() -> None:
    steps = passes(questions([2000, 2100, 2150]), Limits(512))
    assert [type(step) for step in steps] == [Trunk, Pack]
    assert isinstance(steps[1], Pack)
    assert steps[1].size == 150 + 3 * (10 + 4 * 9)
    for forgets, packs in ((False, 2), (True, 3)):
        steps = passes(questions([2000, 2200, 4000]), Limits(100, forgets=forgets))
        assert sum(isinstance(step, Pack) for step in steps) == packs


def test_short_prompts_fill_passes() -> None:
    asked = [
        Request(path_of([1, 2, *range(100 * n, 100 * n + 10), *range(50 * option, 50 * option + 9)]), 11)
        for n in range(1, 41)
        for option in range(4)
    ]
    steps = passes(asked, Limits(200))
    assert [type(step) for step in steps[:2]] == [Trunk, Pack]
    assert all(isinstance(step, Pack) and step.size >= 150 for step in steps[1:-1])
    assert len(steps) == 1 + 40 // 4


def test_nothing_is_packed_with_a_pack_of_one() -> None:
    steps = passes(questions([20, 40]), Limits(1))
    assert all(isinstance(step, Trunk) for step in steps)
    assert len(steps) == 8


def test_answers_are_together_as_far_as_there_is_room() -> None:
    asked = [Request(path_of([*range(50), 100 + n]), 50, room=10) for n in range(7)]
    sizes = [step.size for step in passes(asked, Limits(20, answers=3, room=100)) if isinstance(step, Pack)]
    assert sizes == [3, 3, 1]
    sizes = [step.size for step in passes(asked, Limits(20, answers=8, room=25)) if isinstance(step, Pack)]
    assert sizes == [2, 2, 2, 1]


def test_no_request_takes_no_pass() -> None:
    root = grow_tree([])
    assert root.size == 0
    assert list(plan_passes(root.path, 0, root.children, Limits(8))) == []


def test_a_deep_tree_needs_no_deep_recursion() -> None:
    tokens = list(range(3000))
    asked = [Request(path_of(tokens[:end]), end - 1) for end in range(1, 3001)]
    root = grow_tree(asked)
    assert root.size == 3000
    assert max(a.end - a.start for a, _ in pairwise(root.walk())) <= 1
    assert isinstance(root, Segment)
    assert len(passes(asked, Limits(500))) == 2
