"""Which replies become items, what they show, and the scan for what they must not show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from reddit_like import HARSH, deep_post, make_posts

from personamem_builder.official.faults import Faults
from personamem_builder.persona_bench.audit import Scan
from personamem_builder.persona_bench.items import MOST_MESSAGES, MOST_PER_POST, MOST_TEXTS, Items, split_of, user_rows
from personamem_builder.persona_bench.tree import take_apart

Row = dict[str, Any]


class Made:
    """Items, with what they were made from."""

    def __init__(self, raw: list[Row], seed: int = 0) -> None:
        faults = Faults()
        apart = [take_apart(post, f"post {n}", faults, Counter()) for n, post in enumerate(raw)]
        assert faults.lines == []
        self.posts = [row for row, _ in apart]
        self.messages = [message for _, messages in apart for message in messages]
        threads = {row["post_id"]: messages for row, messages in apart}
        self.maker = Items(self.posts, threads, user_rows(self.posts, self.messages, seed), seed)
        self.split_items = list(self.maker)
        self.items = [item for _, item in self.split_items]
        self.by_id = {message["message_id"]: message for message in self.messages}
        self.scan = Scan(self.posts, self.messages)

    def of(self, task: str) -> list[Row]:
        return [item for item in self.items if item["task"] == task]

    def target(self, item: Row) -> Row:
        return self.by_id[item["target_id"]]


@pytest.fixture(scope="module")
def made() -> Made:
    return Made([*make_posts(seed=5, users=60), deep_post(3000, author="user_0001", other="user_0002")])


def at(minute: int) -> str:
    return (datetime(2023, 6, 1, tzinfo=UTC) + timedelta(minutes=minute)).isoformat()


def say(author: str, body: str, minute: int | None, *replies: Row, **changes: Any) -> Row:
    time = None if minute is None else at(minute)
    return {"author": author, "body": body, "score": 1, "timestamp": time, "replies": list(replies)} | changes


def post_of(author: str, title: str, minute: int, *comments: Row) -> Row:
    return {
        "author": author,
        "title": title,
        "content": f"All about {title}.",
        "__sub__": "life",
        "score": 3,
        "timestamp": at(minute),
        "comments": list(comments),
    }


def small(*comments: Row, minute: int = 0) -> Made:
    """A post of op's with these comments, and earlier posts, so that there is history."""
    earlier = [post_of(author, f"before, by {author}", -100) for author in ("op", *(f"x{n}" for n in range(20)))]
    return Made([*earlier, post_of("op", "now", minute, *comments)])


def shown(item: Row) -> list[tuple[str, str]]:
    """The conversation: each text with that of its parent."""
    texts = {message["message_id"]: message["body"] for message in item["conversation"]}
    return [(m["body"], texts.get(m["parent_id"], m["parent_id"][:1])) for m in item["conversation"]]


def test_the_conversation_is_what_was_written_before_without_the_target_and_its_subtree():
    made = small(
        say("ann", "early", 1, say("op", "target", 10, say("ann", "answer, with a wrong clock", 2), score=7)),
        say("bob", "same second, elsewhere", 10),
        say("bob", "later", 11),
        say("bob", "before", 9, say("eve", "later, below", 12)),
        say("eve", "time unknown", None),
        say("eve", "edited", 3, say("bob", "below the edited one", 4), edited=True),
        say("eve", "[deleted]", 5, say("bob", "below the deleted one", 6)),
    )

    (item,) = made.of("impact")

    assert item["target_text"] == "target"
    assert shown(item) == [
        ("early", "p"),
        ("before", "p"),
        ("below the edited one", "p"),
        ("[deleted]", "p"),
        ("below the deleted one", "[deleted]"),
    ]
    assert made.scan.leaks(item) == []


def test_what_stands_above_the_target_is_shown_though_it_has_the_same_second_or_was_edited():
    made = small(say("ann", "first", 10, say("bob", "second", 10, say("op", "target", 10)), edited=True))

    (item,) = made.of("sentiment")

    assert shown(item) == [("first", "p"), ("second", "first")]
    assert made.maker.noted["edited_above_target"] == 2  # the scored item and the one of next_text
    assert made.scan.leaks(item) == []


def test_every_reply_with_a_score_counts_whatever_the_score_is():
    scores = [5000, 3, 1, 0, -1, -400]
    made = small(*(say("ann", f"q{n}", n + 1, say("op", f"a{n}", n + 50, score=s)) for n, s in enumerate(scores)))

    assert {item["score"]: item["positive"] for item in made.of("sentiment")} == {
        5000: True,
        3: True,
        1: True,
        0: False,
        -1: False,
        -400: False,
    }
    assert [item["score"] for item in made.of("impact")] == scores


