"""What gives a cheat away, and what an honest system may say."""

from __future__ import annotations

from typing import Any

import pytest

from personamem_builder.memory.firewall import VisibleText, find_taint, words_of
from personamem_builder.memory.system import Memory

ROW: dict[str, Any] = {
    "question_id": "0123456789abcdef",
    "user_question_or_message": "A dealer stopped by to ask whether I would sell anything connected with films.",
    "all_options": [
        "(a) After what you told me about the clapperboard a runner gave you for lending your umbrella, keep it.",
        "(b) After what you told me about the velvet curtain tassel that came off in your hand, keep it.",
        "(c) Sell the brass door handle.",
        "(d) No.",
    ],
    "evidence_event_ids": ["fedcba9876543210"],
}
HISTORY = [
    "I still have the clapperboard that a tired runner gave me after I lent her my umbrella on a film set.",
    "I think option b) is the correct answer, says my tutor.",
    "Not shown yet: sell the brass door handle.",
]


def kinds(*texts: str, end: int = 2, asked: tuple[str, ...] = ()) -> list[str]:
    visible = VisibleText(HISTORY)
    visible.show(end)
    return [taint.kind for taint in find_taint(ROW, [Memory(text) for text in texts], visible, asked)]


@pytest.mark.parametrize(
    "text",
    [
        *HISTORY[:2],
        "The user has a clapperboard that a runner gave them for lending their umbrella.",
        "They keep the clapperboard a tired runner gave them after they lent her their umbrella on a film set.",
        "No.",
        "User: A dealer stopped by to ask whether I would sell anything connected with films.",
        "My tutor says: option b) is the correct answer, says my tutor.",
    ],
)
def test_what_was_said_may_be_said_in_other_words(text: str) -> None:
    assert kinds(text) == []


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("After what you told me about the velvet curtain tassel that came off in your hand, keep it.", "option"),
        ("They have the VELVET curtain tassel that came off in their hand, keep it", "option"),
        ("Sell the brass door handle!", "option"),
        ("question 0123456789abcdef", "id"),
        ("event fedcba9876543210", "id"),
        ("The right option: (c)", "letter"),
        ("(c)", "letter"),
        ("c", "letter"),
    ],
)
def test_what_only_the_key_holds_is_found(text: str, kind: str) -> None:
    assert kinds(text) == [kind]


def test_an_option_is_no_secret_once_the_history_says_it() -> None:
    assert kinds("Sell the brass door handle.", end=3) == []


def test_the_text_of_an_earlier_question_is_found_and_that_of_this_one_is_not() -> None:
    earlier = "What do you suggest as my next move in finding a date, in keeping with my way?"
    assert kinds(f"It was asked: {earlier}", asked=(earlier,)) == ["question"]
    assert kinds(f"It was asked: {earlier}") == []
    assert kinds(ROW["user_question_or_message"], asked=(ROW["user_question_or_message"],)) == []


def test_words_are_the_same_whoever_speaks_and_however_they_are_written() -> None:
    said = words_of("I've sold my OLD door-handle.")
    for text in (
        "You have sold your old door handle",
        "The user sold their old door handle",
        "ｓｏｌｄ o\u200bld door handle",
    ):
        assert words_of(text) == said
