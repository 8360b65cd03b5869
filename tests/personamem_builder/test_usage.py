"""What answers took, over a run."""

from __future__ import annotations

import pytest

from personamem_builder.usage import AnswerUsage, Seconds, Tokens, UsageSummary, summarise_usage


def test_seconds_are_a_median_and_a_percentile_and_tokens_a_mean() -> None:
    usages = [AnswerUsage(float(n), 100 * n, n, 50) for n in range(1, 22)]
    assert summarise_usage(reversed(usages)) == UsageSummary(
        Seconds(11.0, 20.0, 21), Tokens(1100.0, 21), Tokens(11.0, 21), Tokens(50.0, 21)
    )


def test_each_figure_is_over_the_answers_of_which_it_is_known() -> None:
    usages = [AnswerUsage(1.0, 10), AnswerUsage(), AnswerUsage(3.0), AnswerUsage(None, 30, 0)]
    summary = summarise_usage(usages)
    assert summary is not None
    assert summary.to_json() == {
        "seconds": {"median": 2.0, "p95": pytest.approx(2.9), "n": 2},
        "prompt_tokens": {"mean": 20.0, "n": 2},
        "reply_tokens": {"mean": 0.0, "n": 1},
        "cached_tokens": None,
    }


@pytest.mark.parametrize("count", [0, 3])
def test_where_nothing_is_known_there_is_no_summary(count: int) -> None:
    assert summarise_usage([AnswerUsage()] * count) is None
