"""The form in which what a memory system found stands before a question."""

from __future__ import annotations

import pytest

from personamem_builder.memory.retrieved import memory_text
from personamem_builder.memory.system import Memory


@pytest.mark.parametrize(
    ("memories", "expected"),
    [
        ([], "P."),
        (
            [
                Memory("late", "2020-03-01", (5,)),
                Memory("early", "2020-01-01", (1,)),
                Memory("next", "2020-01-01", (2,)),
            ],
            "[2020-01-01]\nearly|next|[2020-03-01]\nlate",
        ),
        ([Memory("late", "", (5,)), Memory("early", "", (1,))], "[Session 1]\nearly|[Session 3]\nlate"),
        ([Memory("b", "2021-01-01"), Memory("a", "2020-01-01")], "[2020-01-01]\na|[2021-01-01]\nb"),
        ([Memory("best"), Memory("next", "2020-01-01")], "best|[2020-01-01]\nnext"),
        ([Memory("own"), Memory("early", "", (1,))], "own|[Session 1]\nearly"),
    ],
)
def test_memories_stand_in_the_order_of_the_conversation_with_their_dates(
    memories: list[Memory], expected: str
) -> None:
    heading = "P.|What is remembered of earlier conversations with this user:|" if memories else ""
    assert memory_text("P.", memories, [0, 3, 5]) == (heading + expected).replace("|", "\n\n")


def test_a_history_without_a_profile_has_none_and_nothing_is_nothing() -> None:
    assert memory_text("", [], [0]) == ""
    assert memory_text("", [Memory("a")], [0]).startswith("What is remembered")
