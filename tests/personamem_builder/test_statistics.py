from __future__ import annotations

import itertools
import math
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, f_oneway
from scipy.stats import t as student_t

from generation.errors import UserError
from generation.resources import install_hint
from personamem_builder import statistics
from personamem_builder.statistics import (
    Estimate,
    bootstrap_interval,
    chance_corrected,
    context_gain,
    effective_sample_size,
    macro,
    mcnemar,
    overall,
    paired_difference,
    paired_test,
    per_type,
    simultaneous_interval,
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
    assert install_hint("eval") in caught.value.hint


@pytest.mark.parametrize(("credit", "low", "high"), [(1.0, 0.025 ** (1 / 4), 1.0), (0.0, 0.0, 1 - 0.025 ** (1 / 4))])
def test_answers_that_are_all_right_or_all_wrong_still_leave_doubt(credit: float, low: float, high: float) -> None:
    """Four personas that agree are four successes of four: Clopper and Pearson's interval, not [1, 1]."""
    personas = [1, 1, 2, 3, 3, 3, 4]
    for estimate in (overall([credit] * 7, personas), macro([credit] * 7, list("aababba"), personas)):
        assert (estimate.value, estimate.low, estimate.high) == pytest.approx((credit, low, high))


@pytest.mark.slow
def test_the_bootstrap_follows_skew_that_t_does_not():
    """Beta-binomial personas of unequal size (intraclass correlation 0.2) and a true mean of 0.9."""
    rng = np.random.default_rng(20)
    covered = np.zeros(2)
    for trial in range(400):
        rights = rng.beta(0.9 * 4, 0.1 * 4, size=10)
        personas = np.repeat(np.arange(10), rng.integers(5, 80, size=10))
        scores = (rng.random(len(personas)) < rights[personas]).astype(float)
        for side, estimate in enumerate((overall(scores, personas), bootstrap_interval(scores, personas, trial))):
            covered[side] += estimate.low <= 0.9 <= estimate.high
    by_t, by_bootstrap = covered / 400
    assert by_bootstrap > 0.91
    assert by_bootstrap > by_t + 0.04


def test_with_many_even_personas_the_bootstrap_is_the_t_interval():
    rng = np.random.default_rng(3)
    personas = np.repeat(np.arange(300), 4)
    scores = (rng.random(1200) < 0.5).astype(float)
    by_t, by_bootstrap = overall(scores, personas), bootstrap_interval(scores, personas)
    width = by_t.high - by_t.low
    assert (by_bootstrap.value, by_bootstrap.n, by_bootstrap.clusters) == (by_t.value, 1200, 300)
    assert by_bootstrap.low == pytest.approx(by_t.low, abs=0.1 * width)
    assert by_bootstrap.high == pytest.approx(by_t.high, abs=0.1 * width)


@settings(max_examples=30)
@given(items, st.randoms(use_true_random=False))
def test_the_bootstrap_knows_neither_names_nor_order_nor_repetition(rows, random):
    scores, _, _, personas = columns(rows)
    estimate = bootstrap_interval(scores, personas)
    again = random.sample(list(zip(scores, personas, strict=True)), len(scores))
    same = [
        bootstrap_interval([score for score, _ in again], [persona for _, persona in again]),
        bootstrap_interval(scores, [50 - 7 * persona for persona in personas]),
        bootstrap_interval(scores + scores, personas + personas)._replace(n=len(scores)),
    ]
    for other in same:
        close(estimate, other)


@settings(max_examples=30)
@given(items)
def test_half_the_credit_is_half_the_bootstrap_interval(rows):
    scores, _, _, personas = columns(rows)
    if len(set(personas)) < 2 or len(set(scores)) == 1:
        return
    whole, half = bootstrap_interval(scores, personas), bootstrap_interval([s / 2 for s in scores], personas)
    assert whole.low <= whole.value + 1e-12
    assert whole.value - 1e-12 <= whole.high
    assert half.low == pytest.approx(whole.low / 2, abs=1e-9)
    assert half.high == pytest.approx(whole.high / 2, abs=1e-9) or whole.high == 1.0 < 2 * half.high


def test_another_seed_of_the_bootstrap_moves_an_interval_little():
    scores, personas = [1, 0, 0, 1, 0, 1, 1, 0.5, 0, 0, 0.25, 1, 1] * 8, [i * i % 11 for i in range(104)]
    first, second = bootstrap_interval(scores, personas, 1), bootstrap_interval(scores, personas, 2)
    assert first != second
    assert (first.low, first.high) == pytest.approx((second.low, second.high), abs=0.05)


def test_a_resample_that_moves_nothing_pulls_to_neither_side():
    """One resample in ten has only personas with the mean of all, and no error."""
    estimate = bootstrap_interval([0, *[0.5] * 6, 1], list(range(8)))
    assert 0 < estimate.low < 0.5 < estimate.high < 1


def test_what_cannot_be_resampled_keeps_its_interval():
    assert bootstrap_interval([1, 0], [7, 7]) == Estimate(0.5, None, None, 2, 1)
    assert bootstrap_interval([1, 1, 1], [1, 2, 3]) == overall([1, 1, 1], [1, 2, 3])
    assert bootstrap_interval([1, 0, 1, 0], [1, 1, 2, 2]) == overall([1, 0, 1, 0], [1, 1, 2, 2])


def test_chance_corrected_by_hand():
    corrected = chance_corrected(Estimate(0.625, 0.25, 1.0, 40, 5), 0.25)
    assert corrected == Estimate(0.5, 0.0, 1.0, 40, 5)
    assert chance_corrected(Estimate(0.1, None, None, 3, 1), 0.25) == Estimate(pytest.approx(-0.2), None, None, 3, 1)


@given(items, st.sampled_from([0.0, 0.1, 0.25, 0.5]))
def test_correcting_an_estimate_is_estimating_corrected_credits(rows, chance):
    scores, _, _, personas = columns(rows)
    corrected = chance_corrected(overall(scores, personas), chance)
    direct = [(score - chance) / (1 - chance) for score in scores]
    assert corrected.value == pytest.approx(np.mean(direct))
    estimate = overall(scores, personas)
    if estimate.low is not None and 0 < estimate.low <= estimate.high < 1:
        error = standard_error(np.asarray(direct) - np.mean(direct), personas)
        half = student_t.ppf(0.975, estimate.clusters - 1) * error
        assert (corrected.low, corrected.high) == pytest.approx((corrected.value - half, corrected.value + half))


@pytest.mark.parametrize("chance", [1.0, -0.1, 25.0])
def test_a_chance_that_leaves_nothing_to_correct_is_refused(chance):
    with pytest.raises(ValueError, match="chance is"):
        chance_corrected(Estimate(1.0, None, None, 1, 1), chance)


@given(st.lists(st.tuples(credit, credit), max_size=60))
def test_mcnemar_is_the_binomial_test_of_the_pairs_that_differ(pairs):
    scores, baseline = [a for a, _ in pairs], [b for _, b in pairs]
    result = mcnemar(scores, baseline)
    assert result.better == sum(a > b for a, b in pairs)
    assert result.worse == sum(a < b for a, b in pairs)
    differ = result.better + result.worse
    assert result.p == pytest.approx(binomtest(result.better, differ).pvalue if differ else 1.0)
    swapped = mcnemar(baseline, scores)
    assert (swapped.better, swapped.worse, swapped.p) == (result.worse, result.better, result.p)


def test_mcnemar_by_hand():
    # Of ten questions that differ one is worse: p = 2 * (1 + 10) / 2**10. Equal credits, shared or not, drop out.
    result = mcnemar([1] * 8 + [0.5, 0] + [1, 0, 0.25], [0] * 8 + [0.25, 1] + [1, 0, 0.25])
    assert result == (9, 1, pytest.approx(22 / 1024))


@given(st.integers(1, 199), st.sampled_from([1, 8, 240]))
def test_for_independent_answers_the_simultaneous_interval_is_clopper_and_pearsons(right, family):
    value, many = right / 200, 10**7
    interval = simultaneous_interval(value, math.sqrt(value * (1 - value) / 200), many, 0.95, family)
    exact = binomtest(right, 200).proportion_ci(1 - 0.05 / family, method="exact")
    assert interval == pytest.approx((exact.low, exact.high), abs=1e-5)


@pytest.mark.parametrize("right", [0, 5, 20])
def test_without_an_error_each_persona_is_one_answer(right):
    exact = binomtest(right, 20).proportion_ci(1 - 0.05 / 30, method="exact")
    assert simultaneous_interval(right / 20, 0.0, 20, 0.95, 30) == pytest.approx((exact.low, exact.high))


def test_with_many_questions_the_simultaneous_interval_is_the_t_interval():
    half = student_t.ppf(1 - 0.05 / 2 / 40, 19) * 0.004
    assert simultaneous_interval(0.3, 0.004, 20, 0.95, 40) == pytest.approx((0.3 - half, 0.3 + half), abs=0.05 * half)


@given(st.floats(0.01, 0.99), st.floats(0.001, 0.3), st.integers(2, 60), st.integers(1, 500))
def test_the_larger_the_family_the_wider_the_interval(value, error, clusters, family):
    low, high = simultaneous_interval(value, error, clusters, 0.95, family)
    wider_low, wider_high = simultaneous_interval(value, error, clusters, 0.95, family + 1)
    assert 0 <= wider_low <= low + 1e-9
    assert low <= value + 1e-9
    assert value - 1e-9 <= high <= wider_high + 1e-9
    assert wider_high <= 1
    mirrored = simultaneous_interval(1 - value, error, clusters, 0.95, family)
    assert mirrored == pytest.approx((1 - high, 1 - low), abs=1e-6)


def test_one_persona_has_no_simultaneous_interval():
    assert simultaneous_interval(0.5, None, 1, 0.95, 8) is None


def test_all_intervals_of_a_family_hold_at_once():
    """Twenty rules that guess, on one question for each of 20 personas: where value ± t · SE fails."""
    rng = np.random.default_rng(5)
    missed = 0
    for _ in range(300):
        rights = rng.binomial(20, 0.25, size=20) / 20
        errors = np.sqrt(rights * (1 - rights) / 19)
        intervals = [simultaneous_interval(v, e, 20, 0.95, 20) for v, e in zip(rights, errors, strict=True)]
        missed += any(not low <= 0.25 <= high for low, high in intervals)
    assert missed <= 300 * 0.05


@given(st.lists(st.lists(credit, min_size=3, max_size=3), min_size=2, max_size=12))
def test_effective_sample_size_is_that_of_an_analysis_of_variance(groups):
    """With m questions a persona, deff = MSB / s², where F = MSB / MSW."""
    scores = [score for group in groups for score in group]
    personas = [index for index, group in enumerate(groups) for _ in group]
    size = effective_sample_size(scores, personas)
    if len(set(scores)) == 1:
        assert size is None
        return
    n, clusters = len(scores), len(groups)
    between = 3 * np.var([np.mean(group) for group in groups], ddof=1)
    if between < 1e-9:
        assert size == n
    elif all(len(set(group)) == 1 for group in groups):
        assert size == pytest.approx(n * (clusters - 1) / (n - 1))
    else:
        ratio = ((clusters - 1) + (n - clusters) / f_oneway(*groups).statistic) / (n - 1)
        assert size == pytest.approx(min(n, n * ratio))


@given(items)
def test_effective_sample_size_does_not_depend_on_the_unit(rows):
    scores, _, _, personas = columns(rows)
    size = effective_sample_size(scores, personas)
    moved = effective_sample_size([score / 3 + 0.5 for score in scores], personas)
    if len(set(personas)) < 2 or len(set(scores)) == 1:
        assert size is moved is None
    else:
        assert 0 < size <= len(rows)
        assert moved == pytest.approx(size, rel=1e-6)


def test_questions_of_as_many_personas_are_as_many_questions():
    assert effective_sample_size([1, 0, 1, 1, 0], [1, 2, 3, 4, 5]) == pytest.approx(5)


@given(st.integers(2, 8), st.randoms(use_true_random=False))
def test_a_paired_test_is_below_five_per_cent_just_where_the_interval_leaves_out_zero(clusters, rng):
    personas = [i % clusters for i in range(6 * clusters)]
    scores, baseline = ([rng.choice([0.0, 0.5, 1.0]) for _ in personas] for _ in range(2))
    estimate, p = paired_test(scores, baseline, personas)
    assert estimate == paired_difference(scores, baseline, personas)
    assert p is not None
    assert estimate.low is not None
    assert estimate.high is not None
    if estimate.high - estimate.low > 1e-9:  # else all personas have the same difference, up to rounding
        assert (p < 0.05) == (estimate.low > 0 or estimate.high < 0)
    assert paired_test(baseline, scores, personas).p == pytest.approx(p)
    assert paired_test(scores, scores, personas).p == 1.0


def test_a_paired_test_by_hand():
    # Differences by persona 0.5, 1.0, 0.0: their mean is 0.5, and SE = sqrt(3/2 · (0 + 1 + 1)) / 6.
    scores, baseline, personas = [1.0, 0.0, 1.0, 1.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0, 0.0, 1.0], [1, 1, 2, 2, 3, 3]
    p = 2 * student_t.sf(0.5 / (math.sqrt(3.0) / 6), df=2)
    assert paired_test(scores, baseline, personas).p == pytest.approx(p)


def test_a_paired_test_without_an_error_is_a_sign_test_of_the_personas():
    personas = [1, 2, 3, 4]
    assert paired_test([1.0] * 4, [0.0] * 4, personas).p == pytest.approx(2 * 0.5**4)
    assert paired_test([1.0] * 4, [0.0] * 4, [7] * 4).p is None
