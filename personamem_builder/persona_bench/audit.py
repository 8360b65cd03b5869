"""A scan of PERSONA-Bench items: do they show what they must not, and do shortcuts find the labels?"""

from __future__ import annotations

import re
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypedDict

from generation.errors import UserError
from generation.files import file_digest
from personamem_builder.persona_bench.card import items_path, table_path
from personamem_builder.persona_bench.records import (
    ITEM_SCHEMA,
    MESSAGE_SCHEMA,
    POST_SCHEMA,
    SPLITS,
    TASKS,
    ItemRow,
    MessageRow,
    PostRow,
    ShownMessage,
    ShownText,
)
from personamem_builder.persona_bench.tables import iter_rows
from personamem_builder.persona_bench.write import read_manifest
from personamem_builder.statistics import Estimate

_SCORE_FROM: Final = 10
"""Smaller scores are told by chance too often to look for them in texts."""
_DECILES: Final = 10


class Audit(NamedTuple):
    """What was found in a folder.

    Attributes:
        items: How many items were scanned, and how many of them have a score above 0, by task and split.
        leaks: What is shown and must not be, a line each, with the item.
        probes: By task, what each shortcut reaches on the test split.
    """

    items: Mapping[str, Mapping[str, tuple[int, int]]]
    leaks: Sequence[str]
    probes: Mapping[str, Mapping[str, Mapping[str, Estimate]]]


class ProbedItem(TypedDict):
    """What shortcuts read of an item that has labels."""

    item_id: str
    author: str
    target_text: str
    positive: bool
    score: int
    parent_score: int | None


class Scan:
    """Compares what items show with the posts and comments that they were made from."""

    def __init__(self, posts: Iterable[PostRow], messages: Iterable[MessageRow]) -> None:
        self._posts = {post["post_id"]: post for post in posts}
        self._messages = {message["message_id"]: message for message in messages}
        self._below: dict[str, list[str]] = defaultdict(list)
        for message in self._messages.values():
            self._below[message["parent_id"]].append(message["message_id"])

    def leaks(self, item: ItemRow) -> list[str]:
        """Return what an item shows and must not, in words.

        Found are: a score (as a field, or told in a text as points or votes); the target, or what is below it; what
        was not written before the target, or whose time is unknown; texts that are not those of the posts and
        comments, into which anything may have been written; and history from the target's post, or of the wrong
        author.
        """
        target = self._messages.get(item["target_id"])
        post = self._posts.get(item["post_id"])
        if target is None or post is None:
            return ["the target is not among the comments"]
        return [
            *self._in_conversation(item, target),
            *self._in_history(item, target, "history"),
            *self._in_history(item, target, "other_history"),
            *_in_fields(item, target, post),
            *_scores(item),
        ]

    def _in_conversation(self, item: ItemRow, target: MessageRow) -> Iterator[str]:
        above = self._above(target)
        below = self._subtree(target["message_id"])
        for shown in item["conversation"]:
            known = self._messages.get(shown["message_id"])
            where = f"conversation, {shown['message_id']}"
            if known is None or known["post_id"] != item["post_id"]:
                yield f"{where}: is not a comment of the post"
                continue
            if shown["message_id"] == target["message_id"]:
                yield f"{where}: the target itself"
            elif shown["message_id"] in below:
                yield f"{where}: stands below the target"
            elif shown["message_id"] not in above and not _is_before(known, target):
                yield f"{where}: not written before the target"
            elif shown["message_id"] not in above and known["edited"]:
                yield f"{where}: edited, perhaps after the target"
            written = (known["body"], known["author"], known["timestamp"])
            if (shown["body"], shown["author"], shown["timestamp"]) != written:
                yield f"{where}: not as it was written"

    def _in_history(
        self, item: ItemRow, target: MessageRow, column: Literal["history", "other_history"]
    ) -> Iterator[str]:
        author = item["author"] if column == "history" else item["other_author"]
        if column == "other_history" and item[column] and author in ("", item["author"]):
            yield f"{column}: not of another author"
        for shown in item[column]:
            known = self._messages.get(shown["message_id"]) or self._posts.get(shown["message_id"])
            where = f"{column}, {shown['message_id']}"
            if known is None:
                yield f"{where}: is not a post or comment"
                continue
            if known["post_id"] == item["post_id"]:
                yield f"{where}: from the target's post"
            if known["author"] != author:
                yield f"{where}: of another author than {author!r}"
            if not _is_before(known, target):
                yield f"{where}: not written before the target"
            post = self._posts[known["post_id"]]
            written = (known["body"], known["timestamp"], post["title"], post["subreddit"])
            if (shown["body"], shown["timestamp"], shown["title"], shown["subreddit"]) != written:
                yield f"{where}: not as it was written"

    def _above(self, message: MessageRow) -> set[str]:
        above: set[str] = set()
        parent = self._messages.get(message["parent_id"])
        while parent is not None and parent["message_id"] not in above:
            above.add(parent["message_id"])
            parent = self._messages.get(parent["parent_id"])
        return above

    def _subtree(self, message_id: str) -> set[str]:
        below: set[str] = set()
        stack = [*self._below.get(message_id, ())]
        while stack:
            below.add(found := stack.pop())
            stack += self._below.get(found, ())
        return below