@pytest.mark.parametrize(
    ("thread", "problem"),
    [
        (say("ann", "q", 1, say("op", "[removed]", 2)), "text deleted"),
        (say("ann", "q", 1, say("op", "a", None)), "time or score unknown"),
        (say("ann", "q", 1, say("op", "a", 2, score=None)), "time or score unknown"),
        (say("ann", "q", 1, say("op", "a", 2, edited=True)), "edited"),
        (say("ann", "[deleted]", 1, say("op", "a", 2)), "parent deleted"),
        (say("ann", "q", 3, say("op", "a", 2)), "before what it replies to"),
        (say("op", "to myself", 2), "nobody else before it"),
    ],
)
def test_replies_that_do_not_fit_are_left_out_and_counted(thread: Row, problem: str):
    made = small(thread)

    assert made.of("sentiment") == []
    assert made.maker.dropped[f"scored: {problem}"] == 1


def test_an_author_without_other_texts_before_has_no_items():
    thread = say("ann", "q", 1, say("op", "a", 2))
    later = post_of("op", "later", 50)

    alone = Made([post_of("op", "now", 0, thread), later, post_of("ann", "x", -5)])

    assert alone.items == []
    assert alone.maker.dropped["scored: no history"] == 1


def test_a_history_has_neither_texts_of_the_same_second_nor_edited_or_deleted_ones():
    elsewhere = post_of(
        "ann",
        "elsewhere",
        -50,
        say("op", "earlier", 9),
        say("op", "same second", 10),
        say("op", "edited", 8, edited=True),
        say("op", "[removed]", 7),
    )
    now = post_of("op", "now", 0, say("ann", "q", 1, say("op", "target", 10)))

    made = Made([elsewhere, now, *(post_of(f"x{n}", "before", -100) for n in range(20))])

    assert [[text["body"] for text in item["history"]] for item in made.items] == [["earlier"]] * 3


def test_next_text_is_the_latest_reply_of_the_author_in_each_thread():
    made = small(
        say("ann", "one", 1, say("op", "newest", 30), say("bob", "b", 2, say("op", "older, deeper", 20))),
        say("ann", "two", 1, say("op", "only", 5), say("op", "[deleted]", 40)),
        say("ann", "three", 1, say("bob", "not the author", 5)),
    )

    items = made.of("next_text")

    assert [item["reply"] for item in items] == ["newest", "only"]
    assert all(item["target_text"] == "" and item["score"] is None and item["positive"] is None for item in items)
    assert ("older, deeper", "b") in shown(items[0])


def test_many_replies_in_a_post_are_drawn_from_whatever_their_scores():
    thread = [say("ann", f"q{n}", 1, say("op", f"a{n}", n + 2, score=n)) for n in range(40)]

    made = small(*thread)

    drawn = [item["score"] for item in made.of("impact")]
    assert len(drawn) == MOST_PER_POST
    assert max(drawn) < 39 or min(drawn) > 0  # neither the largest nor the smallest were looked for
    assert small(*thread).items == made.items


def test_a_long_conversation_keeps_what_is_above_and_then_the_latest(made: Made):
    deep = [item for item in made.of("impact") if item["title"].startswith("How deep")]
    assert len(deep) == MOST_PER_POST

    for item in deep:
        bodies = [message["body"] for message in item["conversation"]]
        last = int(made.by_id[item["target_parent_id"]]["body"].split()[1])
        assert bodies == [
            f"Step {n} down the ladder, and still going." for n in range(max(0, last - MOST_MESSAGES + 1), last + 1)
        ]
        assert item["conversation"][0]["parent_id"] == item["post_id"]


def test_conversations_are_whole_trees_depth_first(made: Made):
    for item in made.items:
        known = {item["post_id"]}
        for message in item["conversation"]:
            assert message["parent_id"] in known
            known.add(message["message_id"])
        assert item["target_parent_id"] in known


def test_histories_are_earlier_texts_from_other_posts_newest_last(made: Made):
    author_of = {row["post_id"]: row["author"] for row in made.posts}
    author_of |= {row["message_id"]: row["author"] for row in made.messages}
    lengths = set()
    for item in made.items:
        for column, author in (("history", item["author"]), ("other_history", item["other_author"])):
            texts = item[column]
            times = [text["timestamp"] for text in texts]
            assert times == sorted(times)
            assert all(time < item["timestamp"] for time in times)
            assert {author_of[text["message_id"]] for text in texts} <= {author}
            assert not any(text["message_id"].startswith(item["post_id"]) for text in texts)
        assert item["other_author"] not in ("", item["author"])
        lengths.add(len(item["history"]))
    assert min(lengths) >= 1
    assert max(lengths) == MOST_TEXTS


