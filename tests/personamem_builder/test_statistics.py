from __future__ import annotations

import itertools
import math
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t as student_t

from generation.errors import UserError
from personamem_builder import statistics
from personamem_builder.statistics import (
    Estimate,
    context_gain,
    macro,
    overall,
    paired_difference,
    per_type,
    standard_error,
)

T_5 = 2.5705818366147395  # t_{5}(0.975), from a printed table (2.571)

credit = st.sampled_from([0.0, 0.25, 1 / 3, 0.5, 1.0])
item = st.tuples(credit, credit, st.sampled_from(["facts", "reasons", "new"]), st.integers(0, 5))
items = st.lists(item, min_size=2, max_size=40)


def columns(
    rows: list[tuple[float, float, str, int]],
) -> tuple[list[float], list[float], list[str], list[int]]:
    scores, baseline, types, personas = (list(column) for column in zip(*rows, strict=True))
    return scores, baseline, types, personas


def close(a: Estimate | None, b: Estimate | None) -> None:
    if a is None or b is None:
        assert a is b
        return
    assert a.value == pytest.approx(b.value, abs=1e-9)
    assert (a.low is None) == (b.low is None)
    if a.low is not None:
        assert a.low == pytest.approx(b.low, abs=1e-9)
        assert a.high == pytest.approx(b.high, abs=1e-9)


def all_estimates(rows: list[tuple[float, float, str, int]]) -> list[Estimate | None]:
    scores, baseline, types, personas = columns(rows)
    by_type = per_type(scores, types, personas)
    return [
        overall(scores, personas),
        macro(scores, types, personas),
        paired_difference(scores, baseline, personas),
        context_gain(scores, baseline, personas),
        *(by_type[name] for name in sorted(by_type)),
    ]


def test_overall_by_hand():
    # Persona 1: 1, 1; persona 2: 1, 0; persona 3: 0, 0. Mean 0.5, residual sums 1, 0, -1.
    # SE = sqrt(3/2 * 2) / 6 = 0.288675; t_2(0.975) = 4.302653.
    estimate = overall([1, 1, 1, 0, 0, 0], [1, 1, 2, 2, 3, 3])
    assert standard_error([0.5, 0.5, 0.5, -0.5, -0.5, -0.5], [1, 1, 2, 2, 3, 3]) == pytest.approx(0.2886751)
    assert (estimate.value, estimate.n, estimate.clusters) == (0.5, 6, 3)
    assert (estimate.low, estimate.high) == (0.0, 1.0)  # 0.5 ± 1.242, clipped


