"""The passes that score options: every token once, and nothing that another pass runs before."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from personamem_builder.evaluation.option_passes import plan_options

PROMPT = [9, 9, 9]
Options = list[list[int]]


def scored(options: Options) -> list[list[float]]:
    """Score options by a made-up model, whose log-probability of a token depends on all that stands before it."""
    plan = plan_options(PROMPT, options)
    scores = []
    for one in plan.passes:
        assert len(one.ids) == len(one.prompt) - 1 - one.start
        scores.append(
            [[model(one.prompt[: one.start + 1 + row], token) for token in ids] for row, ids in enumerate(one.ids)]
        )
    return plan.token_logprobs(scores)


def model(before: list[int], token: int) -> float:
    return float(hash((tuple(before), token)) % 1_000)


@given(st.lists(st.lists(st.integers(0, 2), max_size=5), min_size=1, max_size=5))
def test_options_have_the_scores_that_each_has_alone(options: Options) -> None:
    assert scored(options) == [
        [model([*PROMPT, *option[:length]], token) for length, token in enumerate(option)] for option in options
    ]


@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=5), min_size=1, max_size=5))
def test_no_beginning_is_asked_about_twice(options: Options) -> None:
    asked = [
        tuple(one.prompt[: one.start + 1 + row])
        for one in plan_options(PROMPT, options).passes
        for row in range(len(one.ids))
    ]
    assert len(asked) == len(set(asked))


def test_what_begins_alike_is_asked_about_behind_what_was_run() -> None:
    passes = plan_options(PROMPT, [[1, 2, 3], [1, 2, 4, 5], [1, 2, 3], [6]]).passes
    assert [(one.prompt, one.start, one.ids) for one in passes] == [
        ([*PROMPT, 1, 2, 3], 2, [[1, 6], [2], [3, 4]]),
        ([*PROMPT, 1, 2, 4, 5], 5, [[5]]),
    ]
