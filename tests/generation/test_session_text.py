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

TOLD: list[dict[str, Any]] = [
    {
        "told_id": "ffff000011112222",
        "whose": "user",
        "person": "",
        "telling": "paraphrased",
        "kind": "item",
        "subject": "night trains",
        "subject_name": "night trains",
        "state": "like",
        "changed": True,
        "reason": "you slept well on one",
        "motive": "calm",
        "when": "in May",
        "avoid": ["night trains"],
    },
    {
        "told_id": "0000aaaabbbbcccc",
        "whose": "dropped",
        "person": "my cousin Ana",
        "telling": "named",
        "kind": "slot",
        "subject": "seat",
        "subject_name": "where you sit",
        "state": "by the aisle",
        "changed": False,
        "reason": "",
        "motive": "",
        "when": "in June",
        "avoid": [],
    },
]
FACTS: Mapping[str, Any] = {
    "name": "Ayse Arslan",
    "topic_label": "travel",
    "words": {"user": 90, "assistant": 140},
    "circle": ["my cousin Ana", "my aunt Bo"],
    "named": ["cable cars"],
    "offers": [{"subject_name": "where you sit", "names": ["By the aisle", "on the roof"]}],
    "told": TOLD,
}
TRAIN, SEAT = (one["told_id"] for one in TOLD)
REQUEST = Request("session", FACTS, ("session", 0, "travel", 0))
OFFER = "So by the aisle or on the roof."


def words(number: int, start: int) -> str:
    """So many words, none of which another text has."""
    return "And that is " + " ".join(f"so{start + i}" for i in range(number - 3))


def session(*lengths: tuple[int, int], told: tuple[str, ...] = (TRAIN, "", SEAT)) -> SessionReply:
    turns = [
        Turn(
            user=words(user, 1000 * i),
            assistant=words(assistant, 1000 * i + 500) if i else f"{words(assistant - 8, 500)} {OFFER}",
            told_ids=[told[i]] * bool(told[i]),
        )
        for i, (user, assistant) in enumerate(lengths or [(90, 140)] * 3)
    ]
    return SessionReply(turns=turns)


def longer(lengths: int = 90, numbers: tuple[int, ...] = (1, 2, 3)) -> dict[str, Any]:
    turns = zip(numbers, session(*[(lengths, 140)] * len(numbers), told=("",) * 9).turns, strict=True)
    return {"turns": [{"number": n, "user": turn.user, "assistant": turn.assistant} for n, turn in turns]}


def reading(
    train: int | None = 1, seat: int | None = 3, *other: str, whose: tuple[str | None, str | None] = ("user", "dropped")
) -> dict[str, Any]:
    told = [
        {"told_id": TRAIN, "message": train, "whose": whose[0]},
        {"told_id": SEAT, "message": seat, "whose": whose[1]},
    ]
    return {"told": told, "other_tastes": list(other)}


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
        (f"I took one ({TRAIN}).", f"turn 2: a message shows the id {TRAIN}"),
        (words(140, 500), "turn 2: the user's message repeats turn 1: the assistant's message"),
    ],
)
def test_each_fault_of_the_words_is_named(user: str, fault: str) -> None:
    reply = session()
    reply.turns[1].user = user
    assert wording_faults(reply, FACTS) == [fault]


def test_a_paraphrase_that_names_the_thing_is_a_fault() -> None:
    reply = session()
    reply.turns[0].user = "I often train at night with trains."
    assert wording_faults(reply, FACTS) == [
        f"turn 1: {TRAIN} is to be told without the words of 'night trains', but the user's message has train…"
    ]
    reply.turns[0].user, reply.turns[2].user = words(90, 0), "I sit by the aisle, where trains pass."
    assert wording_faults(reply, FACTS) == [], "what is told by its name is named, and other messages are free"


def test_what_the_assistant_does_not_name_side_by_side_is_a_fault() -> None:
    reply = session()
    reply.turns[0].assistant = reply.turns[0].assistant.replace(OFFER, "")
    for turn, end in zip(reply.turns, ("by the aisle", "on the roof", "by the aisles or on the roof"), strict=True):
        turn.assistant += f" So {end}."
    fault = "the assistant names in no reply side by side: By the aisle; on the roof"
    assert wording_faults(reply, FACTS) == [fault]
    reply.turns[1].assistant += " On the roof, by the aisle."
    assert wording_faults(reply, FACTS) == []


