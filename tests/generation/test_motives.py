"""Which motive is behind a change, and which reasons are given for it and for those of others beside it."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from small_banks import TOPICS, even, small_banks, tiny_bank

from generation.banks.topic import TopicBank
from generation.motives import Change, Reasons
from generation.records import MOTIVES, Motive

MINE: tuple[Motive, ...] = ("calm", "thrift", "mastery", "company")


def changes(bank: TopicBank, count: int, seed: int = 0, main: Motive = "calm") -> list[Change]:
    reasons = Reasons(bank, main, MINE, count, random.Random(seed))
    return [reasons.next() for _ in range(count)]


@pytest.fixture(scope="module")
def bank() -> TopicBank:
    """A bank of three reasons a motive."""
    return small_banks().topics[TOPICS[2]]


@pytest.mark.parametrize("count", range(1, 13))
def test_the_main_motive_leads_and_no_reason_of_the_user_repeats(bank: TopicBank, count: int) -> None:
    assert {len(bank.reasons[motive]) for motive in MOTIVES} == {3}
    for seed in range(40):
        drawn = changes(bank, count, seed)
        own = [change.reasons[change.motive] for change in drawn]
        assert len(set(own)) == count
        counts = Counter(change.motive for change in drawn)
        if count < 10:  # of ten, three at most have the main motive, so another has as many
            assert all(counts["calm"] > counts[other] for other in MINE[1:])


def test_each_change_has_a_reason_of_each_motive_of_the_user(bank: TopicBank) -> None:
    recalled = {reason.recalled: motive for motive, reasons in bank.reasons.items() for reason in reasons}
    for change in changes(bank, 8):
        assert {motive: recalled[text] for motive, text in change.reasons.items()} == {m: m for m in MINE}


def test_a_bank_of_one_reason_a_motive_gives_four_changes_of_different_motives() -> None:
    small = TopicBank.model_validate(tiny_bank())
    for seed in range(20):
        assert sorted(change.motive for change in changes(small, 4, seed)) == sorted(MINE)


def test_the_other_motives_are_behind_changes_equally_often(bank: TopicBank) -> None:
    counts = Counter(change.motive for seed in range(300) for change in changes(bank, 8, seed))
    assert even(counts[motive] for motive in MINE[1:])


def test_the_places_of_the_main_motive_say_nothing(bank: TopicBank) -> None:
    places = Counter(
        place for seed in range(600) for place, change in enumerate(changes(bank, 6, seed)) if change.motive == "calm"
    )
    assert even(places[place] for place in range(6))
