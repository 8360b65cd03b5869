"""Reading the files of PERSONA-Bench, a post at a time: none of them is ever in memory whole.

Four forms are told apart by how the file begins:

- the raw one, a list of posts;
- posts grouped by author, `{author: [post, …], …}`;
- the prompt rows of tasks 3.1 and 3.2, `{post_data_store: {id: post, …}, prediction_task: {…}}` a line. Of the store
  only the post that the task names is read: the others are examples, some of them invented. A target score that was
  hidden in the tree comes from `true_label`, where that is a number;
- the prompt rows of task 3.3, `{user, prompt, true_label, …}` a line, with the post as JSON within the prompt. The
  target was cut out there: it is put back, with neither score nor time, as the row has none. Rows that show another
  author's post, or none, are passed over and counted.

The JSON is parsed by `stream`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from generation.errors import UserError
from generation.reading import bounded_lines
from personamem_builder.official.faults import Faults
from personamem_builder.persona_bench import stream
from personamem_builder.persona_bench.tree import numbered_ids, walk

_FORMATS: Final = {
    b"PAR1": "a Parquet file",
    b"PK\x03\x04": "a zip archive; unpack it first",
    b"\x1f\x8b": "a gzip file; unpack it first",
    b"%PDF": "a PDF",
    b"\xff\xfe": "UTF-16 text; save it as UTF-8",
    b"\xfe\xff": "UTF-16 text; save it as UTF-8",
    b"<": "a web page (HTML) or XML",
    b"version https://git-lfs": "a Git LFS pointer; fetch the file itself",
}
_BOM: Final = b"\xef\xbb\xbf"
_BLANK: Final = b" \t\r\n"

_POST_KEYS: Final = {"author", "title", "comments", "content", "__sub__"}
_NO_KEY: Final = "UNKNOWN_AUTHOR"
"""What the source's grouping puts for a post without author."""

_JSON_PARTS: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}]', re.DOTALL)
_SHOWN: Final = 100
_MOST_STARTS: Final = 100
"""Places of a prompt where a post may begin that are looked at, from its end."""
_TARGET_ID: Final = re.compile(r"\bu\d+p\d+(?:-c\d+)+")


class RawPost(NamedTuple):
    """A post as it was read.

    Attributes:
        where: The file and the post, for messages.
        post: The post, with its tree of comments.
        linked: Whether `id` and `parent_id` of its comments count.
    """

    where: str
    post: dict[str, Any]
    linked: bool


def read_posts(path: Path, faults: Faults, counts: Counter[str]) -> Iterator[RawPost]:
    """Read one file, whatever its form.

    Args:
        path: The file.
        faults: Gets what is wrong with the file and its rows.
        counts: Gets what is passed over.

    Yields:
        The posts, in file order.

    Raises:
        UserError: The file cannot be opened, or ijson is not installed.
    """
    hint = "give the file with the posts"
    try:
        file = path.open("rb")
    except (OSError, ValueError) as error:  # ValueError: a path with a null character
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{path} cannot be read: {reason}", hint) from error
    with file:
        try:
            start = file.read(4096)
            skip = len(_BOM) if start.startswith(_BOM) else 0
            file.seek(skip)
            yield from _read(path, file, start[skip:].lstrip(_BLANK), faults, counts)
        except OSError as error:
            raise UserError(f"{path} cannot be read: {error.strerror or error}", hint) from error


def _read(path: Path, file: IO[bytes], start: bytes, faults: Faults, counts: Counter[str]) -> Iterator[RawPost]:
    name = path.name
    form = next((form for magic, form in _FORMATS.items() if start.startswith(magic)), None)
    if not start:
        faults.add(name, "is empty")
    elif form is not None:
        faults.add(name, f"is {form}; posts come as JSON or as JSON lines")
    elif start.startswith(b"["):
        yield from _flat(file, name, faults)
    elif not start.startswith(b"{"):
        faults.add(name, "is neither JSON nor JSON lines", value=start[:40].decode(errors="replace"))
    elif re.match(rb'\{\s*"(?:[^"\\]|\\.)*"\s*:\s*\[', start) or re.fullmatch(rb"\{\s*\}\s*", start):
        yield from _grouped(file, name, faults)
    else:
        yield from _rows(path, name, faults, counts)


def _flat(file: IO[bytes], name: str, faults: Faults) -> Iterator[RawPost]:
    number = 0
    try:
        for number, post in enumerate(stream.items(file), start=1):
            if number == 1 and not (isinstance(post, dict) and _POST_KEYS & post.keys()):
                faults.add(name, f"is a list, but not of posts: it starts with {_kind(post)}")
                return
            yield from _post(f"{name} post {number}", post, faults)
    except stream.JsonError as error:
        faults.add(name, str(error), row=number + 1)
    if not number and not faults.lines:
        faults.add(name, "has no posts")


def _grouped(file: IO[bytes], name: str, faults: Faults) -> Iterator[RawPost]:
    number = 0
    author = ""
    try:
        # One author's posts are in memory at a time.
        for author, posts in stream.entries(file):
            if not isinstance(posts, list):
                faults.add(f"{name} author {author!r}", f"must have a list of posts, not {_kind(posts)}")
                continue
            for number, post in enumerate(posts, start=1):
                where = f"{name} author {author!r} post {number}"
                if number == 1 and not (isinstance(post, dict) and _POST_KEYS & post.keys()):
                    faults.add(where, f"is {_kind(post)}, not a post")
                    break
                if isinstance(post, dict) and post.get("author") is None and author != _NO_KEY:
                    post["author"] = author
                elif isinstance(post, dict) and post.get("author") not in (author, None):
                    faults.add(where, f"stands under the author {author!r}", column="author", value=post["author"])
                yield from _post(where, post, faults)
    except stream.JsonError as error:
        faults.add(name, f"{error}, after the posts of {author!r}" if author else str(error))
    if not number and not faults.lines:
        faults.add(name, "has no posts")


