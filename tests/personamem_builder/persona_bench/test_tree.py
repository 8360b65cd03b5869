"""Raw posts, taken apart into rows."""

from __future__ import annotations

import sys
from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from reddit_like import deep_post, make_posts, walk

from personamem_builder.official.faults import Faults
from personamem_builder.persona_bench.tree import parse_time, take_apart


def comment(**changes: Any) -> dict[str, Any]:
    raw = {"author": "ann", "body": "Hi.", "score": 1, "timestamp": "2023-01-01T00:01:00Z", "replies": []}
    return raw | changes


def post(*comments: Any, **changes: Any) -> dict[str, Any]:
    raw = {"author": "op", "title": "T", "content": "C", "__sub__": "life", "url": "u", "score": 5}
    return raw | {"timestamp": "2023-01-01T00:00:00Z", "comments": list(comments)} | changes


def rows(raw: dict[str, Any], *, linked: bool = False) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    faults = Faults()
    made = take_apart(raw, "raw.json post 1", faults, Counter(), linked=linked)
    assert faults.lines == []
    return made


def faults_of(raw: dict[str, Any], *, linked: bool = False) -> list[str]:
    faults = Faults()
    take_apart(raw, "raw.json post 1", faults, Counter(), linked=linked)
    return faults.lines


def test_comments_are_listed_depth_first_with_their_parents():
    raw = post(
        comment(body="a", replies=[comment(body="b", replies=[comment(body="c")]), comment(body="d")]), comment()
    )

    row, messages = rows(raw)

    by_id = {message["message_id"]: message["body"] for message in messages} | {row["post_id"]: "post"}
    assert [(m["body"], m["depth"], by_id[m["parent_id"]]) for m in messages] == [
        ("a", 0, "post"),
        ("b", 1, "a"),
        ("c", 2, "b"),
        ("d", 1, "a"),
        ("Hi.", 0, "post"),
    ]
    assert [m["position"] for m in messages] == [0, 1, 2, 3, 4]


def test_a_chain_of_3000_replies_needs_no_recursion():
    raw = deep_post(3000)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(250)
    try:
        _, messages = rows(raw)
    finally:
        sys.setrecursionlimit(limit)

    assert [m["depth"] for m in messages] == list(range(3000))
    assert all(below["parent_id"] == above["message_id"] for above, below in pairwise(messages))


def test_made_up_posts_keep_every_comment_in_order():
    for raw in make_posts(seed=1, users=6):
        _, messages = rows(raw)

        assert [m["body"] for m in messages] == [node["body"] for _, _, node in walk(raw, "p")]
        assert len({m["message_id"] for m in messages}) == len(messages)


def test_ids_follow_content_and_position_not_scores():
    raw, voted = post(comment(), comment()), post(comment(score=99), comment(), score=1000)

    assert rows(raw)[0]["post_id"] == rows(voted)[0]["post_id"]
    assert [m["message_id"] for m in rows(raw)[1]] == [m["message_id"] for m in rows(voted)[1]]
    assert rows(post(title="Other"))[0]["post_id"] != rows(raw)[0]["post_id"]
    first, second = (m["message_id"] for m in rows(raw)[1])  # the same text twice
    assert first != second
    assert rows(post(comment(body="Hi!"), comment()))[1][0]["message_id"] != first


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, (False, False, "ann")),
        ({"body": "[deleted]", "author": "[deleted]"}, (True, False, "")),
        ({"body": " [Removed] "}, (True, False, "ann")),
        ({"body": None}, (True, False, "ann")),
        ({"author": None}, (False, False, "")),
        ({"edited": True}, (False, True, "ann")),
        ({"edited": 1672531200}, (False, True, "ann")),
        ({"edited": False}, (False, False, "ann")),
        ({"edited": "false"}, (False, False, "ann")),
    ],
)
def test_deleted_and_edited_comments_are_marked(changes: dict[str, Any], expected: tuple[bool, bool, str]):
    (message,) = rows(post(comment(**changes)))[1]

    assert (message["deleted"], message["edited"], message["author"]) == expected


