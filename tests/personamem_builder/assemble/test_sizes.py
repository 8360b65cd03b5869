from __future__ import annotations

import pytest

from generation.errors import UserError
from personamem_builder.assemble.sizes import EMPTIEST, FULLEST, SIZES, chosen_sizes


def test_the_splits_of_the_paper() -> None:
    sizes = [(size.split, size.n_blocks, size.max_tokens) for size in chosen_sizes((), None, None)]
    assert sizes == [("32k", 10, 32_000), ("128k", 20, 128_000), ("1M", 60, 1_000_000)]
    assert (EMPTIEST, FULLEST) == (0.8, 0.9)


def test_splits_by_name_come_in_the_order_asked_for() -> None:
    assert chosen_sizes(("1M", "32k"), None, None) == [SIZES["1M"], SIZES["32k"]]


def test_a_split_that_is_named_twice_is_made_once() -> None:
    assert chosen_sizes(("32k", "128k", "32k"), None, None) == [SIZES["32k"], SIZES["128k"]]


def test_a_number_of_sessions_is_a_split_of_its_own() -> None:
    [size] = chosen_sizes((), "15", 64_000)
    assert (size.split, size.n_blocks, size.max_tokens) == ("15blocks", 15, 64_000)
    [size] = chosen_sizes((), "15", None)
    assert (size.split, size.n_blocks, size.max_tokens) == ("15blocks", 15, None)


def test_a_range_is_a_split_a_size() -> None:
    sizes = chosen_sizes((), "1-10", None)
    assert [(size.split, size.n_blocks) for size in sizes] == [(f"{n}blocks", n) for n in range(1, 11)]
    assert {size.max_tokens for size in sizes} == {None}
    assert [size.n_blocks for size in chosen_sizes((), "4-4", None)] == [4]


@pytest.mark.parametrize(
    "text", ["0", "0-3", "3-1", "a", "1-", "-3", "--", "", " 3", "2.5", "1-2-3", "1–3", "²", "1e3"]
)
def test_what_is_no_number_of_sessions(text: str) -> None:
    with pytest.raises(UserError) as raised:
        chosen_sizes((), text, None)
    assert raised.value.message == f"--n-blocks {text!r} is not a number of sessions"
    assert raised.value.hint == "write 15, or a range such as 1-10"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("10000", "has more than 4 digits"),
        ("9" * 5_000, "has more than 4 digits"),
        ("1-" + "9" * 5_000, "has more than 4 digits"),
        ("1-101", "is a range of more than 100 sizes"),
    ],
)
def test_more_sessions_or_sizes_than_anybody_has(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as raised:
        chosen_sizes((), text, None)
    assert len(raised.value.message) < 100
    assert len(chosen_sizes((), "9900-9999", None)) == 100


@pytest.mark.parametrize("split", ["64k", "32K", "", "10blocks"])
def test_an_unknown_split(split: str) -> None:
    with pytest.raises(UserError) as raised:
        chosen_sizes(("32k", split), None, None)
    assert raised.value.message == f"there is no split {split!r}; the splits are 32k, 128k, 1M"
    assert "--n-blocks" in raised.value.hint


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((), None, 9_000), "--max-tokens goes with --n-blocks"),
        ((("32k",), None, 9_000), "--max-tokens goes with --n-blocks"),
        ((("32k",), "3", None), "--split and --n-blocks cannot be used together"),
        (((), "3-5", 9_000), "--max-tokens cannot go with a range"),
    ],
)
def test_flags_that_do_not_go_together(arguments: tuple[tuple[str, ...], str | None, int | None], message: str) -> None:
    with pytest.raises(UserError, match=message):
        chosen_sizes(*arguments)
