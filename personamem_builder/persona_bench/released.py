"""The released form of the tasks: items and prompts built as the released code does, to compare with its numbers.

The prompts follow the structure of the released ones in our own words. Their faults are kept where they change what is
measured (final scores in the prompt, the sign of the true score in `impact`, comments from after the target in
`next_text`, an example that is not random in `npconv`); the task README lists them. No score from here says anything
about personalisation.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from generation.errors import UserError
from personamem_builder.persona_bench.records import CONDITIONS, TASKS, ItemDoc, MessageRow, PostRow

_EXAMPLE_DISTANCE: Final = 200
"""In `npconv` the example is that of the item so many positions later, from the start again at the end."""
_POST_CHARACTERS: Final = 500
_PARENT_CHARACTERS: Final = 100

_QUESTIONS: Final = {
    "sentiment": "Is the score of this reply positive or negative? Answer with one word: positive or negative.",
    "impact": "What is the score of this reply? Answer with one number.",
}
_UNRELATED: Final = "The example is from another, unrelated thread."
_FIXED_EXAMPLE: Final = (
    "Example, from r/history, the post “Why were Roman roads so straight?”\n"
    "Reply: Surveyors sighted from hill to hill with a groma, so each stretch is straight, with bends on the hills.\n"
    "Score: 57"
)
"""Made up, as the source's is: the only example in `pnonconv` of `impact`."""


@dataclass(frozen=True)
class ReleasedItem:
    """An item of the released form: all comments of the post, depth first, and two of its author's replies to it."""

    post: PostRow
    messages: Sequence[MessageRow]
    target: MessageRow
    example: MessageRow


