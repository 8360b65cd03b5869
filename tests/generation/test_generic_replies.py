from __future__ import annotations

import pytest

from generation.generic_replies import GenericReply, generic_faults, generic_wording_faults

KEPT = ["You once told me about the red bicycle, so let us begin there.", "You once told me about the old piano there."]
PLAIN = "A short list is often a good start, and the rest will follow."


def test_a_reply_as_long_as_the_others_that_knows_nothing_has_no_faults() -> None:
    reply = GenericReply(replies=["It is often good to make a short plan first and then begin."])
    kept = [KEPT[0]]
    assert generic_faults(reply, kept, 1, 1.1) == []
    assert generic_wording_faults(reply, ["the red bicycle"]) == []


def test_the_number_of_replies_is_that_of_the_places() -> None:
    reply = GenericReply(replies=[PLAIN, f"{PLAIN} So."])
    assert generic_faults(reply, KEPT, 1, 1.1) == ["there are 2 replies; 1 are wanted"]


def test_no_option_is_there_twice() -> None:
    assert generic_faults(GenericReply(replies=[KEPT[0].upper()]), KEPT, 1, 2.0) == ["two replies are the same"]


def test_a_reply_that_is_too_short_or_too_long_is_told_what_the_others_need() -> None:
    kept = ["one two three four five six seven eight nine ten", "two three four five six seven eight nine ten one"]
    short, long = "one two three", " ".join(["word"] * 14)
    assert generic_faults(GenericReply(replies=[short, long]), kept, 2, 1.1) == [
        "reply 1 has 3 tokens; it is to have 9 to 11, as the other options need",
        "reply 2 has 14 tokens; it is to have 9 to 11, as the other options need",
    ]


def test_two_replies_that_fit_the_others_must_fit_each_other() -> None:
    kept = [" ".join(["word"] * 20), " ".join(["bird"] * 20)]
    replies = [" ".join(["lord"] * 19), " ".join(["cord"] * 22)]
    assert generic_faults(GenericReply(replies=replies), kept, 2, 1.1) == [
        "the replies have 19, 22 tokens, and must be more alike"
    ]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("As you told me, a list is a good start.", "speaks as if it knew the user ('you told')"),
        ("I remember that well; a list is a good start.", "speaks as if it knew the user ('I remember')"),
        ("You’ve once mentioned it, so start there.", 'speaks as if it knew the user ("You\'ve once mentioned")'),
        ("Since you like it, start there.", "speaks as if it knew the user ('Since you')"),
        ("Go by your usual choice, and start there.", "speaks as if it knew the user ('your usual')"),
        ("You now eat early, so start there.", "speaks as if it knew the user ('You now')"),
        ("Many people begin with Oat Bread these days.", "names 'oat bread'"),
        ("Assistant: a list is a good start.", "has a speaker label (Assistant:)"),
        ("Thanks for the advice.", "speaks as the user ('thanks for the advice')"),
    ],
)
def test_a_reply_shows_no_knowledge_and_names_nothing(text: str, fault: str) -> None:
    assert generic_wording_faults(GenericReply(replies=[PLAIN, text]), ["oat bread"]) == [f"reply 2 {fault}"]


def test_two_replies_do_not_say_the_same() -> None:
    reply = GenericReply(replies=[PLAIN, f"{PLAIN} Indeed."])
    assert generic_wording_faults(reply, []) == ["replies 1 and 2 say nearly the same"]