@pytest.mark.parametrize(
    "value",
    ["2023-04-05T06:07:08Z", "2023-04-05T08:07:08.999+02:00", "2023-04-05 06:07:08", "2023-04-05T06:07:08", 1680674828],
)
def test_timestamps_are_in_utc_to_the_second(value: object):
    assert parse_time(value) == datetime(2023, 4, 5, 6, 7, 8, tzinfo=UTC)


def test_a_score_with_a_point_may_still_be_a_whole_number():
    assert rows(post(comment(score=Decimal("-3.0"))))[1][0]["score"] == -3


def test_missing_scores_times_and_replies_are_no_faults():
    (message,) = rows(post(comment(score=None, timestamp=None, replies="")))[1]

    assert (message["score"], message["timestamp"]) == (None, None)


@pytest.mark.parametrize(
    ("raw", "fault"),
    [
        (post(author=None), "column author: a post must have an author"),
        (post(author="  "), "column author: '  ': a post must have an author"),
        (post(score="12"), "column score: '12': must be a whole number, not text"),
        (post(score=True), "column score: True: must be a whole number"),
        (post(comment(score="high")), "column comments[0].score: 'high': must be a whole number, not text"),
        (post(comment(score=10**30)), "must be a whole number"),
        (post(comment(score=Decimal("1E+999999999"))), "must be a whole number"),
        (post(comment(score=Decimal("1.5"))), "must be a whole number"),
        (post(comment(), comment(replies=[comment(timestamp="yesterday")])), "comments[1].replies[0].timestamp"),
        (post(comment(timestamp=10**18)), "comments[0].timestamp"),
        (post(comment(timestamp=Decimal("1E+999999999"))), "comments[0].timestamp"),
        (post(comment(body=["a"])), "comments[0].body: ['a']: must be text"),
        (post("a comment"), "comments[0]: 'a comment': must be a comment, an object"),
        (post(comment(replies={"a": 1})), "comments[0].replies: {'a': 1}: must be a list of comments"),
    ],
)
def test_a_fault_is_told_with_post_and_path(raw: dict[str, Any], fault: str):
    (line,) = faults_of(raw)

    assert line.startswith("raw.json post 1 column ")
    assert fault in line


def test_the_path_of_a_deep_fault_is_short():
    raw = deep_post(2000)
    last = raw["comments"][0]
    while last["replies"]:
        last = last["replies"][0]
    last["score"] = "many"

    assert "comments[0].replies[0].(1996 levels).replies[0].replies[0].score" in faults_of(raw)[0]


def test_a_tree_written_as_a_list_is_built_from_parent_ids():
    raw = post(
        comment(id="c", parent_id="b", body="c"),
        comment(id="a", parent_id="p1", body="a"),
        comment(id="b", parent_id="a", body="b"),
        id="p1",
    )

    _, messages = rows(raw, linked=True)

    assert [(m["body"], m["depth"]) for m in messages] == [("a", 0), ("b", 1), ("c", 2)]


@pytest.mark.parametrize(
    ("comments", "fault"),
    [
        ([comment(id="a", parent_id="z")], "comments[0].parent_id: 'z': no comment of the post has this id"),
        ([comment(id="a", parent_id="a")], "leads round in a cycle"),
        ([comment(id="a", parent_id="b"), comment(id="b", parent_id="a")], "leads round in a cycle"),
        ([comment(id="a"), comment(id="a")], "comments[1].id: 'a': twice"),
        ([comment(id="a"), comment()], "comments[1].id: missing"),
        (
            [comment(id="a"), comment(id="b", replies=[comment(id="c", parent_id="a")])],
            "is not the comment that it stands",
        ),
    ],
)
def test_parents_of_row_forms_are_checked(comments: list[dict[str, Any]], fault: str):
    lines = faults_of(post(*comments, id="p1"), linked=True)

    assert fault in lines[0]
    assert faults_of(post(*comments, id="p1")) == []  # raw posts have no ids of their own: these may be Reddit's
