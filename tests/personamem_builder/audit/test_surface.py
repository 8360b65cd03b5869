"""Surface rules: what each chooses, what guessing gives, and what they score on the official release."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from official_splits import official_questions
from scipy.stats import binomtest
from small_banks import TOPICS, users

from generation.banks.load import load_banks
from generation.config import Config
from generation.llm.client import Client
from generation.llm.offline.backend import OfflineBackend
from generation.question_plans import plan_questions
from generation.stages.questions import write_question
from personamem_builder.audit.records import AuditedSplit, Finding
from personamem_builder.audit.surface import surface_findings
from personamem_builder.schema import question_columns

TEXTS = (
    "Plan a garden with a plum tree",
    "Plan a garden with a pear tree!!",
    "Supercalifragilistic",
    "Plan a plum in Xyzzyx-Qwkjv, Zzyz",
)


def question(texts: tuple[str, ...] = TEXTS, answer: int = 0, **changes: Any) -> dict[str, Any]:
    return {
        "question_id": "q",
        "persona_id": 1,
        "question_type": "suggest_new_ideas",
        "user_question_or_message": "A plan: which pear?",
        "all_options": [f"({letter}) {text}" for letter, text in zip("abcdefgh", texts, strict=False)],
        "answer_index": answer,
        **changes,
    }


def find(rows: list[dict[str, Any]], check: str, slice_: str = "all") -> Finding:
    [finding] = [f for f in surface_findings(AuditedSplit("small", rows)) if (f.check, f.slice) == (check, slice_)]
    return finding


@pytest.mark.parametrize(
    ("rule", "letter"),
    [
        ("longest", "d"),
        ("unique_longest", "d"),
        ("shortest", "c"),
        ("longest_tokens", "d"),
        ("shortest_tokens", "c"),
        ("central", "a"),
        ("odd_one_out", "c"),
        ("overlap", "b"),
        ("least_overlap", "c"),
        ("position_a", "a"),
        ("position_d", "d"),
    ],
)
def test_what_each_rule_chooses(rule: str, letter: str) -> None:
    for answer, right in enumerate("abcd"):
        assert find([question(answer=answer)], f"surface.{rule}").value == (right == letter), right


def test_tokens_are_not_characters() -> None:
    texts = ("international responsibilities", "Xqz-Wvk-Jjp 7#4%")
    assert find([question(texts)], "surface.longest").value == 1
    assert find([question(texts)], "surface.shortest_tokens").value == 1
    assert find([question(texts)], "surface.longest_tokens").value == 0


def test_options_that_tie_share_the_credit() -> None:
    texts = ("four", "five", "six")
    assert find([question(texts)], "surface.longest").value == 1 / 2
    assert find([question(texts)], "surface.least_overlap").value == 1 / 3


def test_unique_longest_gives_no_credit_for_ties_and_expects_none() -> None:
    rows = [
        question(("four", "five", "six"), question_type="recall_user_shared_facts"),
        question(("seven", "six", "five"), question_type="suggest_new_ideas"),
    ]
    found = [find(rows, "surface.unique_longest", slice_) for slice_ in ("all", *(r["question_type"] for r in rows))]
    assert [finding.value for finding in found] == [1 / 2, 0, 1]
    assert [finding.chance for finding in found] == pytest.approx([(0 + 1 / 3) / 2, 0, 1 / 3])


def test_opposite_signs_in_two_types_show_in_each() -> None:
    rows = [
        question(answer=3, question_type="generalize_to_new_scenarios"),
        question(answer=2, question_type="suggest_new_ideas"),
    ]
    for rule, right in (("longest", "generalize_to_new_scenarios"), ("shortest", "suggest_new_ideas")):
        values = {f.slice: f.value for f in surface_findings(AuditedSplit("s", rows)) if f.check == f"surface.{rule}"}
        assert values == {"all": 0.5, **{row["question_type"]: row["question_type"] == right for row in rows}}


def test_as_many_positions_as_options() -> None:
    rows = [question(("one", "three")), question(("one", "three", "four"), answer=2)]
    checks = {f.check for f in surface_findings(AuditedSplit("small", rows)) if "position" in f.check}
    assert checks == {"surface.position_a", "surface.position_b", "surface.position_c"}
    assert find(rows, "surface.position_a").value == 1 / 2


TEXT = st.text(st.sampled_from("ab ."), min_size=1, max_size=6)
OPTIONS = st.lists(st.lists(TEXT, min_size=2, max_size=5).map(tuple), min_size=1, max_size=3)


@given(OPTIONS)
def test_where_each_option_is_right_once_every_rule_is_at_chance(options: list[tuple[str, ...]]) -> None:
    """Whatever the options are, ties included: a rule that reads no answers gains nothing on even ones."""
    rows = [question(texts, answer=answer) for texts in options for answer in range(len(texts))]
    for finding in surface_findings(AuditedSplit("even", rows)):
        assert finding.value == pytest.approx(finding.chance), finding.check


@given(st.lists(TEXT, min_size=3, max_size=4), st.randoms(use_true_random=False))
def test_order_of_options_matters_to_positions_only(texts: list[str], rng: Any) -> None:
    order = rng.sample(range(len(texts)), len(texts))
    moved = question(tuple(texts[i] for i in order), answer=order.index(0))
    before = surface_findings(AuditedSplit("s", [question(tuple(texts))]))
    after = surface_findings(AuditedSplit("s", [moved]))
    for one, other in zip(before, after, strict=True):
        assert one == other or "position" in one.check


# --- the official release


@cache
def official(split: str) -> dict[tuple[str, str], Finding]:
    return {(f.check.removeprefix("surface."), f.slice): f for f in surface_findings(official_questions(split))}


@pytest.mark.parametrize(
    ("split", "n", "longest", "unique"),
    [
        ("32k", 589, 0.505, 0.489),
        pytest.param("128k", 2727, 0.437, 0.421, marks=pytest.mark.slow),
        pytest.param("1M", 2674, 0.405, 0.387, marks=pytest.mark.slow),
    ],
)
def test_published_figures_of_the_official_release(split: str, n: int, longest: float, unique: float) -> None:
    found = official(split)
    assert found["longest", "all"].n == n
    assert found["longest", "all"].value == pytest.approx(longest, abs=0.001)
    assert found["unique_longest", "all"].value == pytest.approx(unique, abs=0.001)
    types = {
        ("shortest", "suggest_new_ideas"): (0.975, 0.99),
        ("longest", "suggest_new_ideas"): (0.0, 0.01),
        ("longest", "generalize_to_new_scenarios"): (0.97, 1.0),
        ("longest", "revisit_reasons_behind_preference_updates"): (0.91, 0.945),
    }
    for key, (low, high) in types.items():
        assert low <= (found[key].value or 0.0) <= high, key


@pytest.mark.parametrize(
    ("split", "central", "overlap", "golds"),
    [
        ("32k", 0.508, 0.401, (143, 146, 158, 142)),
        pytest.param("128k", 0.480, 0.312, (786, 721, 574, 646), marks=pytest.mark.slow),
        pytest.param("1M", 0.421, 0.304, (708, 630, 647, 689), marks=pytest.mark.slow),
    ],
)
def test_other_rules_on_the_official_release(
    split: str, central: float, overlap: float, golds: tuple[int, ...]
) -> None:
    found = official(split)
    assert found["central", "all"].value == pytest.approx(central, abs=0.001)
    assert found["overlap", "all"].value == pytest.approx(overlap, abs=0.001)
    for letter, count in zip("abcd", golds, strict=True):
        finding = found[f"position_{letter}", "all"]
        assert finding.value == pytest.approx(count / finding.n)


# --- generic distractors


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2])
def test_what_generic_distractors_open_is_the_chance_among_the_options_that_assert_something(count: int) -> None:
    """They are unlike the other options, so the option that is most like the others is never one of them."""
    config = Config(topics=TOPICS, personas=12, seed=3, generic_distractors=count)
    banks = load_banks(config)
    client = Client(OfflineBackend(banks, config.seed))
    plans = [plan for p, h in users(config) for plan in plan_questions(config, p, h, banks) if plan.generic]
    rows: Any = [question_columns(write_question(client, plan, banks)) for plan in plans]
    finding = find(rows, "surface.central")
    assert finding.low is not None
    assert finding.low > 0.25
    assert binomtest(round(finding.value * len(rows)), len(rows), 1 / (4 - count)).pvalue > 1e-3
