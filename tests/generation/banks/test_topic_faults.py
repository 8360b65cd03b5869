"""What no part of a bank shows by itself: names given away, words shared, frames that tell whose a thing is."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from small_banks import tiny_bank, tiny_items, tiny_reasons, tiny_thread

from generation.banks.topic import TopicBank
from generation.banks.topic_faults import topic_faults


def faults(bank: dict[str, Any]) -> list[str]:
    """Return what is said against a bank, each with its place."""
    found = topic_faults(TopicBank.model_validate(bank))
    return [f"{'.'.join(map(str, fault.place))}: {fault.message}" for fault in found]


def with_items(*phrases: str) -> dict[str, Any]:
    return tiny_bank(items=tiny_items({phrase: f"zone {i}" for i, phrase in enumerate(phrases)}))


def with_words_of_an_item(*texts: str) -> dict[str, Any]:
    items = copy.deepcopy(tiny_bank()["items"])
    items[0]["paraphrases"] = list(texts)
    return tiny_bank(items=items)


def with_slot(**changes: Any) -> dict[str, Any]:
    bank = tiny_bank()
    return {**bank, "slots": [{**bank["slots"][0], **changes}]}


def with_value(**changes: Any) -> dict[str, Any]:
    values = copy.deepcopy(tiny_bank()["slots"][0]["values"])
    values[0] |= changes
    return with_slot(values=values)


def with_fact(**changes: str) -> dict[str, Any]:
    kind = copy.deepcopy(tiny_bank()["facts"][0])
    kind["facts"][0] |= changes
    return tiny_bank(facts=[kind])


def with_reason(**changes: Any) -> dict[str, Any]:
    reasons: dict[str, Any] = tiny_reasons("about the start")
    reasons["calm"][0] |= changes
    return with_slot(reasons=reasons)


def with_stances(**changes: Any) -> dict[str, Any]:
    return tiny_bank(stances={**tiny_bank()["stances"], **changes})


def with_tells(**changes: Any) -> dict[str, Any]:
    return with_slot(tells={**tiny_bank()["slots"][0]["tells"], **changes})


def with_thread(**changes: Any) -> dict[str, Any]:
    return tiny_bank(threads=[*tiny_bank()["threads"], {**tiny_thread("free"), "exchanges": [], **changes}])


def with_talk(user: str, assistant: str = "Yes.") -> dict[str, Any]:
    return with_thread(exchanges=[{"user": user, "assistant": assistant}])


def test_nothing_is_said_against_a_good_bank() -> None:
    assert faults(tiny_bank()) == []


# --- what would give an answer away


def test_a_name_must_not_be_part_of_another() -> None:
    (fault,) = faults(with_items("blitz games", "puzzle racing", "quiet nights", "Odd sidelines in Wales"))
    assert fault == (
        "slots.0.values.2.phrase: 'odd sidelines' is part of 'odd sidelines in wales', "
        "so one cannot be told from the other"
    )


def test_a_name_within_a_longer_word_is_another_word() -> None:
    assert faults(with_items("fun", "funfairs", "art", "party tricks")) == []


@pytest.mark.parametrize(
    ("bank", "where"),
    [
        (with_stances(likes=["loved blitz games as much as {item}"]), "stances.likes.0"),
        (with_talk("Our rook nights are long."), "threads.5.exchanges.0.user"),
        (with_talk("Long<, as rook nights are>."), "threads.5.exchanges.0.user"),
        (with_talk("Why?", "Because of puzzle racing."), "threads.5.exchanges.0.assistant"),
        (tiny_bank(idea_queries=["Something like blitz games?"]), "idea_queries.0"),
        (with_slot(again=["No more sharp gambits."]), "slots.0.again.0"),
        (with_slot(name="quiet systems or not"), "slots.0.name"),
        (with_tells(stock=["odd sidelines"]), "slots.0.tells.stock.0"),
        (with_value(recommend=["a manual of classic lines"]), "slots.0.values.0.recommend.0"),
        (with_fact(recalled="the day you tried blitz games"), "facts.0.facts.0.recalled"),
        (with_reason(told="rook nights had lost their charm"), "slots.0.reasons.calm.0.told"),
        (with_talk("My [rook|quiz] nights are long."), "threads.5.exchanges.0.user"),
        (with_talk("Those [long |]rook [nights|days]."), "threads.5.exchanges.0.user"),
    ],
)
def test_no_expansion_of_a_text_names_an_item_or_a_value(bank: dict[str, Any], where: str) -> None:
    found = faults(bank)
    assert any(fault.startswith(f"{where}: ") and " names " in fault for fault in found), found


# --- other words share none with options


@pytest.mark.parametrize(
    ("bank", "message"),
    [
        (with_words_of_an_item("quick game"), "items.0.paraphrases.0: 'quick game' has the words game… of 'blitz"),
        (with_words_of_an_item("drilled moves"), "has the words drill… of 'endgame drills'"),
        (with_value(signs=["systematic play"]), "slots.0.values.0.signs.0: 'systematic play' has the words syste…"),
        (with_value(paraphrases=["a sharper set-up"]), "'a sharper set-up' has the words sharp… of 'sharp gambits'"),
        (with_value(signs=["a slow rook"]), "'a slow rook' has the words slow… of 'a book on slow build-ups'"),
        (
            with_fact(retold="won from some bakery"),
            "facts.0.facts.0.retold: 'won from some bakery' has the words baker…",
        ),
        (with_fact(trace="kept the [baked|burnt] baker"), "has the words baker… of 'the day you beat a baker'"),
        (
            with_reason(retold="friends had said so"),
            "slots.0.reasons.calm.0.retold: 'friends had said so' has the words",
        ),
    ],
)
def test_other_words_share_no_content_word_with_what_options_say(bank: dict[str, Any], message: str) -> None:
    assert any(message in fault for fault in faults(bank)), faults(bank)


@pytest.mark.parametrize(
    "bank",
    [
        with_words_of_an_item("systems on a clock"),  # of a value, which no option names beside an item
        with_value(signs=["a game in the drill hall"]),  # of items, likewise
        with_value(paraphrases=["what somebody comes to set out with"]),  # everyday words
        with_fact(retold="beat someone in flour on that day"),  # what all facts of the kind share tells nothing
        with_fact(trace="kept what a sailor had handed over"),  # of another fact, which its own telling names as well
        with_reason(retold="thrift was in the air"),  # of another reason
    ],
)
def test_words_that_tell_nothing_may_be_shared(bank: dict[str, Any]) -> None:
    assert faults(bank) == []


# --- whose a thing is


@pytest.mark.parametrize(
    "bank",
    [
        with_fact(told="beat my baker"),
        with_fact(retold="took a point off a man and his flour"),
        with_reason(told="I had grown tired"),
        with_stances(likes=["thought {item} was just the thing for me"]),
        with_stances(turned_from=["gave up [her|the] {item}"]),
    ],
)
def test_what_must_do_for_all_persons_names_none(bank: dict[str, Any]) -> None:
    (fault,) = faults(bank)
    assert "must do for the user and for others" in fault


@pytest.mark.parametrize(
    ("frame", "told"),
    [
        ("{person} {theirs}, and I {mine}.", "between I and {mine}"),
        ("{person} has {theirs}, and I have {mine}.", "between has and have and the holes"),
        ("It is {theirs} for {person}, {mine} for me.", "between person and {mine}"),
        ("{person} had {theirs}, I had {mine}.", "between I and {theirs}"),
        ("{person} [has|takes] {theirs}, and I [have|take] {mine}.", "between take and takes and the holes"),
        ("It's {theirs} for {person}, and it's {mine} for me.", "write It's out before a hole"),
        ("It is {theirs} for {person}, and it's [now|just] {mine} for me.", "write it's out before a hole"),
    ],
)
def test_no_word_beside_a_hole_tells_whose_it_is(frame: str, told: str) -> None:
    assert any(told in fault for fault in faults(with_tells(pairs=[frame]))), faults(with_tells(pairs=[frame]))


@pytest.mark.parametrize(
    "frame",
    [
        "{person} had {theirs}, and I had {mine}.",
        "{person} has mostly {theirs}, and I have mostly {mine}.",
        "{person} went for {theirs}, and I for {mine}.",
        "It is {theirs} for {person} and {mine} for me.",
    ],
)
def test_frames_whose_holes_have_the_same_neighbours_are_good(frame: str) -> None:
    assert faults(with_tells(pairs=[frame])) == []


# --- entries


@pytest.mark.parametrize(
    ("bank", "message"),
    [
        (with_items("a", "b", "c", "A"), "items.3.phrase: 'a' stands twice among the items and values"),
        (with_items("a", "b", "c", "Quiet systems"), "'quiet systems' stands twice among the items and values"),
        (tiny_bank(slots=tiny_bank()["slots"] * 2), "slots.1.id: 'setup' stands twice among the ids"),
        (with_fact(recalled="the day you beat a JUDGE"), "'the day you beat a judge' stands twice among the facts"),
        (with_reason(told="a friend spoke of thrift about the start"), "stands twice among the reasons"),
        (with_value(recommend=["A list of strange replies"]), "stands twice among the recommendations"),
        (with_words_of_an_item("mates against a stopwatch"), "stands twice among the other words"),
        (with_value(signs=["a knight on the rim"]), "stands twice among the other words"),
        (tiny_bank(threads=[*tiny_bank()["threads"], tiny_thread("free")]), "stands twice among the messages"),
    ],
)
def test_nothing_stands_twice(bank: dict[str, Any], message: str) -> None:
    assert any(message in fault for fault in faults(bank)), faults(bank)


def test_a_thread_is_on_something_that_there_is() -> None:
    (fault,) = faults(tiny_bank(threads=[*tiny_bank()["threads"], tiny_thread("setups")]))
    assert fault == "threads.5.about: there is no 'setups'; it may be free, items, trials, setup, upset"


@pytest.mark.parametrize("on", ["setup", "upset", "items", "trials", "free"])
def test_every_life_has_a_thread_on_everything(on: str) -> None:
    threads = [{**thread, "needs": ["car"]} if thread["about"] == on else thread for thread in tiny_bank()["threads"]]
    assert faults(tiny_bank(threads=threads)) == [f"threads: there is no thread on {on!r} that fits every life"]


def test_every_life_has_a_reason_of_every_motive() -> None:
    assert faults(with_reason(needs=["job"])) == ["slots.0.reasons.calm: no reason fits every life"]


def test_whatever_moves_a_user_four_values_are_left() -> None:
    (fault,) = faults(with_value(against=["thrift"]))
    assert fault.startswith("slots.0.values: fewer than 4 values have none of ")
    assert "thrift" in fault