def test_the_interval_uses_t_with_a_degree_less_than_personas():
    scores = [1, 0, 1, 1, 1, 0, 1, 0, 1, 1, 0, 1]
    personas = [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    estimate = overall(scores, personas)
    # Residual sums by persona: 1-4/3, 2-4/3, 1-4/3, 1-4/3, 2-4/3, 1-4/3.
    error = math.sqrt(6 / 5 * (4 * (1 / 3) ** 2 + 2 * (2 / 3) ** 2)) / 12
    assert estimate.low == pytest.approx(2 / 3 - T_5 * error)
    assert estimate.high == pytest.approx(2 / 3 + T_5 * error)


@given(items)
def test_clustered_error_is_the_iid_error_plus_the_cross_terms(rows):
    """SE² = SE_iid² + Σ_c Σ_{i≠j∈c} r_i r_j / n² (Miller 2024), here with the factor C / (C − 1)."""
    scores, _, _, personas = columns(rows)
    n, clusters = len(scores), len(set(personas))
    mean = sum(scores) / n
    residuals = [score - mean for score in scores]
    if clusters < 2:
        assert standard_error(residuals, personas) is None
        return
    iid = sum(r**2 for r in residuals) / n**2
    cross = sum(
        residuals[i] * residuals[j] for i, j in itertools.permutations(range(n), 2) if personas[i] == personas[j]
    )
    expected = math.sqrt(max(0.0, clusters / (clusters - 1) * (iid + cross / n**2)))
    assert standard_error(residuals, personas) == pytest.approx(expected, abs=1e-7)


@given(st.lists(credit, min_size=2, max_size=40))
def test_with_a_question_a_persona_the_error_is_the_iid_error(scores):
    n = len(scores)
    mean = sum(scores) / n
    residuals = [score - mean for score in scores]
    iid = math.sqrt(sum(r**2 for r in residuals) / n / n)
    assert standard_error(residuals, list(range(n))) == pytest.approx(math.sqrt(n / (n - 1)) * iid, abs=1e-9)


@given(items)
def test_repeating_every_question_of_a_persona_adds_no_information(rows):
    for once, twice in zip(all_estimates(rows), all_estimates(rows + rows), strict=True):
        close(once, twice)


@given(items, st.randoms(use_true_random=False))
def test_order_does_not_matter(rows, random):
    shuffled = random.sample(rows, len(rows))
    for a, b in zip(all_estimates(rows), all_estimates(shuffled), strict=True):
        close(a, b)


@given(items)
def test_names_of_personas_do_not_matter(rows):
    renamed = [(a, b, kind, 100 - 7 * persona) for a, b, kind, persona in rows]
    for a, b in zip(all_estimates(rows), all_estimates(renamed), strict=True):
        close(a, b)


@given(items)
def test_estimates_lie_in_their_intervals_and_intervals_in_their_range(rows):
    scores, baseline, types, personas = columns(rows)
    bounds = [(overall(scores, personas), 0.0, 1.0), (macro(scores, types, personas), 0.0, 1.0)]
    bounds.append((paired_difference(scores, baseline, personas), -1.0, 1.0))
    if (gain := context_gain(scores, baseline, personas)) is not None:
        bounds.append((gain, -math.inf, 1.0))
    for estimate, least, most in bounds:
        if len(set(personas)) < 2:
            assert estimate.low is None
            assert estimate.high is None
        else:
            assert least <= estimate.low <= estimate.value + 1e-12
            assert estimate.value - 1e-12 <= estimate.high <= most


@given(st.lists(st.tuples(credit, credit, credit), min_size=2, max_size=12))
def test_macro_is_overall_where_every_persona_has_each_type_as_often(personas):
    scores = [score for persona in personas for score in persona]
    types = ["facts", "reasons", "new"] * len(personas)
    owners = [owner for owner in range(len(personas)) for _ in range(3)]
    close(macro(scores, types, owners), overall(scores, owners))


@given(items)
def test_macro_is_the_mean_of_the_types(rows):
    scores, _, types, personas = columns(rows)
    by_type = per_type(scores, types, personas)
    assert macro(scores, types, personas).value == pytest.approx(sum(e.value for e in by_type.values()) / len(by_type))
    assert sum(e.n for e in by_type.values()) == len(rows)


@given(items)
def test_identical_runs_differ_by_nothing(rows):
    scores, _, _, personas = columns(rows)
    personas[0], personas[-1] = 98, 99  # two personas at least
    difference = paired_difference(scores, scores, personas)
    assert (difference.value, difference.low, difference.high) == (0, 0, 0)
    gain = context_gain(scores, scores, personas)
    if all(score == 1 for score in scores):
        assert gain is None
    else:
        assert gain is not None
        assert (gain.value, gain.low, gain.high) == pytest.approx((0, 0, 0))


@given(items)
def test_swapping_two_runs_mirrors_their_difference(rows):
    scores, baseline, _, personas = columns(rows)
    one = paired_difference(scores, baseline, personas)
    other = paired_difference(baseline, scores, personas)
    if one.low is None or one.high is None:
        close(one, other._replace(value=-other.value))
    else:
        close(one, Estimate(-other.value, -(other.high or 0), -(other.low or 0), other.n, other.clusters))


@given(items)
def test_what_both_runs_gain_leaves_their_difference(rows):
    scores, baseline, _, personas = columns(rows)
    low = paired_difference([s / 2 for s in scores], [s / 2 for s in baseline], personas)
    high = paired_difference([s / 2 + 0.5 for s in scores], [s / 2 + 0.5 for s in baseline], personas)
    close(low, high)


def test_context_gain_by_hand():
    # a = 0.75, a0 = 0.25: G = 0.5 / 0.75; a question right only with context has u = 1/3 + 1/9 = 4/9.
    estimate = context_gain([1, 1, 1, 0], [0, 0, 1, 0], [1, 2, 3, 4])
    assert estimate is not None
    assert estimate.value == pytest.approx(2 / 3)
    residuals = [4 / 9, 4 / 9, 1 / 3 - 1 / 3, -1 + 1 / 9]
    half = 3.182446305284263 * math.sqrt(4 / 3 * sum(r**2 for r in residuals)) / 4
    assert estimate.low == pytest.approx(2 / 3 - half)
    assert estimate.high == 1.0


@given(items)
def test_context_gain_residuals_are_its_slope(rows):
    """Giving question i a little more weight moves G by its residual over n, times that weight."""
    scores, baseline, _, _ = columns(rows)
    n, step = len(rows), 1e-6
    a, a0 = sum(scores) / n, sum(baseline) / n
    if a0 > 0.9:
        return

    def gain(index: int, extra: float) -> float:
        full = (sum(scores) + extra * scores[index]) / (n + extra)
        none = (sum(baseline) + extra * baseline[index]) / (n + extra)
        return (full - none) / (1 - none)

    slopes = [(gain(i, step) - gain(i, -step)) / (2 * step) for i in range(n)]
    error = standard_error([slope * n for slope in slopes], list(range(n)))
    estimate = context_gain(scores, baseline, list(range(n)))
    assert error is not None
    assert estimate is not None
    assert estimate.value == pytest.approx((a - a0) / (1 - a0))
    assert estimate.low is not None
    assert error * float(student_t.ppf(0.975, n - 1)) == pytest.approx(
        estimate.value - estimate.low, abs=1e-4, rel=1e-4
    )


def test_context_gain_is_undefined_where_no_context_is_perfect():
    assert context_gain([1, 0], [1, 1], [1, 2]) is None


def test_one_persona_has_no_interval():
    estimates = [
        overall([1, 0], [7, 7]),
        macro([1, 0], ["a", "b"], [7, 7]),
        context_gain([1, 0], [0, 0], [7, 7]),
    ]
    for estimate in estimates:
        assert estimate == Estimate(0.5, None, None, 2, 1)


def test_a_missing_scipy_is_said_with_its_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.special", None)
    with pytest.raises(UserError) as caught:
        statistics.overall([1, 0], [1, 2])
    assert "pip install 'personamem[eval]'" in caught.value.hint


@pytest.mark.parametrize(("credit", "low", "high"), [(1.0, 0.025 ** (1 / 4), 1.0), (0.0, 0.0, 1 - 0.025 ** (1 / 4))])
def test_answers_that_are_all_right_or_all_wrong_still_leave_doubt(credit: float, low: float, high: float) -> None:
    """Four personas that agree are four successes of four: Clopper and Pearson's interval, not [1, 1]."""
    personas = [1, 1, 2, 3, 3, 3, 4]
    for estimate in (overall([credit] * 7, personas), macro([credit] * 7, list("aababba"), personas)):
        assert (estimate.value, estimate.low, estimate.high) == pytest.approx((credit, low, high))