def audit_folder(folder: Path) -> Audit:
    """Scan all items of a PERSONA-Bench folder, and probe the labels of its test split.

    Raises:
        UserError: It is none, or its files are not those of the manifest.
    """
    files = read_manifest(folder)["files"]
    changed = [n for n in files if not (folder / n).is_file() or file_digest(folder / n) != files[n]["sha256"]]
    if changed:
        raise UserError(f"{folder}: {', '.join(changed)} is not what the manifest says", "import the posts again")
    tables = (("posts", POST_SCHEMA), ("messages", MESSAGE_SCHEMA))
    scan = Scan(*(iter_rows(folder / table_path(name), schema) for name, schema in tables))
    counts: dict[str, dict[str, tuple[int, int]]] = {task: {} for task in TASKS}
    leaks = []
    for task in TASKS:
        for split in SPLITS:
            items = positive = 0
            for item in iter_rows(folder / items_path(task, split), ITEM_SCHEMA):
                items += 1
                positive += item["positive"] is True
                leaks += [f"{split} {item['item_id']}: {leak}" for leak in scan.leaks(item)]
            counts[task][split] = (items, positive)
    return Audit(counts, leaks, {task: _probes(folder, task) for task in TASKS if task != "next_text"})


def render(audit: Audit) -> str:
    """Return an audit as text: the leaks, then a table of shortcuts for each task that has labels."""
    from personamem_builder.persona_bench.floors import render as table

    lines = [
        f"{task}: {', '.join(_count(task, split, *counts) for split, counts in splits.items())}"
        for task, splits in audit.items.items()
    ]
    lines.append(f"leaks: {len(audit.leaks)}")
    lines += [f"  {leak}" for leak in audit.leaks[:20]]
    for task, probes in audit.probes.items():
        lines += ["", f"{task}, shortcuts on the test split:", table(probes) if probes else "no items to probe"]
    return "\n".join(lines)


def _count(task: str, split: str, items: int, positive: int) -> str:
    share = f" ({100 * positive / items:.1f} % positive)" if items and task != "next_text" else ""
    return f"{items} {split}{share}"


def _is_before(text: MessageRow | PostRow, target: MessageRow) -> bool:
    when, end = text["timestamp"], target["timestamp"]
    return when is not None and end is not None and when < end


