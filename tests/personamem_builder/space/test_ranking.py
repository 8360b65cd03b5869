"""Groups of models: nobody is ranked above somebody who may be as good."""

from __future__ import annotations

import random
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personamem_builder import statistics
from personamem_builder.space.ranking import Ranking, groups, rank


def sharing(found: list[tuple[int, int]], i: int, j: int) -> bool:
    return any(first <= i <= last and first <= j <= last for first, last in found)


@given(
    st.integers(0, 9).flatmap(
        lambda n: st.tuples(st.just(n), st.sets(st.sampled_from([*combinations(range(max(n, 2)), 2)])))
    )
)
def test_who_does_not_differ_shares_a_group_and_who_shares_none_differs(case: tuple[int, set[tuple[int, int]]]) -> None:
    count, differing = case
    found = groups(count, lambda i, j: (i, j) in differing)
    for i, j in combinations(range(count), 2):
        assert sharing(found, i, j) or (i, j) in differing
    for first, last in found:
        assert first == last or (first, last) not in differing, "the ends of a group do not differ"
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in combinations(found, 2)), "none is part of another"
    assert {place for first, last in found for place in range(first, last + 1)} == set(range(count))


@st.composite
def answered(draw: st.DrawFn) -> tuple[list[list[float]], list[int]]:
    """Credits of some models on the questions of some personas."""
    models, questions = draw(st.integers(2, 5)), draw(st.integers(4, 24))
    credit = st.sampled_from([0.0, 0.25, 0.5, 1.0])
    credits = draw(st.lists(st.lists(credit, min_size=questions, max_size=questions), min_size=models, max_size=models))
    count = draw(st.integers(1, 6))
    personas = [i % count for i in range(questions)]
    return credits, personas


@given(answered(), st.randoms(use_true_random=False))
def test_no_model_is_ranked_above_one_while_their_interval_holds_zero(
    case: tuple[list[list[float]], list[int]], rng: random.Random
) -> None:
    credits, personas = case
    names = [f"model {i}" for i in range(len(credits))]
    ranking = rank(names, credits, personas)
    for i, j in combinations(range(len(names)), 2):
        first, second = (credits[ranking.order[place]] for place in (i, j))
        gap = statistics.paired_difference(first, second, personas)
        assert gap.value > -1e-12, "best first"
        if gap.low is None or gap.low <= 0:
            assert sharing([*ranking.groups], i, j)
        one, other = ranking.span(i), ranking.span(j)
        assert (one.last >= other.first) == sharing([*ranking.groups], i, j)
    # Neither the order in which models are given nor that of the questions matters.
    shuffled = rng.sample(range(len(names)), len(names))
    questions = rng.sample(range(len(personas)), len(personas))
    again = rank(
        [names[i] for i in shuffled],
        [[credits[i][q] for q in questions] for i in shuffled],
        [personas[q] for q in questions],
    )
    assert [shuffled[i] for i in again.order] == [*ranking.order]
    assert again.groups == ranking.groups


def noisy(rng: random.Random, skill: float, questions: int) -> list[float]:
    return [float(rng.random() < skill) for _ in range(questions)]


def made(skills: list[float], personas: int = 20, each: int = 30, seed: int = 1) -> Ranking:
    rng = random.Random(seed)
    questions = personas * each
    credits = [noisy(rng, skill, questions) for skill in skills]
    return rank([f"m{i}" for i in range(len(skills))], credits, [i % personas for i in range(questions)])


def test_clear_differences_make_groups_and_models_between_belong_to_two() -> None:
    ranking = made([0.9, 0.5, 0.2])
    assert [*ranking.order] == [0, 1, 2]
    assert [*ranking.groups] == [(0, 0), (1, 1), (2, 2)]
    chain = made([0.70, 0.63, 0.56], seed=3)
    assert [*chain.groups] == [(0, 1), (1, 2)]
    assert [str(chain.span(place)) for place in range(3)] == ["1", "1–2", "2"]


def test_equal_models_are_rarely_told_apart_however_many_they_are() -> None:
    """Of 60 tables of eight equal models, 5 % may show a difference: 3 on average, and 9 or more once in 500 times."""
    tables = [made([0.5] * 8, each=8, seed=seed) for seed in range(60)]
    assert sum(len(table.groups) > 1 for table in tables) <= 8
    uncorrected = [any(p.difference.low is not None and p.difference.low > 0 for p in t.pairs.values()) for t in tables]
    assert sum(uncorrected) > 15, "without the correction many would"


def test_one_persona_tells_nothing_apart() -> None:
    ranking = rank(["a", "b"], [[1.0] * 9, [0.0] * 9], [3] * 9)
    assert [*ranking.groups] == [(0, 1)]
    assert ranking.pairs[0, 1].holm_p is None


@pytest.mark.parametrize(("personas", "differs"), [(2, False), (5, False), (6, True)])
def test_the_same_difference_of_all_personas_is_no_certainty(personas: int, differs: bool) -> None:
    own = [i % personas for i in range(3 * personas)]
    ranking = rank(["a", "b"], [[1.0] * len(own), [0.0] * len(own)], own)
    assert ranking.pairs[0, 1].differs is differs
