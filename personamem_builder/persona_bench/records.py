"""What a PERSONA-Bench dataset folder holds: posts, messages, users, and the items of the three tasks."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, NotRequired, TypedDict

import pyarrow as pa

SCHEMA_VERSION: Final = 1

TASKS: Final = ("sentiment", "impact", "next_text")
"""Is the score of a reply above 0; what is its score; what does the author write next."""

CONDITIONS: Final = ("pconv", "pnonconv", "npconv")
"""Own history with the conversation, own history without it, another author's history with the conversation."""

SPLITS: Final = ("train", "validation", "test")
"""Authors are in one split each."""

DOMAINS: Final = (
    *("worldnews", "science", "politics", "technology", "gaming"),
    *("life", "movies", "books", "entrepreneur", "art"),
)
"""Subreddits, in the order of the source's README."""

OTHER: Final = "other"
"""All other subreddits together: they are not of the benchmark, and a row for each would be long."""


def domain_of(subreddit: str) -> str:
    """Return the domain of a subreddit, whatever its case and with or without `r/` before it."""
    name = subreddit.strip().strip("/").lower().removeprefix("r/")
    return name if name in DOMAINS else OTHER


class PostRow(TypedDict):
    """A row of `POST_SCHEMA`."""

    post_id: str
    author: str
    subreddit: str
    title: str
    body: str
    url: str
    score: int | None
    timestamp: datetime | None


class MessageRow(TypedDict):
    """A row of `MESSAGE_SCHEMA`."""

    message_id: str
    post_id: str
    parent_id: str
    position: int
    depth: int
    author: str
    body: str
    score: int | None
    timestamp: datetime | None
    deleted: bool
    edited: bool


class UserRow(TypedDict):
    """A row of `USER_SCHEMA`."""

    author: str
    posts: int
    messages: int
    split: str


class ShownMessage(TypedDict):
    """A comment in the `conversation` of an item."""

    message_id: str
    parent_id: str
    author: str
    body: str
    timestamp: datetime | None


class ShownText(TypedDict):
    """A text in the `history`, or `other_history`, of an item."""

    message_id: str
    subreddit: str
    title: str
    body: str
    timestamp: datetime


class ShownContext(TypedDict):
    """The texts of others, and earlier ones, that an item shows."""

    conversation: list[ShownMessage]
    history: list[ShownText]
    other_author: str
    other_history: list[ShownText]


class ItemRow(ShownContext):
    """A row of `ITEM_SCHEMA`."""

    item_id: str
    task: str
    post_id: str
    target_id: str
    author: str
    subreddit: str
    timestamp: datetime
    title: str
    content: str
    target_parent_id: str
    target_text: str
    positive: bool | None
    score: int | None
    reply: str
    parent_score: int | None


class ItemDoc(TypedDict):
    """An item as lm-eval handles it: its prompt, the `truth` of its task, and what the floors read.

    `cut` is how many texts are left out of the prompt or shortened. `parent_text` is the post's where the target
    replies to the post, `last_text` the author's last one. What is read back from results has no prompt.
    """

    item_id: str
    author: str
    subreddit: str
    prompt: NotRequired[str]
    cut: NotRequired[int]
    truth: Any
    parent_score: int | None
    parent_text: str | None
    last_text: str | None


_MESSAGE: Final = pa.struct(
    [
        ("message_id", pa.string()),
        ("parent_id", pa.string()),
        ("author", pa.string()),
        ("body", pa.string()),
        ("timestamp", pa.timestamp("ms", tz="UTC")),
    ]
)

_TEXT: Final = pa.struct(
    [
        ("message_id", pa.string()),
        ("subreddit", pa.string()),
        ("title", pa.string()),
        ("body", pa.string()),
        ("timestamp", pa.timestamp("ms", tz="UTC")),
    ]
)

POST_SCHEMA: Final = pa.schema(
    [
        ("post_id", pa.string()),
        ("author", pa.string()),
        ("subreddit", pa.string()),
        ("title", pa.string()),
        ("body", pa.string()),
        ("url", pa.string()),
        ("score", pa.int64()),
        ("timestamp", pa.timestamp("ms", tz="UTC")),
    ]
)
"""A row per post. Ids come from content and position; `author` is empty where it was deleted."""

MESSAGE_SCHEMA: Final = pa.schema(
    [
        ("message_id", pa.string()),
        ("post_id", pa.string()),
        ("parent_id", pa.string()),
        ("position", pa.int32()),
        ("depth", pa.int32()),
        ("author", pa.string()),
        ("body", pa.string()),
        ("score", pa.int64()),
        ("timestamp", pa.timestamp("ms", tz="UTC")),
        ("deleted", pa.bool_()),
        ("edited", pa.bool_()),
    ]
)
"""A row per comment, depth first; `parent_id` is the post's id at depth 0."""

USER_SCHEMA: Final = pa.schema(
    [("author", pa.string()), ("posts", pa.int32()), ("messages", pa.int32()), ("split", pa.string())]
)
"""A row per author."""

ITEM_SCHEMA: Final = pa.schema(
    [
        ("item_id", pa.string()),
        ("task", pa.string()),
        ("post_id", pa.string()),
        ("target_id", pa.string()),
        ("author", pa.string()),
        ("subreddit", pa.string()),
        ("timestamp", pa.timestamp("ms", tz="UTC")),
        # What may be shown; all of it was written before the target.
        ("title", pa.string()),
        ("content", pa.string()),
        ("conversation", pa.list_(_MESSAGE)),
        ("target_parent_id", pa.string()),
        ("target_text", pa.string()),
        ("history", pa.list_(_TEXT)),
        ("other_author", pa.string()),
        ("other_history", pa.list_(_TEXT)),
        # What is to be found.
        ("positive", pa.bool_()),
        ("score", pa.int64()),
        ("reply", pa.string()),
        ("parent_score", pa.int64()),
    ]
)
"""A row per item, the same items for all conditions.

`title` and `content` are the post's; `conversation` holds the comments written before the target, depth first, none
of the target's own subtree. `target_text` is the reply that is judged (sentiment and impact; empty for next_text,
whose `reply` is to be written). `history` and `other_history` are texts of the author and of another one from other
posts, written before the target, newest last. No score is among what may be shown: all scores are final ones, from
after the target. `positive`, `score` and `reply` are the labels (`reply` empty where it is shown); `parent_score`
serves floors only.
"""