def test_other_authors_are_of_the_same_split_have_as_much_history_and_vary(made: Made):
    splits = {author: split_of(author, 0) for author in {message["author"] for message in made.messages}}
    shorter = 0
    for split, item in made.split_items:
        assert splits[item["author"]] == splits[item["other_author"]] == split
        shorter += len(item["other_history"]) < len(item["history"])
    assert shorter < 0.1 * len(made.items)
    drawn = Counter(item["other_author"] for split, item in made.split_items if split == "train")
    assert drawn.most_common(1)[0][1] < 0.15 * drawn.total()


def test_the_same_seed_gives_the_same_items_and_another_one_does_not():
    raw = make_posts(seed=2, users=20)

    assert Made(raw, seed=1).split_items == Made(raw, seed=1).split_items
    assert Made(raw, seed=1).split_items != Made(raw, seed=2).split_items


def test_a_rule_that_reads_the_authors_history_beats_the_same_rule_with_another_authors(made: Made):
    def is_right(item: Row, column: str) -> bool:
        harsh = sum(any(word in text["body"] for word in HARSH) for text in item[column])
        return (harsh / len(item[column]) < 0.15) == item["positive"]

    def overlap(item: Row, column: str) -> float:
        reply = set(item["reply"].split())
        return len(reply & set(item[column][-1]["body"].split())) / len(reply)

    scored, written = made.of("sentiment"), [item for item in made.of("next_text") if item["other_history"]]
    scored = [item for item in scored if item["other_history"]]

    own, other = (sum(is_right(item, c) for item in scored) / len(scored) for c in ("history", "other_history"))
    assert own > other + 0.1
    own, other = (sum(overlap(item, c) for item in written) / len(written) for c in ("history", "other_history"))
    assert own > other + 0.1


def test_made_up_data_leak_nothing(made: Made):
    assert len(made.items) > 500
    assert [leak for item in made.items for leak in made.scan.leaks(item)] == []


def leaky(made: Made) -> Row:
    """An item whose target has answers, copied so that a leak can be planted."""
    answered = {message["parent_id"] for message in made.messages}
    item = next(
        item
        for item in made.of("impact")
        if item["target_id"] in answered and abs(item["score"]) >= 10 and item["conversation"] and item["other_history"]
    )
    return item | {c: [dict(entry) for entry in item[c]] for c in ("conversation", "history", "other_history")}


def as_shown(message: Row) -> Row:
    return {key: message[key] for key in ("message_id", "parent_id", "author", "body", "timestamp")}


def below(made: Made, item: Row) -> Row:
    return next(message for message in made.messages if message["parent_id"] == item["target_id"])


def later(made: Made, item: Row) -> Row:
    return next(
        message
        for message in made.messages
        if message["author"] == item["author"]
        and message["post_id"] != item["post_id"]
        and message["timestamp"] > item["timestamp"]
    )


def as_text(made: Made, message: Row) -> Row:
    post = next(post for post in made.posts if post["post_id"] == message["post_id"])
    place = {"subreddit": post["subreddit"], "title": post["title"]}
    return {"message_id": message["message_id"], **place, "body": message["body"], "timestamp": message["timestamp"]}


@pytest.mark.parametrize(
    ("plant", "found"),
    [
        (lambda made, item: item["conversation"].append(as_shown(made.target(item))), "the target itself"),
        (lambda made, item: item["conversation"].append(as_shown(below(made, item))), "stands below the target"),
        (lambda made, item: item["conversation"].append(as_shown(later(made, item))), "is not a comment of the post"),
        (lambda made, item: item["conversation"][0].update(score=3), "conversation 0: has a score"),
        (lambda made, item: item["conversation"][0].update(body="What came later."), "not as it was written"),
        (
            lambda made, item: item.update(content=f"{item['content']} Edit: see below."),
            "content: not as it was written",
        ),
        (lambda made, item: item.update(target_text=f"It got {item['score']} points"), "tells the score"),
        (lambda made, item: item["history"].append(as_text(made, later(made, item))), "not written before the target"),
        (lambda made, item: item["history"].append(as_text(made, made.target(item))), "from the target's post"),
        (lambda made, item: item.update(history=item["other_history"]), "of another author than"),
        (
            lambda made, item: item.update(other_history=item["history"], other_author=item["author"]),
            "other_history: not of another author",
        ),
    ],
)
def test_the_scan_finds_each_planted_leak(made: Made, plant: Callable[[Made, Row], object], found: str):
    item = leaky(made)
    assert made.scan.leaks(item) == []

    plant(made, item)

    assert any(found in leak for leak in made.scan.leaks(item)), made.scan.leaks(item)


def test_the_scan_finds_a_comment_of_the_same_second():
    made = small(say("ann", "q", 1, say("op", "a", 5)), say("bob", "same second", 5))
    (item,) = made.of("impact")
    (other,) = [message for message in made.messages if message["body"] == "same second"]

    item["conversation"].append(as_shown(other))

    assert made.scan.leaks(item) == [f"conversation, {other['message_id']}: not written before the target"]
