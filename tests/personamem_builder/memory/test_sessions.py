"""Cutting a context into the sessions that a system is shown."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personamem_builder.memory.sessions import cut_sessions, cut_turns, spoken
from personamem_builder.memory.system import Session


def places(context: dict[str, Any], ends: list[int]) -> list[tuple[int, int, int]]:
    """Return number, first message and length of each session."""
    return [(s.number, s.first_index, len(s.messages)) for s in cut_sessions(context, ends)]


def test_sessions_are_whole_where_questions_stand_between_them(context: dict[str, Any]) -> None:
    assert places(context, [3, 7]) == [(0, 0, 3), (1, 3, 2), (2, 5, 2)]


def test_a_session_in_which_a_question_stands_comes_in_pieces(context: dict[str, Any]) -> None:
    assert places(context, [4, 7]) == [(0, 0, 3), (1, 3, 1), (1, 4, 1), (2, 5, 2)]


def test_what_comes_after_the_last_question_is_never_shown(context: dict[str, Any]) -> None:
    assert places(context, [4]) == [(0, 0, 3), (1, 3, 1)]
    assert places(context, [0]) == places(context, []) == []


def test_sessions_have_their_date_and_messages_of_their_own(context: dict[str, Any]) -> None:
    sessions = cut_sessions(context, [7])
    assert [session.date for session in sessions] == ["2020-01-01", "", "2020-03-01"]
    sessions[0].messages[1]["content"] = "changed"
    assert context["messages"][1]["content"] == "text 1"


def test_a_release_without_dates_has_none(context: dict[str, Any]) -> None:
    del context["session_dates"]
    assert {session.date for session in cut_sessions(context, [7])} == {""}


@given(starts=st.lists(st.integers(0, 20), max_size=6), ends=st.lists(st.integers(0, 25), max_size=6), size=st.just(20))
def test_the_pieces_are_all_that_is_asked_about_once_and_in_order(
    starts: list[int], ends: list[int], size: int
) -> None:
    messages = [{"role": "user", "content": str(i)} for i in range(size)]
    context = {"messages": messages, "session_starts": [s for s in starts if s < size]}
    sessions = cut_sessions(context, ends)
    assert [m for s in sessions for m in s.messages] == messages[: min(size, max(ends, default=0))]
    stops = {s.first_index + len(s.messages) for s in sessions}
    assert {min(end, size) for end in ends} - {0} <= stops
    assert all(s.messages for s in sessions)


@pytest.mark.parametrize(
    ("roles", "turns"),
    [
        ("sua ua", ["ua", "ua"]),
        ("uu a ua", ["uua", "ua"]),
        ("u aa u", ["uaa", "u"]),
        ("a ua", ["a", "ua"]),
        ("us a", ["ua"]),
        ("s", []),
        ("", []),
    ],
)
def test_a_turn_is_what_the_user_says_and_what_is_replied(roles: str, turns: list[str]) -> None:
    names = {"s": "system", "u": "user", "a": "assistant"}
    messages = [{"role": names[role], "content": str(i)} for i, role in enumerate(roles.replace(" ", ""))]
    cut = cut_turns(Session(0, "", tuple(messages), 0))
    assert ["".join(message["role"][0] for message in turn) for turn in cut] == turns
    assert [message for turn in cut for message in turn] == [m for m in messages if m["role"] != "system"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [("Hello.", "User: Hello."), ("User: Hello.", "User: Hello."), ("Patient: Oh.", "Patient: Oh.")],
)
def test_a_message_names_its_speaker_once(content: str, expected: str) -> None:
    assert spoken({"role": "user", "content": content}) == expected
