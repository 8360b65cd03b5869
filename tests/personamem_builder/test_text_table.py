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


def test_a_table_that_is_too_wide_becomes_several_with_the_first_column_each():
    rows = [["name", "one", "two", "three"], ["first", "1", "22", "333"], ["second", "4", "55", "666"]]
    whole = text_table(rows, "lr")
    assert text_table(rows, "lr", width=len(whole.split("\n")[0])) == whole
    assert text_table(rows, "lr", width=18).split("\n") == [
        "name    one  two",
        "first     1   22",
        "second    4   55",
        "",
        "name    three",
        "first     333",
        "second    666",
    ]


def test_a_column_that_is_too_wide_by_itself_stays_whole():
    parts = text_table([["", "a long head", "b"], ["x", "1", "2"]], width=5).split("\n\n")
    assert parts == ["   a long head\nx  1", "   b\nx  2"]
    assert text_table([["alone"], ["x"]], width=2) == "alone\nx"


def test_cells_may_have_several_lines():
    assert text_table([["model\nscore", "value"], ["a\nacc", "1.0\n[0, 2]"]], "lr", ruled=True).split("\n") == [
        "model   value",
        "score",
        "-----  ------",
        "a         1.0",
        "acc    [0, 2]",
    ]
