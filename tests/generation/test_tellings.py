"""Beside an event stand the other things that options may assert, told in the same way but of others, or over."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from scipy.stats import binomtest
from small_banks import even
from small_histories import any_persona, chains, events_with_mentions

from generation.history_records import Event, History, Mention, Preference, tried_items
from generation.motives import Change
from generation.records import STANCES, Persona
from generation.tellings import (
    Told,
    draw_offers,
    tell_fact,
    tell_of_others,
    tell_others,
    tell_stance,
    tell_trials,
    tell_value,
)

User = tuple[Persona, History]
SEAT = Preference(preference_id="s", kind="slot", subject="seat", candidates=("aisle", "deck", "roof", "window"))
TRAINS = Preference(preference_id="i", kind="item", subject="trains", candidates=("swaps", "trains"))
LOST = Preference(preference_id="f", kind="fact", subject="lost", candidates=("hat", "key", "map", "shoe"))
TRIED = Preference(preference_id="t", kind="trial", subject="", candidates=("barges", "mules", "swaps", "trains"))


@pytest.fixture
def rng() -> random.Random:
    return random.Random(1)


@pytest.fixture
def persona(rng: random.Random) -> Persona:
    return any_persona(rng)


def change(persona: Persona) -> Change:
    reasons = {motive: f"because of {motive}" for motive in persona.motives}
    return Change(persona.motives[2], reasons, {motive: f"in spite of {motive}" for motive in persona.motives})


def test_a_value_stands_beside_the_three_others(persona: Persona, rng: random.Random) -> None:
    own, *rivals = tell_value(SEAT, ["deck", "roof"], "implied", persona, rng)
    assert (own.state, own.whose, own.person) == ("roof", "user", "")
    assert sorted(rival.state for rival in rivals) == ["aisle", "deck", "window"]
    assert all(rival.whose != "user" and rival.person in persona.circle for rival in rivals)


def test_a_stance_stands_beside_the_opposite_one_and_both_on_the_partner(persona: Persona, rng: random.Random) -> None:
    own, *rivals = tell_stance(TRAINS, "like", "named", persona, rng)
    assert (own.subject, own.state, own.whose) == ("trains", "like", "user")
    assert {(rival.subject, rival.state) for rival in rivals} == {
        ("trains", "dislike"),
        ("swaps", "like"),
        ("swaps", "dislike"),
    }
    assert {rival.whose for rival in rivals} == {"other"}


def test_a_fact_stands_beside_three_that_happened_to_others(persona: Persona, rng: random.Random) -> None:
    own, *rivals = tell_fact(LOST, "map", "paraphrased", persona, rng)
    assert (own.state, own.whose) == ("map", "user")
    assert sorted(rival.state for rival in rivals) == ["hat", "key", "shoe"]
    assert {rival.whose for rival in rivals} == {"other"}


def test_each_item_of_a_trial_is_left_out_by_somebody(persona: Persona, rng: random.Random) -> None:
    own, *rivals = tell_trials(TRIED, "mules; swaps; barges", "named", persona, rng)
    assert (own.state, own.whose) == ("mules; swaps; barges", "user")
    lists = [tried_items(one.state) for one in (own, *rivals)]
    assert {tuple(set(TRIED.candidates) - set(items)) for items in lists} == {(item,) for item in TRIED.candidates}
    assert all(len(items) == 3 for items in lists)


def test_people_are_different_and_of_the_circle(persona: Persona, rng: random.Random) -> None:
    for told in (
        tell_value(SEAT, ["deck"], "named", persona, rng),
        tell_stance(TRAINS, "like", "named", persona, rng),
        tell_fact(LOST, "map", "named", persona, rng),
        tell_trials(TRIED, "mules; swaps; barges", "named", persona, rng),
    ):
        assert len({one.person for one in told[1:]} & set(persona.circle)) == 3


def test_a_change_gives_each_of_the_four_a_motive_and_its_reason(persona: Persona, rng: random.Random) -> None:
    own, *rivals = tell_value(SEAT, ["deck", "roof"], "named", persona, rng, change(persona))
    assert own.motive == persona.motives[2]
    assert sorted(str(one.motive) for one in (own, *rivals)) == sorted(persona.motives)
    assert all(one.reason == f"because of {one.motive}" for one in (own, *rivals))
    assert {one.reason for one in tell_value(SEAT, ["roof"], "named", persona, rng)} == {None}


def test_who_comes_to_the_same_view_of_an_item_has_a_reason_for_it_and_who_does_not_one_against_it(
    persona: Persona, rng: random.Random
) -> None:
    item = Preference(preference_id="i", kind="item", subject="aisles", candidates=("aisles", "decks"))
    own, *rivals = tell_stance(item, "like", "named", persona, rng, change(persona))
    assert own.reason == f"because of {own.motive}"
    for rival in rivals:
        assert rival.reason == f"{'because' if rival.state == 'like' else 'in spite'} of {rival.motive}"


def test_values_can_be_told_without_an_event_all_four_and_none_the_users(persona: Persona, rng: random.Random) -> None:
    for _ in range(40):
        told = tell_others(SEAT, ["deck", "roof"], "named", persona, rng)
        assert sorted(one.state for one in told) == list(SEAT.candidates)
        assert "user" not in {one.whose for one in told}
        assert len({one.person for one in told}) == 4
        whose = {one.state: one.whose for one in told}
        assert whose["roof"] == "other", "what holds is neither over nor dropped"
        assert whose["deck"] in ("other", "past")
        assert {whose["aisle"], whose["window"]} <= {"other", "dropped"}


def test_only_what_was_held_is_past_and_only_what_was_never_held_is_dropped(crowd: list[User]) -> None:
    whose = {True: Counter(), False: Counter()}
    for _, history in crowd:
        for topic in history.topics:
            for preference, event, beside in events_with_mentions(topic, lambda p: p.kind == "slot"):
                held = {e.state for e in topic.chain(preference.preference_id, event.period)}
                for mention in beside:
                    if mention.telling == "implied":  # what somebody does shows how things are
                        assert mention.whose == "other"
                    else:
                        whose[mention.state in held][mention.whose] += 1
    assert set(whose[True]) == {"past", "other"}
    assert set(whose[False]) == {"dropped", "other"}
    assert binomtest(whose[True]["past"], whose[True].total(), 0.5).pvalue > 1e-4
    assert binomtest(whose[False]["dropped"], whose[False].total(), 0.2).pvalue > 1e-4


def test_every_event_stands_beside_three_mentions_told_in_its_way(crowd: list[User]) -> None:
    for _, history in crowd[:40]:
        for topic in history.topics:
            for _, event, beside in events_with_mentions(topic):
                assert len(beside) == 3
                assert {mention.telling for mention in beside} == {event.telling}
                assert [mention.reason is None for mention in beside] == [event.reason is None] * 3


def test_what_is_said_of_a_user_is_said_of_others_as_often_of_each_candidate(crowd: list[User]) -> None:
    """In each session that tells of a preference, each thing that options may assert is told once."""
    for _, history in crowd[:40]:
        for topic in history.topics:
            for preference, event, beside in events_with_mentions(topic):
                told = [_said(preference, one) for one in (event, *beside)]
                assert len(set(told)) == 4
                if preference.kind == "item":
                    assert {item for item, _ in told} == set(preference.candidates)
                    assert Counter(stance for _, stance in told) == dict.fromkeys(STANCES, 2)
                elif preference.kind == "trial":
                    assert Counter(i for _, state in told for i in tried_items(state)) == dict.fromkeys(
                        preference.candidates, 3
                    )
                else:
                    assert {state for _, state in told} == set(preference.candidates)


def _said(preference: Preference, one: Event | Mention) -> tuple[str, str]:
    return (one.subject if isinstance(one, Mention) else preference.subject), one.state


def test_items_of_a_trial_stand_in_any_order(crowd: list[User]) -> None:
    first = Counter()
    for _, history in crowd:
        for topic in history.topics:
            for preference, events in chains(topic):
                if preference.kind == "trial":
                    items = tried_items(events[0].state)
                    first[sorted(items).index(items[0])] += 1
    assert even(first[rank] for rank in range(3))


# --- offers


def test_offers_name_all_candidates_of_different_preferences_and_no_facts(persona: Persona, rng: random.Random) -> None:
    told = [
        Told(preference, preference.subject, preference.candidates[0], "user", "", "named")
        for preference in (SEAT, SEAT, TRAINS, LOST, TRIED)
    ]
    offers = draw_offers(told, 9, rng)
    assert {(offer.kind, offer.subject, tuple(sorted(offer.names))) for offer in offers} == {
        ("slot", "seat", SEAT.candidates),
        ("item", "", TRAINS.candidates),
        ("trial", "", TRIED.candidates),
    }
    assert len(offers) == 3
    assert len(draw_offers(told, 2, rng)) == 2


@pytest.mark.parametrize(
    "preference",
    [
        SEAT,
        Preference(preference_id="i", kind="item", subject="aisles", candidates=("aisles", "decks")),
        Preference(preference_id="t", kind="trial", subject="", candidates=("a", "b", "c", "d")),
    ],
)
def test_four_things_can_be_told_of_others_alone(persona: Persona, rng: random.Random, preference: Preference) -> None:
    for _ in range(20):
        told = tell_of_others(preference, "named", persona, rng)
        assert {one.whose for one in told} == {"other"}
        assert len({one.person for one in told}) == len({(one.subject, one.state) for one in told}) == 4
        assert {one.reason for one in told} == {None}
