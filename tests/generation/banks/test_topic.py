from __future__ import annotations

import copy
from typing import Any

import pytest
from pydantic import ValidationError
from small_banks import tiny_bank, tiny_items

from generation.banks.topic import TopicBank
from generation.records import MOTIVES


def fault(bank: dict[str, Any]) -> str:
    """Return what is said against a bank."""
    with pytest.raises(ValidationError) as caught:
        TopicBank.model_validate(bank)
    (error,) = caught.value.errors()
    return error["msg"]


def with_slot(**changes: Any) -> dict[str, Any]:
    bank = tiny_bank()
    return {**bank, "slots": [{**bank["slots"][0], **changes}]}


def with_items(*phrases: str) -> dict[str, Any]:
    return tiny_bank(items=tiny_items({phrase: f"zone {i}" for i, phrase in enumerate(phrases)}))


def with_words_of_an_item(*texts: str) -> dict[str, Any]:
    items = copy.deepcopy(tiny_bank()["items"])
    items[0]["paraphrases"] = list(texts)
    return tiny_bank(items=items)


def with_value(**changes: list[str]) -> dict[str, Any]:
    values = copy.deepcopy(tiny_bank()["slots"][0]["values"])
    values[0] |= changes
    return with_slot(values=values)


def with_recommendation(text: str) -> dict[str, Any]:
    return with_value(recommend=[text])


def with_fact(**changes: str) -> dict[str, Any]:
    kind = copy.deepcopy(tiny_bank()["facts"][0])
    kind["facts"][0] |= changes
    return tiny_bank(facts=[kind])


def with_reason(**changes: str) -> dict[str, Any]:
    reasons = copy.deepcopy(tiny_bank()["reasons"])
    reasons["calm"][0] |= changes
    return tiny_bank(reasons=reasons)


def test_a_small_bank_is_valid_and_names_its_items_and_values() -> None:
    bank = TopicBank.model_validate(tiny_bank())
    assert list(bank.names()) == [
        "blitz games",
        "endgame drills",
        "puzzle racing",
        "opening study",
        "club nights",
        "blindfold rounds",
        "quiet systems",
        "sharp gambits",
        "odd sidelines",
        "classic lines",
    ]


def test_every_template_is_listed_with_what_it_must_hold() -> None:
    templates = {where: (text, slots) for where, text, slots in TopicBank.model_validate(tiny_bank()).templates()}
    assert templates["frames"] == ("Somebody showed me {item} {when}.", {"item"})
    assert templates["slots.setup.update"] == ("I have gone over to {value}.", {"value"})
    assert templates["slots.setup.shown"] == ("In the hall they saw {sign}.", {"sign"})
    assert templates["talks"] == ("The king steps aside.", set())
    assert {f"reasons.{motive}" for motive in MOTIVES} <= set(templates)


@pytest.mark.parametrize("key", sorted(tiny_bank()))
def test_no_part_may_be_missing(key: str) -> None:
    bank = tiny_bank()
    del bank[key]
    with pytest.raises(ValidationError, match=rf"(?m)^{key}\n.*Field required"):
        TopicBank.model_validate(bank)


@pytest.mark.parametrize("key", sorted(set(tiny_bank()) - {"id", "label", "reasons"}))
def test_no_list_may_be_empty(key: str) -> None:
    with pytest.raises(ValidationError, match="at least"):
        TopicBank.model_validate(tiny_bank(**{key: []}))


@pytest.mark.parametrize("name", ["", "two words", "9lives", "a/b", "..", "Ünder"])
def test_an_id_can_stand_in_records_and_file_names(name: str) -> None:
    assert "match pattern" in fault(tiny_bank(id=name))


# --- duplicates


@pytest.mark.parametrize(
    ("bank", "message"),
    [
        (with_items("a", "b", "c", "A"), "items and values: 'a' occurs 2 times"),
        (with_items("a", "b", "c", "Quiet systems"), "items and values: 'quiet systems' occurs 2 times"),
        (tiny_bank(likes=["Good.", "Good."]), "likes: 'Good.' occurs 2 times"),
        (tiny_bank(dislikes=["Bad."] * 3), "dislikes: 'Bad.' occurs 3 times"),
        (tiny_bank(colour=["Tick.", "Tick."]), "colour: 'Tick.' occurs 2 times"),
        (tiny_bank(frames=["{item}.", "{item}."]), "frames: '{item}.' occurs 2 times"),
        (tiny_bank(slots=tiny_bank()["slots"] * 2), "slots: 'setup' occurs 2 times"),
        (tiny_bank(facts=tiny_bank()["facts"] * 2), "facts: 'upset' occurs 2 times"),
        (with_fact(recalled="the day you beat a JUDGE"), "facts' recalled: 'the day you beat a judge' occurs 2 times"),
        (with_reason(recalled="your friend spoke of thrift"), "reasons: 'your friend spoke of thrift' occurs 2 times"),
        (
            with_recommendation("A list of strange replies"),
            "recommendations: 'a list of strange replies' occurs 2 times",
        ),
        (with_words_of_an_item("a bout", "A bout"), "other words: 'a bout' occurs 2 times"),
        (with_words_of_an_item("mates against a stopwatch"), "other words: 'mates against a stopwatch' occurs 2 times"),
        (with_value(signs=["a knight on the rim"]), "other words: 'a knight on the rim' occurs 2 times"),
        (tiny_bank(talks=tiny_bank()["talks"] * 2), "asks of talks: 'How does castling work?' occurs 2 times"),
    ],
)
def test_nothing_may_stand_twice(bank: dict[str, Any], message: str) -> None:
    assert message in fault(bank)


