"""One raw post, taken apart: a row for the post, and one for each comment of its tree, however deep it is.

What is a fault and stops the import: a post or comment that is no object; a post without author; a text, author, score
or timestamp of another kind than it must be, or a timestamp that does not parse; and, in the rows of prompt files, ids
that are missing or twice there, and parents that are missing, in a cycle, or others than the comment stands under.

What is only counted, as real data have much of it: deleted accounts, texts that were deleted or removed, edited
comments, and scores and times that are not given. Such rows are kept, since they hold the tree together.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final, NamedTuple

from personamem_builder.official.faults import Faults
from personamem_builder.persona_bench.records import MessageRow, PostRow

_NO_AUTHOR: Final = ("[deleted]", "[removed]")
_NO_TEXT: Final = ("", "[deleted]", "[removed]")
_MOST_STEPS: Final = 6
_INT64_END: Final = 2**63
_LAST_SECOND: Final = 2**40

Fault = Callable[[str, str, object], None]
"""Notes a fault of a post: the path within the post, the problem, and the value found."""


class Node(NamedTuple):
    """A comment in its tree: the place of its parent in the list of nodes (-1 for the post), and among its siblings."""

    raw: Any
    parent: int
    step: int
    depth: int


def take_apart(
    post: dict[str, Any], where: str, faults: Faults, counts: Counter[str], *, linked: bool = False
) -> tuple[PostRow, list[MessageRow]]:
    """Turn a raw post into rows.

    Args:
        post: The post, with `comments` and their `replies`.
        where: The file and the post, for messages.
        faults: Gets every fault; after one the rows are not to be used.
        counts: Gets what is only counted.
        linked: Whether `id` and `parent_id` of comments count, as in the rows of prompt files.

    Returns:
        The post, and its comments, depth first.
    """

    def fault(path: str, problem: str, value: object = None) -> None:
        faults.add(where, problem, column=path, value=value)

    nodes = walk(post, fault)
    if linked:
        nodes = _linked(post, nodes, fault)
    row = _post_row(post, fault, counts)
    return row, _message_rows(row["post_id"], nodes, fault, counts)


def walk(post: Mapping[str, Any], fault: Fault | None = None) -> list[Node]:
    """Return the comments of a post, depth first, without recursion.

    Args:
        post: The post as it was read.
        fault: Gets what is no comment; without it such things are passed over.
    """
    nodes: list[Node] = []

    def replies(raw: Mapping[str, Any], key: str, parent: int, depth: int) -> list[Node]:
        value = raw.get(key) or []  # Reddit's own JSON has "" for none
        if isinstance(value, list):
            return [Node(reply, parent, step, depth) for step, reply in reversed([*enumerate(value)])]
        if fault:
            fault(path_of(nodes, parent, key), "must be a list of comments", value)
        return []

    stack = replies(post, "comments", -1, 0)
    while stack:
        node = stack.pop()
        if isinstance(node.raw, dict):
            nodes.append(node)
            stack += replies(node.raw, "replies", len(nodes) - 1, node.depth + 1)
        elif fault:
            fault(path_of([*nodes, node], len(nodes)), "must be a comment, an object", node.raw)
    return nodes


def numbered_ids(nodes: list[Node], post_id: str) -> list[str]:
    """Return the ids that the prompt makers give to comments: `{parent's}-c{n}`, n counting depth first."""
    ids: list[str] = []
    for number, node in enumerate(nodes, start=1):
        ids.append(f"{post_id if node.parent < 0 else ids[node.parent]}-c{number}")
    return ids


def path_of(nodes: list[Node], index: int, key: str = "") -> str:
    """Return the path from the post to a comment, or to a key of it, such as `comments[0].replies[2].score`."""
    steps = []
    while index >= 0:
        node = nodes[index]
        steps.append(f"{'comments' if node.depth == 0 else 'replies'}[{node.step}]")
        index = node.parent
    steps.reverse()
    if len(steps) > _MOST_STEPS:
        steps[2:-2] = [f"({len(steps) - 4} levels)"]
    return ".".join([*steps, key] if key else steps)


def parse_time(value: object) -> datetime | None:
    """Return a timestamp in UTC, to the second; one without a zone is in UTC, a number counts seconds since 1970.

    Raises:
        ValueError: It is no timestamp.
    """
    if value is None or value == "":
        return None
    try:
        if isinstance(value, str):
            time = datetime.fromisoformat(value.strip())
            time = time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
        elif isinstance(value, int | Decimal) and not isinstance(value, bool) and -_LAST_SECOND < value < _LAST_SECOND:
            time = datetime.fromtimestamp(int(value), UTC)
        else:
            raise ValueError
    except (OverflowError, OSError, ValueError) as error:
        raise ValueError("not a timestamp such as 2023-04-05T06:07:08Z") from error
    return time.replace(microsecond=0)


def has_text(body: str) -> bool:
    """Say whether a text is there, and was not deleted or removed."""
    return body.strip().lower() not in _NO_TEXT


def _linked(post: Mapping[str, Any], nodes: list[Node], fault: Fault) -> list[Node]:
    """Return the nodes under the parents that they name, depth first again.

    The rows of prompt files have ids, or have lost them all. A comment that stands directly under the post may name any
    comment as its parent: then the tree was written as a list.
    """
    if not any("id" in node.raw or "parent_id" in node.raw for node in nodes):
        return nodes
    places: dict[str, int] = {}
    for index, node in enumerate(nodes):
        own = node.raw.get("id")
        if not isinstance(own, str) or not own:
            fault(path_of(nodes, index, "id"), "missing: other comments of this post have an id", own)
        elif own in places:
            fault(path_of(nodes, index, "id"), f"twice: {path_of(nodes, places[own])} has it too", own)
        else:
            places[own] = index
    parents = [_parent(post, nodes, index, places, fault) for index in range(len(nodes))]
    children: dict[int, list[int]] = {}
    for index in reversed(range(len(nodes))):
        children.setdefault(parents[index], []).append(index)
    ordered: list[Node] = []
    stack = [(index, -1, 0) for index in children.get(-1, ())]
    reached = set()
    while stack:
        index, parent, depth = stack.pop()
        reached.add(index)
        ordered.append(Node(nodes[index].raw, parent, nodes[index].step, depth))
        stack += [(child, len(ordered) - 1, depth + 1) for child in children.get(index, ())]
    for index in range(len(nodes)):
        if index not in reached:
            path = path_of(nodes, index, "parent_id")
            fault(path, "leads round in a cycle, never to the post", nodes[index].raw.get("parent_id"))
    return ordered


def _parent(post: Mapping[str, Any], nodes: list[Node], index: int, places: Mapping[str, int], fault: Fault) -> int:
    node = nodes[index]
    named = node.raw.get("parent_id")
    if named is None or (node.parent < 0 and named == post.get("id")):
        return node.parent
    if not isinstance(named, str) or named not in places:
        fault(path_of(nodes, index, "parent_id"), "no comment of the post has this id", named)
    elif node.parent < 0:
        return places[named]
    elif places[named] != node.parent:
        fault(path_of(nodes, index, "parent_id"), "is not the comment that it stands under", named)
    return node.parent


def _post_row(post: dict[str, Any], fault: Fault, counts: Counter[str]) -> PostRow:
    author = post.get("author")
    if not isinstance(author, str) or not author.strip():
        fault("author", "a post must have an author", author)
        author = ""
    content = next((key for key in ("content", "body", "selftext") if post.get(key) is not None), "content")
    row: PostRow = {
        "post_id": "",
        "author": _author(author, counts),
        "subreddit": _text(post, "__sub__" if post.get("__sub__") is not None else "subreddit", "", fault),
        "title": _text(post, "title", "", fault),
        "body": _text(post, content, "", fault),
        "url": _text(post, "url", "", fault),
        "score": _score(post, "", fault),
        "timestamp": _time(post, "", fault),
    }
    counts["posts_without_text"] += not has_text(row["body"])
    counts["posts_edited"] += _edited(post)
    counts["posts_without_time"] += row["timestamp"] is None
    identity = [str(value) for key, value in row.items() if key not in ("post_id", "score")]
    row["post_id"] = f"p{_digest(identity)[:12]}"
    return row


def _message_rows(post_id: str, nodes: list[Node], fault: Fault, counts: Counter[str]) -> list[MessageRow]:
    rows: list[MessageRow] = []
    for position, node in enumerate(nodes):
        raw = node.raw
        before = _Path(nodes, position)
        author = _author(_text(raw, "author", before, fault), counts)
        body = _text(raw, "body", before, fault)
        time = _time(raw, before, fault)
        row: MessageRow = {
            "message_id": f"{post_id}-{position}-{_digest([author, body, str(time)])[:6]}",
            "post_id": post_id,
            "parent_id": post_id if node.parent < 0 else rows[node.parent]["message_id"],
            "position": position,
            "depth": node.depth,
            "author": author,
            "body": body,
            "score": _score(raw, before, fault),
            "timestamp": time,
            "deleted": not has_text(body),
            "edited": _edited(raw),
        }
        counts["messages_deleted"] += row["deleted"]
        counts["messages_edited"] += row["edited"]
        counts["messages_without_score"] += row["score"] is None
        counts["messages_without_time"] += time is None
        rows.append(row)
    return rows


class _Path(NamedTuple):
    """The path to a comment, made only where it is told."""

    nodes: list[Node]
    place: int


def _tell(fault: Fault, before: _Path | str, key: str, problem: str, value: object) -> None:
    fault(path_of(before.nodes, before.place, key) if isinstance(before, _Path) else key, problem, value)


def _author(author: str, counts: Counter[str]) -> str:
    deleted = not author.strip() or author.lower() in _NO_AUTHOR
    counts["deleted_authors"] += deleted
    return "" if deleted else author


def _text(raw: Mapping[str, Any], key: str, before: _Path | str, fault: Fault) -> str:
    value = raw.get(key)
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    _tell(fault, before, key, "must be text", value)
    return ""


def _score(raw: Mapping[str, Any], before: _Path | str, fault: Fault) -> int | None:
    value = raw.get("score")
    if value is None:
        return None
    is_number = isinstance(value, int | Decimal) and not isinstance(value, bool)
    if is_number and -_INT64_END <= value < _INT64_END and value == int(value):
        return int(value)
    _tell(fault, before, "score", "must be a whole number" + (", not text" if isinstance(value, str) else ""), value)
    return None


def _time(raw: Mapping[str, Any], before: _Path | str, fault: Fault) -> datetime | None:
    value = raw.get("timestamp")
    try:
        return parse_time(value)
    except ValueError as error:
        _tell(fault, before, "timestamp", str(error), value)
        return None


def _edited(raw: Mapping[str, Any]) -> bool:
    """Say whether a text was edited: `edited` is true, or the time of the edit."""
    value = raw.get("edited")
    return bool(value) and not (isinstance(value, str) and re.fullmatch("false|no|none|0", value.strip().lower()))


def _digest(parts: list[str]) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