def test_what_is_too_long_is_a_fault_and_what_is_too_short_is_not() -> None:
    assert wording_faults(session((181, 140), (181, 140), (181, 140)), FACTS) == [
        "the user's messages have 181 words on average; about 90 are wanted"
    ]
    assert wording_faults(session((10, 10), (10, 10), (10, 10)), FACTS) == []


def test_a_session_without_turns_is_no_crash() -> None:
    assert wording_faults(SessionReply(turns=[]), {**FACTS, "offers": []}) == []


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
    assert [turn.told_ids for turn in reply.turns] == [turn.told_ids for turn in short.turns]
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


def test_the_reader_sees_the_users_messages_and_what_is_told_in_the_order_of_ids() -> None:
    prompt = render("coverage", coverage_request(REQUEST, session()).facts)
    for number, turn in enumerate(session().turns, start=1):
        assert f"Message {number}:\n{turn.user}\n" in prompt
        assert turn.assistant not in prompt
    assert re.findall(r"^- (\w+):$", prompt, re.MULTILINE) == [SEAT, TRAIN]
    for part in ("has come to like: night trains", "you slept well on one", "goes for by the aisle", "travel"):
        assert part in prompt


def test_the_reader_is_not_told_whose_anything_is() -> None:
    told = [{**TOLD[0], "whose": "other", "person": "A"}, {**TOLD[1], "whose": "past", "person": "B"}]
    other = REQUEST._replace(facts={**FACTS, "told": told})
    prompts = {render("coverage", coverage_request(request, session()).facts) for request in (REQUEST, other)}
    assert len(prompts) == 1
    assert "Ana" not in prompts.pop()


@pytest.mark.parametrize(
    ("found", "faults"),
    [
        (reading(), []),
        (reading(None), [f"turn 1: what the user says does not tell {TRAIN}, or not all of it"]),
        (reading(2), [f"{TRAIN} is told in turn 2, but stands in the told_ids of turn 1"]),
        (reading(3, 1), [f"{t} is told in turn {a}, but stands in the told_ids of turn {b}"
                         for t, a, b in ((TRAIN, 3, 1), (SEAT, 1, 3))]),
        (reading(whose=("other", "dropped")),
         [f"turn 1: {TRAIN} is the user's own; it was taken for somebody else's"]),
        (reading(whose=("user", "user")),
         [f"turn 3: {SEAT} is a plan of the user's that came to nothing; it was taken for the user's own"]),
        (reading(whose=(None, "past")),
         [f"turn 1: {TRAIN} is the user's own; it was taken for nobody’s in particular",
          f"turn 3: {SEAT} is a plan of the user's that came to nothing; it was taken for how it was with the user, "
          "and is no longer"]),
        (reading(1, 3, "loves buses (2)"), ["the user shows a taste that nothing told stands for: loves buses (2)"]),
    ],
)  # fmt: skip
def test_what_the_reader_does_not_find_or_finds_besides_is_a_fault(found: dict[str, Any], faults: list[str]) -> None:
    assert read_back(Client(FreeWriter(coverage=[found])), REQUEST, session()) == faults


@pytest.mark.parametrize(
    ("bad", "fault"),
    [
        ({**reading(), "told": reading()["told"][:1]}, f"{SEAT} must be among what is told once"),
        ({**reading(), "told": reading()["told"] * 2}, f"{TRAIN} must be among what is told once"),
        (
            {**reading(), "told": [*reading()["told"], {"told_id": "x", "message": 1, "whose": None}]},
            "there is no x to be told",
        ),
        (reading(0), f"{TRAIN}: there is no message 0"),
        (reading(4), f"{TRAIN}: there is no message 4"),
        (reading(whose=("nobody", "user")), "told.0.whose"),
    ],
)
def test_a_reading_that_cannot_be_is_sent_back_to_the_reader(bad: dict[str, Any], fault: str) -> None:
    reader = FreeWriter(coverage=[bad, reading()])
    assert read_back(Client(reader), REQUEST, session()) == []
    assert fault in reader.asked("coverage")[1]
    with pytest.raises(ReplyError, match="coverage for session 0 travel 0"):
        read_back(Client(FreeWriter(coverage=[bad])), REQUEST, session())
