from __future__ import annotations

from personamem_builder.text_table import text_table

ROWS = [["", "n", "note"], ["[b]first[/b]", "7", ""], ["second", "120", "ok"]]


def test_columns_stand_to_the_left_and_lines_end_with_their_last_letter():
    assert text_table(ROWS).split("\n") == ["              n    note", "[b]first[/b]  7", "second        120  ok"]


def test_the_last_letter_of_an_alignment_is_for_all_columns_that_follow():
    assert text_table(ROWS, "lr", ruled=True).split("\n") == [
        "                n  note",
        "------------  ---  ----",
        "[b]first[/b]    7",
        "second        120    ok",
    ]
    assert text_table(ROWS, "lrl").split("\n")[2] == "second        120  ok"
