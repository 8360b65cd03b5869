from __future__ import annotations

from typing import Any

import pytest

from generation.content_words import content_stems, unwanted_names


@pytest.mark.parametrize(
    ("text", "stems"),
    [
        ("The night trains went by", {"train"}),
        ("Training, a TRAINER", {"train"}),
        ("two ponies and a pony", {"pony"}),
        ("glass, glasses", {"glass"}),
        ("buses, a bus", {"buse", "bus"}),
        ("hats and a hat", {"hat"}),
        ("it is of an ox at 9", set()),
        ("café-Träume", {"café", "träum"}),
        ("what she would have done before", set()),
        ("", set()),
    ],
)
def test_words_are_cut_to_their_beginnings_and_everyday_words_left_out(text: str, stems: set[str]) -> None:
    assert content_stems(text) == stems


def facts(**more: Any) -> Any:
    told = [
        {"kind": "slot", "subject": "films", "avoid": ["Danish cinema"]},
        {"kind": "slot", "subject": "films", "avoid": ["Greek cinema"]},
        {"kind": "item", "subject": "garage projections", "avoid": ["garage projections"]},
        {"kind": "trial", "subject": "", "avoid": ["puppet shows", "open rehearsals"]},
        {"kind": "fact", "subject": "lost", "avoid": ["the day you lost a kettle in Bern"]},
        {"kind": "fact", "subject": "lost", "avoid": ["the day you lost a ladder at sea"]},
        {"kind": "fact", "subject": "won", "avoid": []},
    ]
    return {"circle": ["my neighbour Rehearsal"], "told": told, **more}


@pytest.mark.parametrize(
    ("which", "message", "named"),
    [
        (0, "We saw a Danish picture.", {"Danish cinema"}),
        (0, "The cinema was full of Greeks.", set()),  # all values that are told are of cinemas
        (1, "The cinema was full of Greeks.", {"Greek cinema"}),
        (2, "We projected it in the garage.", {"garage projections"}),
        (2, "The car stood in the garage.", set()),  # one word of two
        (3, "My puppet shows how it is done.", {"puppet shows"}),
        (3, "My neighbour Rehearsal said the shop is open.", set()),  # a person whom the user names
        (4, "I lost a thing.", set()),
        (4, "In Bern I boiled water.", set()),
        (4, "I boiled water in Bern with a kettle.", {"the day you lost a kettle in Bern"}),
        (6, "Anything goes.", set()),
    ],
)
def test_a_message_names_a_thing_by_most_of_the_words_that_only_it_has(
    which: int, message: str, named: set[str]
) -> None:
    found = dict(unwanted_names(facts()["told"][which], facts(), message))
    assert set(found) == named
    assert all(found.values())
