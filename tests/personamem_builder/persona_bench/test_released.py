"""The released form, on an example worked out by hand."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from generation.errors import UserError
from personamem_builder.persona_bench.records import CONDITIONS, TASKS
from personamem_builder.persona_bench.released import released_docs, released_items

Tables = tuple[list[dict[str, Any]], list[dict[str, Any]]]


def build(*posts: tuple[str, list[Any]]) -> Tables:
    """Make tables of (post's id, tree), by `op`; a comment is (author, score, replies) and is written after the last.

    An author with a `!` behind it is one whose comment was deleted.
    """
    post_rows, message_rows = [], []
    clock = datetime(2024, 1, 1, tzinfo=UTC)
    for post_id, tree in posts:
        post_rows.append(
            {
                "post_id": post_id,
                "author": "op",
                "subreddit": "science",
                "title": f"title of {post_id}",
                "body": "b" * 600,
                "url": "",
                "score": 900,
                "timestamp": clock,
            }
        )
        stack = [(comment, post_id, 0) for comment in reversed(tree)]
        position = 0
        while stack:
            (author, score, replies), parent, depth = stack.pop()
            clock += timedelta(minutes=1)
            name = f"{post_id}-{position}"
            message_rows.append(
                {
                    "message_id": name,
                    "post_id": post_id,
                    "parent_id": parent,
                    "position": position,
                    "depth": depth,
                    "author": author.rstrip("!") if not author.endswith("!") else "",
                    "body": f"{author} says {score}, {name}.\nAnd more: {'w' * 200}",
                    "score": score,
                    "timestamp": clock,
                    "deleted": author.endswith("!"),
                    "edited": False,
                }
            )
            position += 1
            stack += [(reply, name, depth + 1) for reply in reversed(replies)]
    return post_rows, message_rows


def leaf(author: str, score: int | None) -> tuple[str, int | None, list[Any]]:
    return author, score, []


THREE = [("ann", 5, [leaf("op", 10)]), ("bob", 2, [leaf("op", -12)]), ("cem", 1, [leaf("op", 3)])]


def targets(task: str, tables: Tables) -> list[tuple[str, str]]:
    return [(item.target["message_id"], item.example["message_id"]) for item in released_items(task, *tables)]


def test_the_reply_with_the_largest_absolute_score_is_the_target_and_the_second_the_example() -> None:
    assert targets("impact", build(("p", THREE))) == [("p-3", "p-1")]


@pytest.mark.parametrize(
    "tree",
    [
        pytest.param([("ann", 5, [leaf("op", 10)]), ("bob", 2, [leaf("op", -12), leaf("op", 1)])], id="3 participants"),
        pytest.param([*THREE[:2], leaf("cem", 1)], id="2 replies"),
        pytest.param([("ann", 5, [leaf("op", 3)]), ("bob", 2, [leaf("op", -3)]), *THREE[2:]], id="weak scores"),
        pytest.param([*THREE, ("dot!", 1, [leaf("op", 90)])], id="deleted parent"),
    ],
)
def test_posts_that_the_rules_leave_out(tree: list[Any]) -> None:
    assert targets("sentiment", build(("p", tree))) == []


def test_the_weaker_half_of_the_positive_items_is_dropped() -> None:
    def with_target(score: int) -> list[Any]:
        return [("ann", 5, [leaf("op", score)]), ("bob", 2, [leaf("op", 1)]), ("cem", 1, [leaf("op", 1)])]

    tables = build(*((f"p{score}", with_target(score)) for score in (40, 8, -5, 20, 30, 10)))
    # Positive are 8, 10, 20, 30, 40: the smaller half are two of them.
    assert [item.target["score"] for item in released_items("sentiment", *tables)] == [40, -5, 20, 30]


def test_a_reply_without_a_score_is_no_target() -> None:
    assert targets("impact", build(("p", [*THREE, ("dot", None, [leaf("op", None)])]))) == [("p-3", "p-1")]


def test_the_latest_reply_is_the_text_to_write() -> None:
    assert targets("next_text", build(("p", THREE))) == [("p-5", "p-3")]


def test_a_text_to_write_needs_no_score() -> None:
    (doc,) = released_docs("next_text", "pconv", *build(("p1", [*THREE[:2], ("cem", 1, [leaf("op", None)])])))
    assert doc["truth"].startswith("op says None")


@pytest.mark.parametrize(
    "tree",
    [
        pytest.param([("ann", 1, [leaf("op", 1)])], id="1 reply"),
        pytest.param([("ann", 1, [leaf("op", 1), leaf("op", 1)]), leaf("bob", 1)], id="1 thread"),
        pytest.param([("ann", 1, [leaf("op", 1)]), leaf("op", 1)], id="thread without replies"),
        pytest.param([*THREE, ("dot!", 1, [leaf("eve!", 1), leaf("op", 1)])], id="2 of 3 deleted"),
    ],
)
def test_posts_that_give_no_text_to_write(tree: list[Any]) -> None:
    assert targets("next_text", build(("p", tree))) == []


def test_a_third_of_deleted_comments_is_still_taken() -> None:
    assert targets("next_text", build(("p", [*THREE, ("dot!", 1, [leaf("eve", 1), leaf("op", 1)])]))) == [
        ("p-8", "p-5")
    ]


def prompt(task: str, condition: str, tables: Tables, index: int = 0) -> str:
    text: str = released_docs(task, condition, *tables)[index]["prompt"]
    return text


def test_with_conversation_an_example_and_the_start_of_the_parent_are_shown() -> None:
    text = prompt("sentiment", "pconv", build(("p", THREE)))
    assert "op says 10, p-1" in text
    assert "Answer: positive" in text
    parent = f"bob says 2, p-2.\nAnd more: {'w' * 200}"
    assert parent[:100] in text
    assert parent[:101] not in text
    assert "Post score: 900" in text
    assert "b" * 500 in text
    assert "b" * 501 not in text
    assert f"op says -12, p-3.\nAnd more: {'w' * 200}" in text
    assert "Hint" not in text


def test_without_conversation_there_is_no_example_of_the_author_and_no_parent() -> None:
    for task in ("sentiment", "impact"):
        text = prompt(task, "pnonconv", build(("p", THREE)))
        assert ("bob says" in text, "op says 10" in text, "900" in text) == (False, False, False)
        assert ("Roman roads" in text) == (task == "impact")


def test_impact_tells_the_sign_of_the_score_as_the_released_prompts_do() -> None:
    for condition in CONDITIONS:
        assert "not above 0" in prompt("impact", condition, build(("p", THREE)))


def test_another_item_is_the_one_200_positions_later() -> None:
    tables = build(*((f"p{number}", THREE) for number in range(203)))
    text = prompt("impact", "npconv", tables, index=5)
    # 205 past the end of 203 is 2.
    assert "p2-1" in text
    assert "p5-1." not in text
    assert "unrelated" in text
    assert f"bob says 2, p5-2.\nAnd more: {'w' * 200}" in text
    assert "Parent score: 2" in text


def tree_in(text: str) -> dict[str, Any]:
    line = next(line for line in text.splitlines() if line.startswith("A post"))
    found: dict[str, Any] = json.loads(line[line.index("{") :])
    return found


def test_the_whole_tree_but_the_target_and_what_is_below_it_is_shown_with_scores_and_later_comments() -> None:
    tree = [THREE[0], ("bob", 2, [("op", -12, [leaf("cem", 66)])]), ("cem", 77, [leaf("dot", 88)])]
    shown = tree_in(prompt("next_text", "pconv", build(("p", tree))))
    assert [comment["id"] for comment in shown["comments"]] == ["p-0", "p-2", "p-5"]
    assert [len(comment["replies"]) for comment in shown["comments"]] == [1, 0, 1]
    assert shown["comments"][2]["replies"][0]["score"] == 88
    text = prompt("next_text", "pconv", build(("p", tree)))
    assert "op says -12" not in text
    assert "cem says 66" not in text
    assert text.index("op says 10") < text.index("A post with its comments")


def test_without_conversation_the_post_has_no_comments_and_with_another_authors_it_is_the_other_post() -> None:
    tables = build(*((f"p{number}", THREE) for number in range(203)))
    alone = prompt("next_text", "pnonconv", tables)
    assert tree_in(alone)["comments"] == []
    assert "cem says 1, p0-4" in alone
    other = prompt("next_text", "npconv", tables, index=5)
    assert tree_in(other)["title"] == "title of p2"
    assert "title of p5" not in other


def test_a_chain_of_three_thousand_replies_is_written_and_flattened_labels_have_no_line_breaks() -> None:
    chain: list[Any] = []
    for level in reversed(range(3000)):
        chain = [("ann" if level % 2 else "bob", 1, chain)]
    tables = build(("p", [*chain, *THREE]))
    (row,) = released_docs("next_text", "pconv", *tables)
    line = next(line for line in row["prompt"].splitlines() if line.startswith("A post with"))
    assert line.count('"replies": [') == 3000 + 5
    assert line.count("{") == line.count("}")
    assert "\n" not in row["truth"]


@pytest.mark.parametrize("task", TASKS)
def test_where_no_post_fits_the_rules_that_is_said(task: str) -> None:
    with pytest.raises(UserError, match=f"released rules of {task}"):
        released_docs(task, "pconv", *build(("p", [leaf("op", 9)])))