# --- reasons


def test_a_motive_without_reasons_is_named() -> None:
    reasons = tiny_bank()["reasons"]
    del reasons["thrift"]
    assert "every motive needs equally many reasons" in fault(tiny_bank(reasons=reasons))
    assert "'thrift': 0" in fault(tiny_bank(reasons=reasons))


def test_all_motives_need_equally_many_reasons() -> None:
    reasons = tiny_bank()["reasons"]
    reasons["calm"] = [
        *reasons["calm"],
        {"told": "it was late", "retold": "the sun had set", "recalled": "it was late"},
    ]
    assert "'calm': 2, 'thrift': 1" in fault(tiny_bank(reasons=reasons))


def test_a_motive_must_be_known() -> None:
    with pytest.raises(ValidationError, match="glory"):
        TopicBank.model_validate(tiny_bank(reasons={**tiny_bank()["reasons"], "glory": []}))


# --- templates


@pytest.mark.parametrize(
    ("bank", "message"),
    [
        (tiny_bank(frames=["I came {when}."]), "frames: 'I came {when}.' must have {item}"),
        (tiny_bank(frames=["{item} {value}"]), "frames: '{item} {value}' must have {item}"),
        (tiny_bank(likes=["I loved {item}."]), "likes: 'I loved {item}.' must have no slot"),
        (tiny_bank(likes=["I [loved."]), "likes: a [ is never closed in 'I [loved.'"),
        (tiny_bank(colour=["Tick | tock."]), "colour: a | outside [ ]"),
        (with_slot(first=["I set out."]), "slots.setup.first: 'I set out.' must have {value}"),
        (with_slot(recall=["[{item}|{value}]"]), "slots.setup.recall: '[{item}|{value}]' must have {value}"),
        (with_slot(shown=["They saw {value}."]), "slots.setup.shown: 'They saw {value}.' must have {sign}"),
        (with_fact(retold="{when} he lost."), "facts.upset: '{when} he lost.' must have no slot"),
        (with_fact(trace="[A cup."), "facts.upset: a [ is never closed"),
        (with_reason(retold="{item}"), "reasons.calm: '{item}' must have no slot"),
        (with_slot(queries=["About {value}."]), "slots.setup.queries: 'About {value}.' must have no slot"),
        (with_fact(told="I won {when}."), "facts.upset: 'I won {when}.' must have no slot"),
        (with_reason(told="my } friend"), "reasons.calm: a } that is no slot"),
    ],
)
def test_templates_have_the_slots_of_their_place(bank: dict[str, Any], message: str) -> None:
    assert message in fault(bank)


def test_a_frame_may_leave_out_when_it_was() -> None:
    assert TopicBank.model_validate(tiny_bank(frames=["I came to {item}."])).frames


@pytest.mark.parametrize(
    ("bank", "message"),
    [
        (with_items("a", "b", "c", "[d|e]"), "items: '[d|e]' goes into options and must be plain text"),
        (with_recommendation("a {thing}"), "slots.setup: 'a {thing}' goes into options"),
        (with_words_of_an_item("a [hasty|fast] bout"), "items: 'a [hasty|fast] bout' goes into options"),
        (with_value(paraphrases=["{it}"]), "slots.setup: '{it}' goes into options"),
        (with_value(signs=["a|b"]), "slots.setup: 'a|b' goes into options"),
        (with_fact(recalled="the [day|night]"), "facts.upset: 'the [day|night]' goes into options"),
        (with_reason(recalled="a | b"), "reasons.calm: 'a | b' goes into options"),
    ],
)
def test_what_stands_in_options_is_plain_text(bank: dict[str, Any], message: str) -> None:
    assert message in fault(bank)


@pytest.mark.parametrize("bank", [with_slot(name="the [way|style]"), tiny_bank(label="[chess|draughts]")])
def test_names_of_slots_and_labels_are_plain_text_as_well(bank: dict[str, Any]) -> None:
    assert "must be plain text" in fault(bank)


# --- what would give an answer away


def test_a_name_must_not_be_part_of_another() -> None:
    bank = with_items("blitz games", "puzzle racing", "quiet nights", "Odd sidelines in Wales")
    assert (
        fault(bank) == "Value error, names: 'odd sidelines' is part of 'odd sidelines in wales', "
        "so one cannot be told from the other"
    )


