"""The four forms of files, and files that are something else."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from reddit_like import (
    deep_post,
    make_posts,
    to_json,
    walk,
    write_flat,
    write_grouped,
    write_prompt_rows,
    write_store_rows,
)

from generation.errors import UserError
from personamem_builder.official.faults import Faults
from personamem_builder.persona_bench.read import read_posts
from personamem_builder.persona_bench.tree import take_apart

Row = dict[str, Any]


def read(path: Path) -> list[tuple[Row, list[Row]]]:
    faults = Faults()
    made = [
        take_apart(raw.post, raw.where, faults, Counter(), linked=raw.linked)
        for raw in read_posts(path, faults, Counter())
    ]
    assert faults.lines == []
    return made


def faults_of(path: Path) -> list[str]:
    faults = Faults()
    for raw in read_posts(path, faults, Counter()):
        take_apart(raw.post, raw.where, faults, Counter(), linked=raw.linked)
    return faults.lines


@pytest.fixture
def posts() -> list[Row]:
    return [*make_posts(seed=3, users=8), deep_post(3000, author="user_0001")]


def has_own_reply(post: Row) -> bool:
    return any(node["author"] == post["author"] for _, _, node in walk(post, "p"))


def by_id(made: list[tuple[Row, list[Row]]]) -> dict[str, list[Row]]:
    return {row["post_id"]: [row, *messages] for row, messages in made}


def test_flat_and_grouped_files_give_the_same_rows(tmp_path: Path, posts: list[Row]):
    flat = read(write_flat(posts, tmp_path / "flat.json"))
    grouped = read(write_grouped(posts, tmp_path / "grouped.json"))

    assert [row["title"] for row, _ in flat] == [post["title"] for post in posts]
    assert by_id(flat) == by_id(grouped)
    assert max(message["depth"] for _, messages in flat for message in messages) == 2999


def test_store_rows_give_the_posts_with_their_whole_trees(tmp_path: Path, posts: list[Row]):
    own = [post for post in posts if has_own_reply(post)]
    assert len(own) < len(posts)

    assert by_id(read(write_store_rows(posts, tmp_path / "3.1.jsonl"))) == by_id(
        read(write_flat(own, tmp_path / "flat.json"))
    )


def test_a_hidden_score_of_a_store_row_comes_from_its_label(tmp_path: Path):
    reply = {"author": "op", "body": "r", "score": "[HIDDEN]", "timestamp": None, "replies": []}
    post = {"author": "op", "title": "t", "comments": [reply]}
    invented = {"author": None, "comments": "none"}  # an example: only the post that the task names is read

    def score(label: object) -> object:
        task = {"target_post_reference_id": "u1p1", "target_reply_id": "u1p1-c1", "true_label": label}
        store = {"example": invented, "u1p1": post}
        path = tmp_path / "3.2.jsonl"
        path.write_text(json.dumps({"post_data_store": store, "prediction_task": task}) + "\n\n", encoding="utf-8")
        return read(path)[0][1][0]["score"]

    assert score(-30) == -30
    assert score("positive") is None


@pytest.mark.slow
def test_prompt_rows_give_the_trees_with_the_target_put_back(tmp_path: Path, posts: list[Row]):
    def shape(made: list[tuple[Row, list[Row]]]) -> list[tuple[str, list[tuple[int, str, str]]]]:
        return [
            (row["post_id"], sorted((m["depth"], m["author"], " ".join(m["body"].split())) for m in messages))
            for row, messages in made
        ]

    # What stands below the target is in no row. Ids are paths: those of 3,000 levels would be 50 MB.
    whole = [post for post in posts[:-1] if has_own_reply(post) and not is_latest_answered(post)]
    whole.append(deep_post(1050))
    assert len(whole) > 5

    made = read(write_prompt_rows(whole, tmp_path / "3.3.jsonl"))

    assert sorted(shape(made)) == sorted(shape(read(write_flat(whole, tmp_path / "flat.json"))))
    for (_, messages), post in zip(
        sorted(made, key=lambda pair: pair[0]["url"]), sorted(whole, key=lambda p: p["url"]), strict=True
    ):
        (target,) = [m for m in messages if m["timestamp"] is None]
        assert target["author"] == post["author"]
        assert target["score"] is None


def is_latest_answered(post: Row) -> bool:
    own = [node for _, _, node in walk(post, "p") if node["author"] == post["author"]]
    return bool(max(own, key=lambda node: node["timestamp"])["replies"])


def test_prompt_rows_of_another_authors_post_are_counted(tmp_path: Path):
    post = {"author": "op", "title": "t", "comments": [], "id": "u1p1"}
    rows = [
        {
            "user": "op",
            "prompt": f"Look:\n{json.dumps(post, indent=2)}\nreply to u1p1, ID: u1p1-c1.",
            "true_label": "Yes.",
        },
        {"user": "ann", "prompt": f"Look:\n{json.dumps(post, indent=2)}\nBye.", "true_label": "No."},
        {"user": "op", "prompt": "No post here { at all.\n{\n", "true_label": "No."},
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    counts: Counter[str] = Counter()

    (raw,) = read_posts(path, Faults(), counts)

    assert [c["body"] for c in raw.post["comments"]] == ["Yes."]
    assert counts["rows_without_own_post"] == 2


def test_a_post_is_given_before_the_rest_of_the_file_is_read(tmp_path: Path):
    path = tmp_path / "flat.json"
    text = write_flat(make_posts(users=60), path).read_text(encoding="utf-8")
    path.write_text(text[: len(text) // 2], encoding="utf-8")
    faults = Faults()

    found = read_posts(path, faults, Counter())

    assert next(found).where == "flat.json post 1"
    assert faults.lines == []
    rest = len([*found])
    assert faults.lines == [f"flat.json row {rest + 2}: truncated JSON: the file ends within a value"]


def test_a_byte_order_mark_does_no_harm(tmp_path: Path):
    path = tmp_path / "flat.json"
    path.write_text("\ufeff" + to_json(make_posts(users=2)), encoding="utf-8")

    assert len(read(path)) == 8


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", "x.json: is empty"),
        (b" \n ", "x.json: is empty"),
        (b"[]", "x.json: has no posts"),
        (b"{}", "x.json: has no posts"),
        (b"<!DOCTYPE html><html>", "is a web page (HTML)"),
        (b"PAR1\x15\x04", "is a Parquet file"),
        (b"PK\x03\x04rest", "is a zip archive"),
        (gzip.compress(b"[]", mtime=0), "is a gzip file"),
        ("[]".encode("utf-16"), "is UTF-16 text"),
        (b"version https://git-lfs.github.com/spec/v1\n", "is a Git LFS pointer"),
        (b"author,title\nann,Hi\n", "'author,title\\nann,Hi\\n': is neither JSON nor JSON lines"),
        (b'[{"question": 1}]', "is a list, but not of posts: it starts with an object with question"),
        (b"[1, 2]", "is a list, but not of posts: it starts with 1"),
        (b'{"ann": [{"question": 1}]}', "author 'ann' post 1: is an object with question, not a post"),
        (b'{"question": 1}\n{"question": 2}', "row 1: is an object with question, no row of task 3.1"),
        (b'[{"author": "ann", "title": "t"}, {"auth', "row 2: truncated JSON"),
        (b'[{"author": "ann", "title": "t"}, nonsense]', "row 2: not JSON"),
        (b'[{"author": "ann", "title": "\xff"}]', "not JSON: lexical error: invalid bytes in UTF8 string"),
        (b'{"ann": [{"author": "ann", "title": "t"}], "bob": [', "truncated JSON: the file ends within a value, after"),
        (b'{"ann": [{"author": "bob", "title": "t"}]}', "column author: 'bob': stands under the author 'ann'"),
        (b'{"UNKNOWN_AUTHOR": [{"title": "t"}]}', "column author: a post must have an author"),
        (b'[{"author": "ann", "title": "t"}, 7]', "post 2: 7: must be a post, an object"),
        (b'{"post_data_store": {}, "prediction_task": {"target_post_reference_id": ""}}', "row 1 column"),
        (b'{"post_data_store": {}, "prediction_task": {"target_post_reference_id": "u1p1"}}', "no post of this id"),
        (b'{"post_data_store": 1, "prediction_task": {}}', "must be objects"),
        (b'{"user": "ann", "prompt": "Hi.", "true_label": 5}', "user, prompt and true_label must be text"),
        (
            b'{"user": "ann", "prompt": "Hi.", "true_label": "x"}',
            "has no posts; the prompt files with the conversation",
        ),
        (b'{"user": "ann", "prompt": "Hi.", "true_lab', "row 1: truncated JSON"),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, content: bytes, fault: str):
    path = tmp_path / "x.json"
    path.write_bytes(content)

    (line,) = faults_of(path)

    assert fault in line


def test_the_faults_of_all_posts_are_collected(tmp_path: Path, posts: list[Row]):
    posts[2].pop("author")
    posts[4]["comments"][0]["score"] = "12"
    posts[7]["comments"][0]["timestamp"] = "12 o'clock"

    lines = faults_of(write_flat(posts, tmp_path / "flat.json"))

    assert [line.partition(":")[0] for line in lines] == [
        "flat.json post 3 column author",
        "flat.json post 5 column comments[0].score",
        "flat.json post 8 column comments[0].timestamp",
    ]


def test_a_file_that_is_not_there(tmp_path: Path):
    with pytest.raises(UserError, match="cannot be read: No such file"):
        next(read_posts(tmp_path / "none.json", Faults(), Counter()))
