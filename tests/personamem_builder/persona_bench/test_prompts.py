"""Prompts of the paired tasks: one factor changes at a time, the tree reaches the model, and nothing leaks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow.parquet as pq
import pytest
from reddit_like import make_posts, write_flat

from generation.errors import UserError
from personamem_builder.persona_bench.card import items_path
from personamem_builder.persona_bench.prompts import Limits, build_prompt, make_doc
from personamem_builder.persona_bench.records import CONDITIONS, SPLITS, TASKS
from personamem_builder.persona_bench.write import import_file

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


def message(name: str, parent: str, author: str, minute: int) -> dict[str, Any]:
    when = NOON + timedelta(minutes=minute)
    return {"message_id": name, "parent_id": parent, "author": author, "body": f"text of {name}", "timestamp": when}


def earlier(author: str, day: int) -> dict[str, Any]:
    when = NOON - timedelta(days=day)
    return {
        "message_id": f"{author}{day}",
        "subreddit": "books",
        "title": "old",
        "body": f"{author} wrote {day}",
        "timestamp": when,
    }


def make_item(task: str = "sentiment", **changes: Any) -> dict[str, Any]:
    """Ann's reply to c2, in a thread of two comments that were replied to."""
    text = task != "next_text"
    return {
        "item_id": "i1",
        "task": task,
        "post_id": "p",
        "target_id": "t",
        "author": "ann_the_real",
        "subreddit": "science",
        "timestamp": NOON + timedelta(minutes=9),
        "title": "A title",
        "content": "A post.",
        "conversation": [
            message("c1", "p", "bob_the_real", 1),
            message("c2", "c1", "cem_the_real", 2),
            message("c3", "c2", "bob_the_real", 4),
            message("c4", "p", "ann_the_real", 3),
            message("c5", "c4", "", 5),
        ],
        "target_parent_id": "c2",
        "target_text": "my reply" if text else "",
        "history": [earlier("ann", 3), earlier("ann", 2)],
        "other_author": "dot_the_real",
        "other_history": [earlier("dot", 3), earlier("dot", 1)],
        "positive": text or None,
        "score": 41 if text else None,
        "reply": "" if text else "my reply",
        "parent_score": 17,
    } | changes


def sections(prompt: str) -> dict[str, str]:
    return dict(part.split("\n\n", 1) for part in prompt.split("\n\n## ")[1:])


@pytest.mark.parametrize("task", TASKS)
def test_conditions_differ_in_one_section(task: str) -> None:
    pconv, pnonconv, npconv = (sections(build_prompt(make_item(task), name).text) for name in CONDITIONS)
    assert pconv.keys() - pnonconv.keys() == {"The comments so far"}
    assert {name: pconv[name] for name in pnonconv} == pnonconv
    history = "Earlier texts by Author, in other threads"
    assert {name for name in pconv if pconv[name] != npconv[name]} == {history}
    assert ("ann wrote 2" in pconv[history], "dot wrote 1" in npconv[history]) == (True, True)


def test_the_thread_is_a_dated_tree_with_short_names_and_the_place_of_the_reply() -> None:
    assert sections(build_prompt(make_item(), "pconv").text)["The comments so far"] == (
        "[1] U1, 2024-05-01 12:01:\n"
        "text of c1\n"
        "  [2] U2, 2024-05-01 12:02, in reply to [1]:\n"
        "  text of c2\n"
        "    [3] U1, 2024-05-01 12:04, in reply to [2]:\n"
        "    text of c3\n"
        "    [?] Author, 2024-05-01 12:09, in reply to [2]: the reply that is asked about\n"
        "[4] Author, 2024-05-01 12:03:\n"
        "text of c4\n"
        "  [5] [deleted], 2024-05-01 12:05, in reply to [4]:\n"
        "  text of c5"
    )


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("task", TASKS)
def test_no_account_name_and_no_score_is_shown(task: str, condition: str) -> None:
    prompt = build_prompt(make_item(task), condition).text
    assert not re.search("the_real|41|17", prompt)
    assert ("my reply" in prompt) == (task != "next_text")


@pytest.mark.parametrize("condition", CONDITIONS)
def test_what_is_replied_to_is_part_of_the_question_of_next_text(condition: str) -> None:
    asked = sections(build_prompt(make_item("next_text"), condition).text)["The reply"]
    assert asked == "Author replies to this comment:\n\nU2, 2024-05-01 12:02:\ntext of c2"
    to_post = make_item("next_text", target_parent_id="p")
    assert sections(build_prompt(to_post, condition).text)["The reply"] == "Author replies to the post itself."


