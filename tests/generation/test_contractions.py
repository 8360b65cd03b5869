from __future__ import annotations

import pytest

from generation.contractions import without_contractions


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("I'm sure you're right, and they've time.", "I am sure you are right, and they have time."),
        ("I can't, she won't, we shan't.", "I cannot, she will not, we shall not."),
        ("It isn't so, and I didn’t know.", "It is not so, and I did not know."),
        ("It's late. It's been long. It's never been so.", "It is late. It has been long. It has never been so."),
        ("That's gone, and there's nothing left.", "That has gone, and there is nothing left."),
        ("Let's see what I'll do.", "Let us see what I will do."),
        ("I'd like to, and I'd thought so.", "I would like to, and I'd thought so."),
        ("Ana's tea is in the girls' room.", "Ana's tea is in the girls' room."),
    ],
)
def test_contractions_are_written_out_where_they_are_clear(short: str, long: str) -> None:
    assert without_contractions(short) == long
