"""The form of a topic bank: what its parts must hold."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from small_banks import tiny_bank, tiny_reasons, tiny_thread

from generation.banks.topic import TopicBank
from generation.records import MOTIVES


def fault(bank: dict[str, Any]) -> str:
    """Return the one thing that is said against a bank, with its place."""
    with pytest.raises(ValidationError) as caught:
        TopicBank.model_validate(bank)
    (error,) = caught.value.errors()
    return f"{'.'.join(map(str, error['loc']))}: {error['msg']}"


def with_slot(**changes: Any) -> dict[str, Any]:
    bank = tiny_bank()
    return {**bank, "slots": [{**bank["slots"][0], **changes}]}


def with_tells(**changes: Any) -> dict[str, Any]:
    return with_slot(tells={**tiny_bank()["slots"][0]["tells"], **changes})


def with_stances(**changes: Any) -> dict[str, Any]:
    return tiny_bank(stances={**tiny_bank()["stances"], **changes})


def with_thread(**changes: Any) -> dict[str, Any]:
    return tiny_bank(threads=[{**tiny_thread("setup"), **changes}])


def with_messages(*texts: str, about: str = "setup") -> dict[str, Any]:
    return with_thread(about=about, exchanges=[{"user": text, "assistant": "Yes."} for text in texts])


def test_a_small_bank_is_valid_and_names_its_items_and_values() -> None:
    bank = TopicBank.model_validate(tiny_bank())
    assert list(bank.names()) == [
        "blitz games",
        "endgame drills",
        "puzzle racing",
        "opening study",
        "rook nights",
        "blindfold rounds",
        "quiet systems",
        "sharp gambits",
        "odd sidelines",
        "classic lines",
    ]


def test_reasons_are_found_by_their_words_wherever_they_stand() -> None:
    bank = TopicBank.model_validate(tiny_bank())
    assert len([*bank.all_reasons()]) == 3 * len(MOTIVES)
    for motive, reason in bank.all_reasons():
        assert motive in reason.told
        assert bank.reason(reason.told) is reason


def test_threads_fit_a_life() -> None:
    threads = [
        {**tiny_thread("free"), "needs": ["garden"]},
        {**tiny_thread("free"), "without": ["job"]},
        tiny_thread("items"),
    ]
    bank = TopicBank.model_validate(tiny_bank(threads=threads))
    fitting = {
        life: [bool(thread.needs) for thread in bank.threads_on("free", frozenset(life))]
        for life in [(), ("garden",), ("job",), ("garden", "job")]
    }
    assert fitting == {(): [False], ("garden",): [True, False], ("job",): [], ("garden", "job"): [True]}


@pytest.mark.parametrize("key", sorted(tiny_bank()))
def test_no_part_may_be_missing(key: str) -> None:
    bank = tiny_bank()
    del bank[key]
    assert fault(bank) == f"{key}: Field required"


@pytest.mark.parametrize("key", ["items", "item_queries", "idea_queries", "slots", "facts", "threads"])
def test_no_list_may_be_empty(key: str) -> None:
    assert fault(tiny_bank(**{key: []})).startswith(f"{key}: List should have at least")


@pytest.mark.parametrize("name", ["", "two words", "9lives", "a/b", "..", "Ünder"])
def test_an_id_can_stand_in_records_and_file_names(name: str) -> None:
    assert fault(tiny_bank(id=name)).startswith("id: ")


# --- reasons


def test_a_motive_without_reasons_is_named() -> None:
    reasons = tiny_reasons("here")
    del reasons["thrift"]
    message = fault(with_slot(reasons=reasons))
    assert message.startswith("slots.0.reasons: ")
    assert "every motive needs equally many reasons" in message
    assert "'thrift': 0" in message


def test_all_motives_need_equally_many_reasons() -> None:
    reasons = tiny_reasons("here")
    reasons["calm"] = [*reasons["calm"], {"told": "it was late", "retold": "the sun had set"}]
    both = {"toward": reasons, "away": tiny_reasons("there")}
    assert "item_reasons.toward: " in fault(tiny_bank(item_reasons=both))
    assert "'calm': 2, 'thrift': 1" in fault(tiny_bank(item_reasons=both))


def test_what_a_life_needs_is_known_and_not_excluded_as_well() -> None:
    assert "threads.0.needs" in fault(with_thread(needs=["spaceship"]))
    assert "garden is needed and excluded" in fault(with_thread(needs=["garden"], without=["garden"]))


# --- templates


@pytest.mark.parametrize(
    ("bank", "message"),
    [
        (with_stances(likes=["took to it"]), "stances.likes.0: Value error, 'took to it' must have {item}"),
        (with_stances(stock=["did {item}"]), "stances.stock.0: Value error, 'did {item}' must have no slot"),
        (with_stances(likes=["took [to {item}"]), "a [ is never closed"),
        (
            with_tells(pairs=["{person} has {mine}."]),
            "'{person} has {mine}.' must have {mine}, {person}, {theirs}",
        ),
        (
            with_tells(threes=["{mine}, {theirs} {person}."]),
            "must have {also}, {mine}, {other}, {person}, {theirs}",
        ),
        (with_tells(past=["{person}: {mine}, {theirs}"]), "must have {mine}, {theirs}"),
        (with_tells(pairs=["[{mine}|{mine} too] {theirs} {person}"]), "each hole must stand once, outside brackets"),
        (with_tells(pairs=["{mine} and {mine} and {theirs} for {person}"]), "each hole must stand once"),
        (with_slot(recall=["[{item}|{value}]"]), "slots.0.recall.0: "),
        (with_slot(queries=["About {value}."]), "must have no slot"),
        (with_slot(queries=["Tick | tock."]), "a | outside [ ]"),
        (with_messages("Why? {when}", about="free"), "must have no slot"),
    ],
)
def test_templates_have_the_slots_of_their_place(bank: dict[str, Any], message: str) -> None:
    assert message in fault(bank)


@pytest.mark.parametrize(
    "bank",
    [
        with_slot(name="the [way|style]"),
        tiny_bank(label="[chess|draughts]"),
        with_thread(label="the {thing}"),
        with_slot(values=[{**v, "recommend": ["a {thing}"]} for v in tiny_bank()["slots"][0]["values"][:1]] * 4),
    ],
)
def test_what_stands_in_options_or_in_other_sentences_is_plain_text(bank: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="must be plain text"):
        TopicBank.model_validate(bank)


# --- threads


@pytest.mark.parametrize(
    ("bank", "message"),
    [
        (with_messages("{told} How?", "And then?"), "the first 2 messages must have {told}"),
        (with_messages("{told} {told} How?"), "a message has {told} once at most"),
        (with_messages("{told} How?", about="free"), "a free thread has no {told}"),
        (with_messages("<{told} How?>"), "is empty without its details"),
        (with_messages("{told} <[How|Why>?]"), "a ] outside [ ]"),
    ],
)
def test_places_for_what_is_told(bank: dict[str, Any], message: str) -> None:
    assert message in fault(bank)


def test_a_third_message_may_tell_nothing() -> None:
    bank = TopicBank.model_validate(with_messages("{told} How?", "{told} And?", "And then?"))
    assert [exchange.tells for exchange in bank.threads[0].exchanges] == [True, True, False]