def test_a_name_within_a_longer_word_is_another_word() -> None:
    assert TopicBank.model_validate(with_items("chess", "chessboxing", "art", "party tricks"))


@pytest.mark.parametrize(
    ("bank", "where"),
    [
        (tiny_bank(likes=["I love Blitz games."]), "likes"),
        (tiny_bank(colour=["Our club nights are long."]), "colour"),
        (tiny_bank(followups=["Shall we turn to quiet systems?"]), "followups"),
        (tiny_bank(talks=[{"ask": "Why?", "answer": "Because of puzzle racing."}]), "talks"),
        (tiny_bank(idea_queries=["Something like blitz games?"]), "idea_queries"),
        (with_slot(again=["No more sharp gambits."]), "slots.setup.again"),
        (with_slot(name="quiet systems or not"), "slots.setup.name"),
        (with_recommendation("a book on quiet systems"), "slots.setup.recommend"),
        (with_fact(recalled="the day you tried blitz games"), "facts"),
        (with_reason(recalled="your friend gave up club nights"), "reasons"),
        (with_reason(told="my friend gave up club nights"), "reasons.calm"),
        (with_reason(retold="a neighbour praised puzzle racing"), "reasons.calm"),
        (with_fact(retold="After blindfold rounds he lost to me."), "facts.upset"),
        (with_fact(trace="A prize for club nights is mine."), "facts.upset"),
        (with_words_of_an_item("a kind of quiet systems"), "items"),
        (with_value(paraphrases=["something like blitz games"]), "slots.setup"),
        (with_value(signs=["a sheet from club nights"]), "slots.setup"),
    ],
)
def test_no_text_names_an_item_or_a_value(bank: dict[str, Any], where: str) -> None:
    message = fault(bank)
    assert message.startswith(f"Value error, {where}: ")
    assert " names " in message


@pytest.mark.parametrize("text", ["My [club|quiz] nights are long.", "Those [long |]club [nights|days]."])
def test_no_expansion_of_a_text_names_an_item_or_a_value(text: str) -> None:
    assert "names 'club nights'" in fault(tiny_bank(colour=[text]))


# --- other words share none with options


@pytest.mark.parametrize(
    ("bank", "message"),
    [
        (with_words_of_an_item("quick game"), "items: 'quick game' has the words game… of 'blitz games'"),
        (with_words_of_an_item("drilled moves"), "has the words drill… of 'endgame drills'"),
        (with_value(paraphrases=["silent moves"], signs=["systematic play"]), "slots.setup: 'systematic play' has the"),
        (with_value(paraphrases=["a sharper set-up"]), "'a sharper set-up' has the words sharp… of 'sharp gambits'"),
        (with_value(signs=["a slow rook"]), "'a slow rook' has the words slow… of 'a book on slow build-ups'"),
        (with_value(paraphrases=["what books teach"]), "has the words book… of 'a book on slow build-ups'"),
        (with_fact(retold="Some bakery lost to me."), "facts.upset: 'Some bakery lost to me.' has the words baker…"),
        (with_fact(trace="The [baked|burnt] baker."), "has the words baker… of 'the day you beat a baker'"),
        (with_reason(retold="friends told me to"), "reasons.calm: 'friends told me to' has the words frien…"),
    ],
)
def test_other_words_share_no_content_word_with_what_options_say(bank: dict[str, Any], message: str) -> None:
    assert message in fault(bank)


@pytest.mark.parametrize(
    "bank",
    [
        with_words_of_an_item("systems on a clock"),  # of a value, which no option names beside an item
        with_value(signs=["a game in the drill hall"]),  # of items, likewise
        with_value(paraphrases=["how I come to set out"]),  # everyday words
        with_fact(retold="I beat someone in flour on that day."),  # what all facts of the kind share tells nothing
        with_fact(trace="A sailor stood by with my prize."),  # of another fact, which its own telling names as well
        with_reason(retold="thrift was in the air"),  # of another reason
    ],
)
def test_words_that_tell_nothing_may_be_shared(bank: dict[str, Any]) -> None:
    assert TopicBank.model_validate(bank)


def test_no_list_of_other_words_may_be_empty() -> None:
    for bank in (with_words_of_an_item(), with_value(paraphrases=[]), with_value(signs=[]), with_slot(shown=[])):
        with pytest.raises(ValidationError, match="at least 1 item"):
            TopicBank.model_validate(bank)


def test_all_faults_are_named_at_once_and_very_many_are_counted() -> None:
    message = fault(tiny_bank(likes=["{a}", "{b}", "{b}"], colour=["blitz games"]))
    assert all(part in message for part in ("likes: '{b}' occurs", "likes: '{a}' must", "colour: 'blitz games' names"))
    assert fault(tiny_bank(colour=[f"{{a}} {i}" for i in range(50)])).endswith("; and 30 more")