def released_items(task: str, posts: Sequence[PostRow], messages: Sequence[MessageRow]) -> list[ReleasedItem]:
    """Choose items as the released code does.

    `sentiment` and `impact`: of each post, the reply of the post's author with the largest absolute score. The post
    needs more than three participants (its author included), more than two replies of its author, a largest absolute
    score above 3 and a parent that was not deleted. Of the items with a positive score, the half with the smaller
    scores is dropped (of an odd number, the smaller half). The example is the reply with the second largest absolute
    score. `next_text`: the author's latest reply. The post needs two replies of its author; at least two top-level
    threads that have replies and the author in them; and at most a third of deleted comments in the target's thread.
    The target is not deleted. The example is the second latest reply.

    Args:
        task: One of `TASKS`.
        posts: Rows of `POST_SCHEMA`; the items are in their order.
        messages: Rows of `MESSAGE_SCHEMA`, each post's depth first.
    """
    trees: dict[str, list[MessageRow]] = defaultdict(list)
    for message in messages:
        trees[message["post_id"]].append(message)
    choose = _latest if task == "next_text" else _largest
    items = [
        item
        for post in posts
        if post["author"] and (item := choose(post, trees[post["post_id"]], _replies(post, trees[post["post_id"]])))
    ]
    if task == "next_text":
        return items
    positive = sorted((item for item in items if _score(item.target) > 0), key=lambda item: _score(item.target))
    dropped = {item.post["post_id"] for item in positive[: len(positive) // 2]}
    return [item for item in items if item.post["post_id"] not in dropped]


def released_docs(task: str, condition: str, posts: Sequence[PostRow], messages: Sequence[MessageRow]) -> list[ItemDoc]:
    """Build the rows of a released task; raises `UserError` where no post yields an item."""
    if task not in TASKS or condition not in CONDITIONS:
        raise UserError(f"no task {task!r} with the condition {condition!r}", f"conditions: {', '.join(CONDITIONS)}")
    items = released_items(task, posts, messages)
    if not items:
        raise UserError(f"no post fits the released rules of {task}", "import more posts, or use the paired tasks")
    write = _text_prompt if task == "next_text" else _score_prompt
    docs: list[ItemDoc] = []
    for index, item in enumerate(items):
        shown = items[(index + _EXAMPLE_DISTANCE) % len(items)] if condition == "npconv" else item
        parent = _parent(item, item.target)
        score = _score(item.target)
        truths = {"sentiment": score > 0, "impact": score, "next_text": " ".join(item.target["body"].splitlines())}
        docs.append(
            {
                "item_id": f"released-{item.target['message_id']}",
                "author": item.post["author"],
                "subreddit": item.post["subreddit"],
                "prompt": write(task, condition, item, shown),
                "cut": 0,
                "truth": truths[task],
                "parent_score": parent["score"],
                "parent_text": parent["body"],
                "last_text": "",
            }
        )
    return docs


def _replies(post: PostRow, messages: Sequence[MessageRow]) -> list[MessageRow]:
    return [message for message in messages if message["author"] == post["author"]]


def _largest(post: PostRow, messages: Sequence[MessageRow], own: Sequence[MessageRow]) -> ReleasedItem | None:
    participants = {post["author"], *(m["author"] for m in messages if m["author"])}
    if len(participants) <= 3 or len(own) <= 2:
        return None
    scored = sorted((m for m in own if m["score"] is not None), key=lambda message: -abs(_score(message)))
    if len(scored) < 2:
        return None
    target, example, *_ = scored
    item = ReleasedItem(post, messages, target, example)
    if abs(_score(target)) <= 3 or _parent(item, target).get("deleted"):
        return None
    return item


def _latest(post: PostRow, messages: Sequence[MessageRow], own: Sequence[MessageRow]) -> ReleasedItem | None:
    if len(own) < 2:
        return None
    *_, example, target = sorted(
        own, key=lambda m: (m["timestamp"].timestamp() if m["timestamp"] else 0, m["position"])
    )
    threads = _threads(messages)
    with_author = [t for t in threads if len(t) > 1 and any(m["author"] == post["author"] for m in t)]
    (thread,) = (t for t in threads if any(m["message_id"] == target["message_id"] for m in t))
    deleted = sum(m["deleted"] for m in thread)
    if target["deleted"] or len(with_author) < 2 or 3 * deleted > len(thread):
        return None
    return ReleasedItem(post, messages, target, example)


def _threads(messages: Sequence[MessageRow]) -> list[list[MessageRow]]:
    """Split a post's comments into its top-level threads."""
    threads: list[list[MessageRow]] = []
    for message in messages:
        if message["depth"] == 0:
            threads.append([])
        threads[-1].append(message)
    return threads


def _parent(item: ReleasedItem, message: MessageRow) -> MessageRow | PostRow:
    """Return the comment that one replies to, or the post."""
    return next((m for m in item.messages if m["message_id"] == message["parent_id"]), item.post)


def _score_prompt(task: str, condition: str, item: ReleasedItem, shown: ReleasedItem) -> str:
    post, parent = item.post, _parent(item, item.target)
    summary = f"Post in r/{post['subreddit']}: {post['title']}\n{(post['body'] or '')[:_POST_CHARACTERS]}"
    parts = []
    if condition == "pnonconv":
        parts += [_FIXED_EXAMPLE] if task == "impact" else []
        parts.append(summary)
    else:
        parts.append(f"Example, from r/{shown.post['subreddit']}\n{_solved(task, shown.example)}")
        parts += [_UNRELATED] if condition == "npconv" else []
        parts.append(f"{summary}\nPost score: {post['score']}\nTime: {post['timestamp']}")
        if condition == "npconv":
            parts.append(f"Parent comment: {parent['body']}\nParent score: {parent['score']}")
        else:
            parts.append(f"Parent comment: {(parent['body'] or '')[:_PARENT_CHARACTERS]}")
    parts.append(f"Reply of the post's author: {item.target['body']}")
    if task == "impact":
        parts.append(f"Hint: the score of this reply is {'above' if _score(item.target) > 0 else 'not above'} 0.")
    return "\n\n".join([*parts, _QUESTIONS[task]])


def _solved(task: str, reply: MessageRow) -> str:
    label = f"Answer: {'positive' if _score(reply) > 0 else 'negative'}"
    return f"Reply: {reply['body']}\n{label if task == 'sentiment' else 'Score: ' + str(reply['score'])}"


def _text_prompt(task: str, condition: str, item: ReleasedItem, shown: ReleasedItem) -> str:
    parent = _parent(item, item.target)
    name = item.post["author"]
    ask = f"Write the reply of {name} to the one with the id {item.target['parent_id']}. Give its text only."
    if condition == "pnonconv":
        return "\n\n".join([f"A post: {_tree(item.post, [])}", f"A comment on it: {parent['body']}", ask])
    (thread,) = (t for t in _threads(shown.messages) if shown.example in t)
    before = thread[: thread.index(shown.example)]
    example = (
        f"Example. A thread: {_tree(shown.post, before)}\n"
        f"The next reply of {shown.post['author']} in it: {shown.example['body']}"
    )
    # In npconv the released prompt shows the other item's tree in place of the item's own.
    tree = f"A post with its comments: {_tree(shown.post, _without(shown.messages, shown.target))}"
    return "\n\n".join([example, tree, ask])


def _without(messages: Sequence[MessageRow], target: MessageRow) -> list[MessageRow]:
    """Return the comments less one and what is below it."""
    hidden = {target["message_id"]}
    for message in messages:  # a parent comes before its children
        if message["parent_id"] in hidden:
            hidden.add(message["message_id"])
    return [message for message in messages if message["message_id"] not in hidden]


def _tree(post: PostRow, messages: Sequence[MessageRow]) -> str:
    """Return a post and its comments as nested JSON, of any depth."""
    return "".join(_tree_parts(post, messages))


def _tree_parts(post: PostRow, messages: Sequence[MessageRow]) -> Iterator[str]:
    head = {"id": post["post_id"], "author": post["author"], "subreddit": post["subreddit"], "title": post["title"]}
    yield _opened({**head, "content": post["body"], **_votes(post)}, "comments")
    open_ids: list[str] = [post["post_id"]]
    first = True
    for message in messages:
        while open_ids[-1] != message["parent_id"] and len(open_ids) > 1:
            open_ids.pop()
            yield "]}"
            first = False
        yield "" if first else ", "
        node = {"id": message["message_id"], "author": message["author"], "body": message["body"], **_votes(message)}
        yield _opened(node, "replies")
        open_ids.append(message["message_id"])
        first = True
    yield "]}" * len(open_ids)


def _score(message: MessageRow) -> int:
    return message["score"] or 0


def _votes(row: MessageRow | PostRow) -> dict[str, Any]:
    return {"score": row["score"], "timestamp": str(row["timestamp"])}


def _opened(node: Mapping[str, Any], children: str) -> str:
    """Return the JSON of a node up to the start of the list of its children."""
    return f'{json.dumps(node, ensure_ascii=False)[:-1]}, "{children}": ['