def test_what_is_left_out_is_counted_and_said() -> None:
    """The parent stays first, then what it replies to, then the newest; of the earlier texts the newest stays."""
    prompt = build_prompt(make_item(), "pconv", Limits(history=75, thread=30))
    shown = sections(prompt.text)["The comments so far"]
    history = sections(prompt.text)["Earlier texts by Author, in other threads"]
    assert re.findall(r"text of (c\d)", shown) == ["c1", "c2", "c5"]
    assert "[3] [deleted], 2024-05-01 12:05, in reply to a comment left out" in shown
    assert shown.endswith("(2 comments left out)")
    assert "ann wrote 2" in history
    assert "(1 older text left out)" in history
    assert prompt.cut == 3
    assert build_prompt(make_item(), "pconv").cut == 0


def test_a_long_text_is_shortened_but_not_the_reply_that_is_judged() -> None:
    item = make_item(content="x" * 500, target_text="y" * 500)
    prompt = build_prompt(item, "pnonconv", Limits(text=100))
    assert "x" * 100 + " … (shortened)" in prompt.text
    assert "y" * 500 in prompt.text
    assert prompt.cut == 1


def test_a_chain_of_three_thousand_replies_is_shown_without_deep_indents() -> None:
    chain = [message(f"m{i}", f"m{i - 1}" if i else "p", "bob", i) for i in range(3000)]
    item = make_item(conversation=chain, target_parent_id="m2999", timestamp=NOON + timedelta(days=9))
    prompt = build_prompt(item, "pconv", Limits(thread=10**6))
    assert prompt.cut == 0
    assert "[?] Author, 2024-05-10 12:00, in reply to [3000]" in prompt.text
    assert max(len(line) - len(line.lstrip()) for line in prompt.text.splitlines()) == 16


def test_rows_hold_what_the_floors_read() -> None:
    doc = make_doc(make_item("next_text"), "npconv")
    assert (doc["truth"], doc["parent_text"], doc["last_text"]) == ("my reply", "text of c2", "ann wrote 2")
    assert make_doc(make_item("impact"), "pconv")["truth"] == 41
    first = make_doc(make_item(target_parent_id="p", history=[]), "pconv")
    assert (first["parent_text"], first["last_text"]) == ("A post.", "")


def test_an_unknown_condition_is_named() -> None:
    with pytest.raises(UserError, match="'pcon'"):
        build_prompt(make_item(), "pcon")


# ---- leaks, on generated data


def nodes(posts: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    stack = [("content", post) for post in posts]
    while stack:
        key, node = stack.pop()
        yield key, node
        stack += [("body", child) for child in node.get("comments", node.get("replies", []))]


@pytest.fixture(scope="module")
def marked(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[dict[str, Any]], dict[str, datetime]]:
    """All items of data in which every text has a mark and every score is a number that occurs nowhere else.

    Also when each mark was written.
    """
    posts = make_posts(seed=3, users=40, posts=5)
    written = {}
    for number, (key, node) in enumerate(nodes(posts)):
        sign = (node["score"] > 0) - (node["score"] < 0)
        node["score"] = sign * (7_000_000 + number)
        if node[key] not in ("[deleted]", "[removed]"):
            node[key] += f" mark{number}end"
            written[f"mark{number}end"] = datetime.fromisoformat(node["timestamp"])
    folder = tmp_path_factory.mktemp("marked")
    import_file(write_flat(posts, folder / "raw.json"), folder / "data")
    items = [
        item
        for task in TASKS
        for split in SPLITS
        for item in pq.read_table(folder / "data" / items_path(task, split)).to_pylist()
    ]
    return items, written


@pytest.mark.parametrize("condition", CONDITIONS)
def test_no_prompt_holds_a_score_or_a_later_text_or_the_text_to_write(
    marked: tuple[list[dict[str, Any]], dict[str, datetime]], condition: str
) -> None:
    items, written = marked
    assert {item["task"] for item in items} == set(TASKS)
    for item in items:
        prompt = build_prompt(item, condition).text
        assert not re.search(r"7\d{6}", prompt)
        own = set(re.findall(r"mark\d+end", item["target_text"]))
        marks = set(re.findall(r"mark\d+end", prompt))
        assert len(marks) > 1
        assert own <= marks
        assert all(written[mark] < item["timestamp"] for mark in marks - own)
        if item["task"] == "next_text":
            (target,) = re.findall(r"mark\d+end", item["reply"])
            assert target not in marks