def _post(where: str, post: object, faults: Faults) -> Iterator[RawPost]:
    if isinstance(post, dict):
        yield RawPost(where, post, linked=False)
    else:
        faults.add(where, "must be a post, an object", value=post)


def _rows(path: Path, name: str, faults: Faults, counts: Counter[str]) -> Iterator[RawPost]:
    found = False
    for number, line in bounded_lines(path):
        try:
            row = stream.parse(line.removeprefix(_BOM))
        except stream.JsonError as error:
            faults.add(name, str(error), row=number)
            continue
        keys = row.keys() if isinstance(row, dict) else ()
        if "post_data_store" in keys or "prediction_task" in keys:
            posts = list(_stored(row, f"{name} row {number}", faults))
        elif "prompt" in keys:
            posts = list(_prompted(row, f"{name} row {number}", faults, counts))
        else:
            faults.add(name, f"is {_kind(row)}, no row of task 3.1, 3.2 or 3.3", row=number)
            if number == 1:  # it is another kind of file
                return
            continue
        found = found or bool(posts)
        yield from posts
    if not found and not faults.lines:
        faults.add(name, "has no posts; the prompt files with the conversation have them")


def _stored(row: dict[str, Any], where: str, faults: Faults) -> Iterator[RawPost]:
    store, task = row.get("post_data_store"), row.get("prediction_task")
    if not isinstance(store, dict) or not isinstance(task, dict):
        faults.add(where, "post_data_store and prediction_task must be objects")
        return
    post_id, target_id = task.get("target_post_reference_id"), task.get("target_reply_id")
    if not isinstance(post_id, str) or not post_id:
        faults.add(where, "the post has no id", column="target_post_reference_id", value=post_id)
        return
    post = store.get(post_id)
    if not isinstance(post, dict):
        faults.add(where, "post_data_store has no post of this id", column="target_post_reference_id", value=post_id)
        return
    nodes = walk(post)
    for node, numbered in zip(nodes, numbered_ids(nodes, post_id), strict=True):
        if node.raw.get("id", numbered) == target_id and isinstance(node.raw.get("score"), str):
            label = task.get("true_label")  # a number in 3.2, "positive" or "negative" in 3.1
            node.raw["score"] = None if isinstance(label, str) else label
    yield RawPost(f"{where} post {post_id}", post, linked=True)


def _prompted(row: dict[str, Any], where: str, faults: Faults, counts: Counter[str]) -> Iterator[RawPost]:
    prompt, user, label = row.get("prompt"), row.get("user"), row.get("true_label")
    if not isinstance(prompt, str) or not isinstance(user, str) or not isinstance(label, str):
        faults.add(where, "user, prompt and true_label must be text")
        return
    post, end = _embedded(prompt)
    if post is None or post.get("author") != user:
        counts["rows_without_own_post"] += 1
        return
    post_id = post.get("id")
    if not isinstance(post_id, str) or not post_id:
        faults.add(where, "the post has no id", column="prompt", value=post_id)
        return
    # No id is shown behind the post but the target's, and that of what it replies to.
    places = {node.raw["id"]: node.raw for node in walk(post) if isinstance(node.raw.get("id"), str)}
    target_id = next((found for found in reversed(_TARGET_ID.findall(prompt[end:])) if found not in places), None)
    if target_id is not None:
        parent_id = target_id.rpartition("-")[0]
        target = {"id": target_id, "parent_id": parent_id, "author": user, "body": label}
        if parent_id == post_id:
            post["comments"] = [*(post.get("comments") or []), target]
        elif parent_id in places:
            parent = places[parent_id]
            parent["replies"] = [*(parent.get("replies") or []), target]
        else:
            faults.add(f"{where} post {post_id}", "the target's parent is not in the tree", value=parent_id)
    counts["rows_without_target"] += target_id is None
    yield RawPost(f"{where} post {post_id}", post, linked=True)


def _embedded(prompt: str) -> tuple[dict[str, Any] | None, int]:
    """Return the last post that a prompt has as JSON, from the start of a line, and where it ends."""
    starts = [match.start() for match in re.finditer(r"^\{", prompt, re.MULTILINE)]
    for start in reversed(starts[-_MOST_STARTS:]):
        depth = 0
        for part in _JSON_PARTS.finditer(prompt, start):
            depth += {"{": 1, "}": -1}.get(part[0], 0)
            if depth == 0:
                try:
                    post = stream.parse(prompt[start : part.end()].encode())
                except stream.JsonError:
                    break
                if isinstance(post, dict) and "comments" in post:
                    return post, part.end()
                break
    return None, 0


def _kind(value: object) -> str:
    told = "a list"
    if isinstance(value, dict):
        told = f"an object with {', '.join(list(value)[:4]) or 'nothing'}"
    elif not isinstance(value, list):
        told = repr(value)
    return told if len(told) <= _SHOWN else f"{told[: _SHOWN - 1]}…"
