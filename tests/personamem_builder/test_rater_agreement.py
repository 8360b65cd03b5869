"""AC1 is compared with published values.

The abstractors' table, and the four observers of twelve units (Krippendorff's example, with missing answers), have
their AC1 in the overview of Gwet's R package irrCAC: 0.8493305, and 0.77544 with standard error 0.14295 and interval
(0.461, 1). The table of 125 subjects, nearly all `+`, is that of Gwet (2002), "Kappa statistic is not satisfactory for
assessing the extent of agreement between raters": AC1 0.941, where Cohen's kappa is below 0.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personamem_builder.rater_agreement import gwet_ac1, wilson

ABSTRACTORS = ["EE"] * 13 + ["AA"] * 20 + ["AN"] * 7 + ["NA"] * 4 + ["NN"] * 56
OBSERVERS = """
1 1 1
2 2 3 2
3 3 3 3
3 3 3 3
2 2 2 2
1 2 3 4
4 4 4 4
1 1 2 1
2 2 2 2
5 5 5
1 1
3
"""
RARE_NO = ["++"] * 118 + ["+-"] * 5 + ["-+"] * 2

tables = st.lists(st.lists(st.sampled_from("abc"), max_size=4), max_size=12)


def test_ac1_of_two_raters() -> None:
    found = gwet_ac1(ABSTRACTORS, "EAN")

    assert found is not None
    assert found.percent == pytest.approx(0.89)
    assert found.ac1.value == pytest.approx(0.8493305, abs=5e-8)


def test_ac1_of_several_raters_with_missing_answers() -> None:
    found = gwet_ac1([row.split() for row in OBSERVERS.split("\n")], "12345")

    assert found is not None
    assert found.items == 11
    assert found.percent == pytest.approx(0.8181818, abs=5e-8)
    assert found.ac1.value == pytest.approx(0.77544, abs=5e-6)
    assert found.ac1.low == pytest.approx(0.461, abs=5e-4)
    assert found.ac1.high == 1


def test_ac1_stands_where_kappa_collapses() -> None:
    found = gwet_ac1(RARE_NO, "+-")

    assert found is not None
    assert found.ac1.value == pytest.approx(0.941, abs=5e-4)


def test_full_agreement_does_not_claim_certainty() -> None:
    found = gwet_ac1(["yy"] * 20, "yn")

    assert found is not None
    assert found.ac1.value == 1
    assert found.ac1.low == pytest.approx(0.025 ** (1 / 20))


def test_one_answer_an_item_is_no_agreement() -> None:
    assert gwet_ac1(["y", "n", ""], "yn") is None


@given(tables, st.randoms(use_true_random=False))
def test_neither_the_order_of_items_nor_of_raters_nor_names_of_categories_matter(
    rows: list[list[str]], random: object
) -> None:
    renamed = [[{"a": "x", "b": "y", "c": "z"}[answer] for answer in reversed(row)] for row in reversed(rows)]

    before, after = gwet_ac1(rows, "abc"), gwet_ac1(renamed, "zyx")

    if before is None or after is None:
        assert before is after
        return
    assert after.percent == pytest.approx(before.percent)
    assert after.ac1 == pytest.approx(before.ac1)
    assert -1 <= before.ac1.value <= 1


def test_wilson_has_the_known_values() -> None:
    # Newcombe (1998), table I, method 3.
    assert wilson(81 / 263, 263) == pytest.approx((81 / 263, 0.2553, 0.3662), abs=5e-5)
    assert wilson(0 / 20, 20) == pytest.approx((0, 0, 0.1611), abs=5e-5)
    assert wilson(1, 29) == pytest.approx((1, 0.8830, 1), abs=5e-5)
