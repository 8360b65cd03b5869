"""What a user holds: nothing but the history tells which of the candidates it is."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from scipy.stats import chi2_contingency
from small_banks import TOPICS, even, small_banks, tiny_bank
from small_histories import Case, any_cases, any_persona, chains

from generation.banks.topic import Slot
from generation.config import Config
from generation.history_records import History, tried_items
from generation.preference_plans import draw_plans, stereotyped
from generation.records import STANCES, TELLINGS, Persona

User = tuple[Persona, History]
Held = tuple[Persona, Slot, tuple[str, ...], list[str]]


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return any_cases()


@pytest.fixture(scope="module")
def slots(crowd: list[User]) -> list[Held]:
    """Every slot of every user: who, which, its candidates, and the states that it ran through."""
    by_id = {(t.id, slot.id): slot for t in small_banks().topics.values() for slot in t.slots}
    return [
        (persona, by_id[topic.topic, preference.subject], preference.candidates, [event.state for event in events])
        for persona, history in crowd
        for topic in history.topics
        for preference, events in chains(topic)
        if preference.kind == "slot"
    ]


def test_candidates_stand_in_an_order_that_says_nothing(cases: list[Case]) -> None:
    for _, _, history in cases:
        bank = small_banks().topics[history.topic]
        values = {slot.id: [value.phrase for value in slot.values] for slot in bank.slots}
        facts = {kind.id: [fact.recalled for fact in kind.facts] for kind in bank.facts}
        items = {item.phrase for item in bank.items}
        for preference in history.preferences:
            candidates = preference.candidates
            assert list(candidates) == sorted(set(candidates))
            assert len(candidates) == (2 if preference.kind == "item" else 4)
            if preference.kind in ("slot", "fact"):
                assert set(candidates) <= set({**values, **facts}[preference.subject])
            else:
                assert set(candidates) <= items


def test_no_item_serves_two_preferences(cases: list[Case]) -> None:
    for _, _, history in cases:
        items = [item for p in history.preferences if p.kind in ("item", "trial") for item in p.candidates]
        assert len(set(items)) == len(items)


def test_of_the_items_of_a_trial_the_user_has_tried_all_but_one_any_of_them(crowd: list[User]) -> None:
    left_out = Counter()
    for _, history in crowd:
        for topic in history.topics:
            for preference, events in chains(topic):
                if preference.kind == "trial":
                    tried = tried_items(events[0].state)
                    assert len(set(tried)) == 3
                    (new,) = set(preference.candidates) - set(tried)
                    left_out[preference.candidates.index(new)] += 1
    assert even(left_out[rank] for rank in range(4))


@pytest.mark.parametrize("at", [0, -1])
def test_each_candidate_of_a_slot_is_equally_often_the_first_and_the_current_value(slots: list[Held], at: int) -> None:
    ranks = Counter(candidates.index(states[at]) for _, _, candidates, states in slots)
    assert even(ranks[rank] for rank in range(4))


def test_each_candidate_of_a_kind_of_facts_is_equally_often_true(crowd: list[User]) -> None:
    ranks = Counter(
        preference.candidates.index(events[0].state)
        for _, history in crowd
        for topic in history.topics
        for preference, events in chains(topic)
        if preference.kind == "fact"
    )
    assert even(ranks[rank] for rank in range(4))


@pytest.mark.parametrize("at", [0, -1])
def test_items_are_liked_as_often_as_disliked_and_neither_of_a_pair_sorts_first(crowd: list[User], at: int) -> None:
    stances, ranks = Counter(), Counter()
    for _, history in crowd:
        for topic in history.topics:
            for preference, events in chains(topic):
                if preference.kind == "item":
                    stances[events[at].state] += 1
                    ranks[preference.candidates.index(preference.subject)] += 1
    assert even(stances[stance] for stance in STANCES)
    assert even(ranks[rank] for rank in range(2))


def test_values_are_returned_to_as_well_as_left(slots: list[Held]) -> None:
    """Otherwise the last value that is new would always be the current one."""
    often = [states for _, _, _, states in slots if len(states) > 2]
    returned = sum(states[-1] in states[:-1] for states in often)
    assert 0.25 < returned / len(often) < 0.75


def test_one_candidate_of_a_slot_is_never_held(slots: list[Held]) -> None:
    assert all(set(candidates) - set(states) for _, _, candidates, states in slots)


# --- stereotypes


def test_a_user_has_at_least_one_slot_about_which_there_is_a_stereotype(crowd: list[User]) -> None:
    for persona, history in crowd:
        for topic in history.topics:
            by_id = {slot.id: slot for slot in small_banks().topics[topic.topic].slots}
            mine = [by_id[preference.subject] for preference in topic.preferences if preference.kind == "slot"]
            assert any(stereotyped(slot, persona) for slot in mine)


def test_one_candidate_follows_a_stereotype_where_enough_others_are_left(slots: list[Held]) -> None:
    """Values that a motive of the user speaks against are no candidates."""
    for persona, slot, candidates, _ in slots:
        fitting = {value.phrase for value in slot.values if not set(value.against) & set(persona.motives)}
        assert set(candidates) <= fitting
        marked = stereotyped(slot, persona) & fitting
        if len(fitting - marked) >= 3:
            assert len(marked & set(candidates)) == bool(marked)


def test_stereotypes_hold_as_often_as_anything_else(slots: list[Held]) -> None:
    table = {True: [0, 0, 0], False: [0, 0, 0]}  # current, outdated, never held
    for persona, slot, candidates, states in slots:
        marked = stereotyped(slot, persona) & set(candidates)
        for value in candidates if marked else ():
            part = 0 if value == states[-1] else 1 if value in states else 2
            table[value in marked][part] += 1
    assert min(table[True]) > 100
    assert chi2_contingency([table[True], table[False]]).pvalue > 1e-4


@pytest.mark.parametrize(
    ("age", "gender", "marked"),
    [(39, "woman", "ac"), (40, "woman", "ab"), (39, "non-binary", "c"), (39, "man", "bc")],
)
def test_a_stereotype_is_about_the_groups_of_the_user(age: int, gender: str, marked: str) -> None:
    groups: dict[str, list[Any]] = {"a": ["woman"], "b": ["older", "man"], "c": ["younger"], "d": []}
    words = {"paraphrases": ["p"], "signs": ["s"], "recommend": ["r"]}
    values = [{"phrase": phrase, "stereotype": some, **words} for phrase, some in groups.items()]
    slot = Slot(**{**tiny_bank()["slots"][0], "values": values})
    assert stereotyped(slot, any_persona(random.Random(0), age=age, gender=gender)) == set(marked)


# --- tellings


def test_each_way_of_telling_is_used_as_often_as_configured() -> None:
    rng = random.Random(5)
    counts = Counter()
    config = Config(topics=TOPICS, tellings={"named": 1, "paraphrased": 2, "implied": 1})
    bank = small_banks().topics[TOPICS[2]]
    for _ in range(60):
        counts.update(plan.telling for plan in draw_plans(config, any_persona(rng), bank, rng))
    assert even([counts["named"], counts["paraphrased"] / 2, counts["implied"], counts["paraphrased"] / 2])


@pytest.mark.parametrize("telling", TELLINGS)
def test_one_way_of_telling_can_be_asked_for_alone(telling: str) -> None:
    rng = random.Random(6)
    config = Config(topics=TOPICS, tellings={telling: 3})
    plans = draw_plans(config, any_persona(rng), small_banks().topics[TOPICS[2]], rng)
    assert {plan.telling for plan in plans} == {telling}
