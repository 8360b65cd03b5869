"""Which motive is behind a change, and which reasons are given for it and for those of others beside it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pytest
from small_banks import TOPICS, even, small_banks, tiny_bank

from generation.banks.topic import Slot, TopicBank
from generation.history_records import Preference
from generation.motives import Change, Reasons
from generation.records import Motive

MINE: tuple[Motive, ...] = ("calm", "thrift", "mastery", "company")


@pytest.fixture(scope="module")
def bank() -> TopicBank:
    """A bank of three reasons a motive."""
    return small_banks().topics[TOPICS[2]]


def of_slot(slot: Slot) -> tuple[Preference, str]:
    """Return a change of a slot."""
    values = tuple(value.phrase for value in slot.values[:4])
    return Preference(preference_id=slot.id, kind="slot", subject=slot.id, candidates=values), values[0]


def of_item(bank: TopicBank, stance: str) -> tuple[Preference, str]:
    """Return a change of the view of an item."""
    own, other = (item.phrase for item in bank.items[:2])
    return Preference(preference_id="item", kind="item", subject=own, candidates=(own, other)), stance


def changes(
    bank: TopicBank,
    about: Sequence[tuple[Preference, str]],
    seed: int = 0,
    main: Motive = "calm",
    life: frozenset[str] = frozenset(),
) -> list[Change]:
    reasons = Reasons(bank, life, main, MINE, len(about), random.Random(seed))
    return [reasons.next(preference, state) for preference, state in about]


def many(bank: TopicBank, count: int) -> list[tuple[Preference, str]]:
    """Return as many changes, of all slots in turn and of items."""
    kinds = [*(of_slot(slot) for slot in bank.slots), of_item(bank, "like"), of_item(bank, "dislike")]
    return [kinds[i % len(kinds)] for i in range(count)]


@pytest.mark.parametrize("count", range(1, 13))
def test_the_main_motive_leads_and_no_reason_of_the_user_repeats(bank: TopicBank, count: int) -> None:
    for seed in range(40):
        drawn = changes(bank, many(bank, count), seed)
        assert len({change.reasons[change.motive] for change in drawn}) == count
        counts = Counter(change.motive for change in drawn)
        assert all(counts["calm"] > counts[other] for other in MINE[1:])


def test_the_reasons_are_those_of_what_changes_one_of_each_motive(bank: TopicBank) -> None:
    reasons = {"like": bank.item_reasons.toward, "dislike": bank.item_reasons.away}
    reasons |= {slot.id: slot.reasons for slot in bank.slots}
    about = many(bank, 9)
    for (preference, state), change in zip(about, changes(bank, about), strict=True):
        known = reasons[preference.subject if preference.kind == "slot" else state]
        assert set(change.reasons) == set(MINE)
        for motive, text in change.reasons.items():
            assert text in [reason.told for reason in known[motive]]


def test_three_changes_of_a_slot_have_reasons_of_their_own(bank: TopicBank) -> None:
    for seed in range(20):
        drawn = changes(bank, [of_slot(bank.slots[0])] * 3, seed)
        assert len({text for change in drawn for text in change.reasons.values()}) == 12


def test_a_bank_of_one_reason_a_motive_gives_four_changes_of_different_motives() -> None:
    small = TopicBank.model_validate(tiny_bank())
    for seed in range(20):
        reasons = Reasons(small, frozenset(), "calm", MINE, 4, random.Random(seed))
        given = {text for _ in range(3) for text in reasons.next(*of_slot(small.slots[0])).reasons.values()}
        assert len(given) == 4


def test_a_reason_that_a_life_rules_out_is_not_given() -> None:
    content = tiny_bank()
    needs_job = {"told": "the hours at work were long", "retold": "shifts had no end", "needs": ["job"]}
    content["slots"][0]["reasons"]["calm"] = [content["slots"][0]["reasons"]["calm"][0], needs_job]
    for motive, own in content["slots"][0]["reasons"].items():
        content["slots"][0]["reasons"][motive] = own if motive == "calm" else [*own, {"told": motive, "retold": "so"}]
    bank = TopicBank.model_validate(content)
    for life, count in ((frozenset[str](), 1), (frozenset({"job"}), 2)):
        about = [of_slot(bank.slots[0])] * 2
        given = {change.reasons["calm"] for seed in range(20) for change in changes(bank, about, seed, life=life)}
        assert len(given) == count


def test_the_other_motives_are_behind_changes_equally_often(bank: TopicBank) -> None:
    counts = Counter(change.motive for seed in range(300) for change in changes(bank, many(bank, 8), seed))
    assert even(counts[motive] for motive in MINE[1:])


def test_the_places_of_the_main_motive_say_nothing(bank: TopicBank) -> None:
    drawn = [changes(bank, many(bank, 6), seed) for seed in range(600)]
    places = Counter(place for some in drawn for place, change in enumerate(some) if change.motive == "calm")
    assert even(places[place] for place in range(6))
