"""Rules of English find the faults that a text of parts has, and nothing in good text."""

from __future__ import annotations

import pytest

from generation.prose import prose_faults

BAD = [
    ("Is that enough , then?", "a blank before a mark"),
    ("Is that enough,? I wonder.", "two marks"),
    ("That is it.. So.", "two marks"),
    ("I went to the the shop.", "a word twice"),
    ("It is a own bill.", "a before a vowel"),
    ("It takes an familiar breakfast.", "an before a consonant"),
    ("It is an useful thing.", "an before the sound of you or w"),
    ("Take the a bowl.", "two articles"),
    ("I has time.", "agreement with I"),
    ("Then she have gone.", "agreement with he or she"),
    ("They doesn't know, as we was out.", "agreement with a plural"),
    ("This are good.", "a plural after this"),
    ("These kind of things.", "a kind of plural"),
    ("It can goes on.", "a form after a modal"),
    ("It did not ran.", "a form after do"),
    ("I want to went home.", "a form after to"),
    ("A cup of of tea.", "two prepositions"),
    ("It is more better so.", "more of more"),
    ("It takes a half of an hour.", "half of an hour"),
    ("It depends with the pen.", "depends with"),
]
GOOD = [
    "An hour ago an honest man took a one-way trip to a university in a European town.",
    "What she had had that that day is over; it is so, so good. Very, very good... And no, no.",
    "My brother and I are here. Did she go? Let her have it. He does go, as they do.",
    "Those that are left have had enough, and what it came to was little.",
    "An MRI takes an 8-hour day; an unimportant detail; a usual thing; an uninterrupted night.",
    "Run `a open  file.. ,` and see.",
    "Plan for at most ten, from at least one of them.",
]


@pytest.mark.parametrize(("text", "rule"), BAD)
def test_a_fault_is_found(text: str, rule: str) -> None:
    assert any(fault.startswith(f"{rule}: ") for fault in prose_faults(text)), list(prose_faults(text))


@pytest.mark.parametrize("text", GOOD)
def test_good_text_has_none(text: str) -> None:
    assert list(prose_faults(text)) == []
