"""What a language model writes as a session is looked at, lengthened where it is short, and read back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
from small_banks import FreeWriter

from generation.llm.client import Client, ReplyError, Request
from generation.prompts import render
from generation.session_text import (
    SessionReply,
    Turn,
    coverage_request,
    expand_request,
    lengthened,
    read_back,
    wording_faults,
)

EVENTS = [
    {"kind": "item", "subject": "night trains", "subject_name": "night trains", "state": "like", "changed": True},
    {"kind": "slot", "subject": "seat", "subject_name": "where you sit", "state": "by the aisle", "changed": False},
]
FACTS: Mapping[str, Any] = {
    "name": "Ayse Arslan",
    "topic_label": "travel",
    "words": {"user": 90, "assistant": 140},
    "never": ["cable cars"],
    "events": [
        {"event_id": event_id, "reason": "you slept well on one" if event["changed"] else "", "motive": "", **event}
        for event_id, event in zip(("ffff000011112222", "0000aaaabbbbcccc"), EVENTS, strict=True)
    ],
}
TRAIN, SEAT = (event["event_id"] for event in FACTS["events"])
REQUEST = Request("session", FACTS, ("session", 0, "travel", 0))


def words(number: int, start: int) -> str:
    """So many words, none of which another text has."""
    return "And that is " + " ".join(f"so{start + i}" for i in range(number - 3))


def session(*lengths: tuple[int, int], told: tuple[str, ...] = (TRAIN, "", SEAT)) -> SessionReply:
    turns = [
        Turn(
            user=words(user, 1000 * i), assistant=words(assistant, 1000 * i + 500), event_ids=[told[i]] * bool(told[i])
        )
        for i, (user, assistant) in enumerate(lengths or [(90, 140)] * 3)
    ]
    return SessionReply(turns=turns)


def longer(lengths: int = 90, numbers: tuple[int, ...] = (1, 2, 3)) -> dict[str, Any]:
    turns = zip(numbers, session(*[(lengths, 140)] * len(numbers), told=("",) * 9).turns, strict=True)
    return {"turns": [{"number": n, "user": turn.user, "assistant": turn.assistant} for n, turn in turns]}


def reading(train: int | None = 1, seat: int | None = 3, *other: str) -> dict[str, Any]:
    events = [{"event_id": TRAIN, "message": train}, {"event_id": SEAT, "message": seat}]
    return {"events": events, "other_tastes": list(other)}


@pytest.fixture(autouse=True)
def _readable_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """The made-up words of these tests pass for English."""
    monkeypatch.setattr("generation.text_checks.is_english", lambda text: True)


# --- words


def test_a_session_of_the_wanted_length_has_no_faults() -> None:
    assert wording_faults(session(), FACTS) == []


@pytest.mark.parametrize(
    ("user", "fault"),
    [
        ("Ayse: hello", "turn 2: the user's message has a speaker label (Ayse:)"),
        (f"I took one ({TRAIN}).", f"turn 2: a message shows the id of event {TRAIN}"),
        (words(140, 500), "turn 2: the user's message repeats turn 1: the assistant's message"),
    ],
)
def test_each_fault_of_the_words_is_named(user: str, fault: str) -> None:
    reply = session()
    reply.turns[1].user = user
    assert wording_faults(reply, FACTS) == [fault]


def test_what_is_too_long_is_a_fault_and_what_is_too_short_is_not() -> None:
    assert wording_faults(session((181, 140), (181, 140), (181, 140)), FACTS) == [
        "the user's messages have 181 words on average; about 90 are wanted"
    ]
    assert wording_faults(session((10, 10), (10, 10), (10, 10)), FACTS) == []


def test_a_session_without_turns_is_no_crash() -> None:
    assert wording_faults(SessionReply(turns=[]), FACTS) == []


# --- longer words


def no_faults(reply: SessionReply) -> list[str]:
    return []


def test_a_session_that_is_long_enough_is_not_asked_for_again() -> None:
    assert lengthened(Client(FreeWriter()), REQUEST, session(), no_faults) == session()


@pytest.mark.parametrize("lengths", [(44, 140), (90, 69)])
def test_a_short_session_is_lengthened_by_number_and_tells_what_it_told(lengths: tuple[int, int]) -> None:
    writer = FreeWriter(expand=[longer()])
    short = session(*[lengths] * 3)
    reply = lengthened(Client(writer), REQUEST, short, no_faults)
    assert [turn.user for turn in reply.turns] == [turn["user"] for turn in longer()["turns"]]
    assert [turn.event_ids for turn in reply.turns] == [turn.event_ids for turn in short.turns]
    [prompt] = writer.asked("expand")
    for turn in short.turns:
        assert turn.user in prompt
        assert turn.assistant in prompt
    assert "cable cars" in prompt
    assert "about 90 words" in prompt
    assert TRAIN not in prompt


@pytest.mark.parametrize(
    ("bad", "fault"),
    [
        (longer(numbers=(1, 2)), "the turns must be those from 1 to 3, in order"),
        (longer(numbers=(1, 3, 2)), "the turns must be those from 1 to 3, in order"),
        (longer(44), "the user's messages have 44 words on average; about 90 are wanted"),
        (longer(60), "turn 1 has 60 words"),
    ],
)
def test_what_comes_back_is_checked_like_a_session_and_must_be_long_enough(bad: dict[str, Any], fault: str) -> None:
    def check(reply: SessionReply) -> list[str]:
        return ["turn 1 has 60 words"] if len(reply.turns[0].user.split()) == 60 else []

    writer = FreeWriter(expand=[bad, longer()])
    lengthened(Client(writer), REQUEST, session(*[(20, 140)] * 3), check)
    assert fault in writer.asked("expand")[1]
    with pytest.raises(ReplyError, match="expand for session 0 travel 0: "):
        lengthened(Client(FreeWriter(expand=[bad])), REQUEST, session(*[(20, 140)] * 3), check)


def test_a_request_to_lengthen_has_the_turns_in_order() -> None:
    turns = expand_request(REQUEST, session()).facts["turns"]
    assert [turn["number"] for turn in turns] == [1, 2, 3]
    assert [turn["assistant"] for turn in turns] == [turn.assistant for turn in session().turns]


# --- reading back


def test_the_reader_does_not_see_which_message_claims_what() -> None:
    prompts = {
        render("coverage", coverage_request(REQUEST, session(told=told)).facts)
        for told in ((TRAIN, "", SEAT), (SEAT, TRAIN, ""), ("", TRAIN, SEAT))
    }
    assert len(prompts) == 1


def test_the_reader_sees_the_users_messages_and_the_events_in_the_order_of_their_ids() -> None:
    prompt = render("coverage", coverage_request(REQUEST, session()).facts)
    for number, turn in enumerate(session().turns, start=1):
        assert f"Message {number}:\n{turn.user}\n" in prompt
        assert turn.assistant not in prompt
    assert re.findall(r"- event (\w+):", prompt) == [SEAT, TRAIN]
    for part in ("has come to like night trains", "you slept well on one", "goes for by the aisle", "travel"):
        assert part in prompt


@pytest.mark.parametrize(
    ("found", "faults"),
    [
        (reading(), []),
        (reading(None), [f"turn 1: what the user says does not tell event {TRAIN}, or not all of it"]),
        (reading(2), [f"event {TRAIN} is told in turn 2, but stands in the event_ids of turn 1"]),
        (reading(3, 1), [f"event {t} is told in turn {a}, but stands in the event_ids of turn {b}"
                         for t, a, b in ((TRAIN, 3, 1), (SEAT, 1, 3))]),
        (reading(1, 3, "loves buses (2)"), ["the user shows a taste that no event stands for: loves buses (2)"]),
    ],
)  # fmt: skip
def test_what_the_reader_does_not_find_or_finds_besides_is_a_fault(found: dict[str, Any], faults: list[str]) -> None:
    assert read_back(Client(FreeWriter(coverage=[found])), REQUEST, session()) == faults


@pytest.mark.parametrize(
    ("bad", "fault"),
    [
        ({**reading(), "events": reading()["events"][:1]}, f"event {SEAT} must be among the events once"),
        ({**reading(), "events": reading()["events"] * 2}, f"event {TRAIN} must be among the events once"),
        ({**reading(), "events": [*reading()["events"], {"event_id": "x", "message": 1}]}, "there is no event x"),
        (reading(0), f"event {TRAIN}: there is no message 0"),
        (reading(4), f"event {TRAIN}: there is no message 4"),
    ],
)
def test_a_reading_that_cannot_be_is_sent_back_to_the_reader(bad: dict[str, Any], fault: str) -> None:
    reader = FreeWriter(coverage=[bad, reading()])
    assert read_back(Client(reader), REQUEST, session()) == []
    assert fault in reader.asked("coverage")[1]
    with pytest.raises(ReplyError, match="coverage for session 0 travel 0"):
        read_back(Client(FreeWriter(coverage=[bad])), REQUEST, session())