def _in_fields(item: ItemRow, target: MessageRow, post: PostRow) -> Iterator[str]:
    shown = {
        "title": (item["title"], post["title"]),
        "content": (item["content"], post["body"]),
        "target_text": (item["target_text"], "" if item["task"] == "next_text" else target["body"]),
    }
    for key, (text, written) in shown.items():
        if text != written:
            yield f"{key}: not as it was written"
    if item["task"] != "next_text" and target["edited"]:
        yield "target_text: edited, perhaps after the votes"


def _scores(item: ItemRow) -> Iterator[str]:
    texts = {"title": item["title"], "content": item["content"], "target_text": item["target_text"]}
    columns: dict[str, Sequence[ShownMessage | ShownText]] = {
        "conversation": item["conversation"],
        "history": item["history"],
        "other_history": item["other_history"],
    }
    for column, entries in columns.items():
        for number, entry in enumerate(entries):
            texts[f"{column} {number}"] = entry["body"]
            if any("score" in key for key in entry):
                yield f"{column} {number}: has a score"
    score = item["score"]
    if score is None or abs(score) < _SCORE_FROM:
        return
    told = re.compile(
        rf"(?<![\w.-]){score}\s+(?:points?|karma|(?:up|down)?votes?)\b|\b(?:score|karma)\W{{1,3}}{score}(?![\w.])",
        re.IGNORECASE,
    )
    for where, text in texts.items():
        if told.search(text):
            yield f"{where}: tells the score {score}"


def _probes(folder: Path, task: str) -> dict[str, dict[str, Estimate]]:
    from personamem_builder.persona_bench.metrics import score_answer, summarise

    columns = [*ProbedItem.__annotations__]
    train, test = (
        list(iter_rows(folder / items_path(task, split), ITEM_SCHEMA, columns)) for split in ("train", "test")
    )
    if not train or not test:
        return {}
    label = "positive" if task == "sentiment" else "score"
    rules = _sign_rules(train) if task == "sentiment" else _score_rules(train)
    return {
        name: summarise(
            task, [score_answer(task, item["item_id"], item["author"], item[label], [rule(item)]) for item in test]
        )
        for name, rule in rules.items()
    }


def _length(item: ProbedItem) -> int:
    return len(item["target_text"])


def _sign_rules(train: Sequence[ProbedItem]) -> dict[str, Callable[[ProbedItem], Any]]:
    positive = 2 * sum(item["positive"] for item in train) >= len(train)
    bound, long_is_positive = _length_rule(train)
    return {
        "majority": lambda item: positive,
        "length": lambda item: (_length(item) > bound) == long_is_positive,
        "parent's score": lambda item: (item["parent_score"] or 0) > 0,
    }


def _length_rule(train: Sequence[ProbedItem]) -> tuple[int, bool]:
    """Return the bound, and whether longer replies are the positive ones, that part the classes best in `train`."""
    lengths = sorted(map(_length, train))
    of_class = [[_length(item) for item in train if item["positive"] is value] for value in (True, False)]
    best = (0.0, lengths[len(lengths) // 2], True)
    for tenth in range(1, _DECILES):
        bound = lengths[tenth * len(lengths) // _DECILES]
        longer = [sum(length > bound for length in own) / max(1, len(own)) for own in of_class]
        best = max(best, (abs(longer[0] - longer[1]), bound, longer[0] >= longer[1]))
    return best[1:]


def _score_rules(train: Sequence[ProbedItem]) -> dict[str, Callable[[ProbedItem], Any]]:
    median = float(statistics.median(item["score"] for item in train))
    ordered = sorted(train, key=_length)
    tenths = [ordered[n * len(ordered) // _DECILES : (n + 1) * len(ordered) // _DECILES] for n in range(_DECILES)]
    known = [
        (_length(tenth[-1]), float(statistics.median(item["score"] for item in tenth))) for tenth in tenths if tenth
    ]
    return {
        "majority (median)": lambda item: median,
        "length": lambda item: next((score for end, score in known if _length(item) <= end), known[-1][1]),
        "parent's score": lambda item: float(item["parent_score"] or 0),
    }
