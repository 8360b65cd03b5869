"""The prompts of the paired tasks: the same item under three conditions, one factor changed at a time.

A prompt has the sections *earlier texts*, *post*, *comments so far*, what is asked about, and the question. `pnonconv`
is `pconv` without the section of comments; `npconv` is `pconv` with another author's texts in the first section, under
the same heading. Nothing else differs. People have short names (`Author`, `U1`, …), the same in all conditions. The
post is always the target author's: so the items are made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from textwrap import indent
from typing import Final, Literal, NamedTuple

from generation.errors import UserError
from personamem_builder.persona_bench.records import CONDITIONS, TASKS, ItemDoc, ItemRow, ShownMessage, ShownText

TRUTH: Final[Mapping[str, Literal["positive", "score", "reply"]]] = {
    "sentiment": "positive",
    "impact": "score",
    "next_text": "reply",
}
"""The column that holds what is to be found."""

_INTRODUCTION: Final = (
    "All that follows was written on Reddit. One person is called Author, the others U1, U2 and so on; times are UTC."
)
_QUESTIONS: Final = {
    "sentiment": (
        "Readers vote comments up and down. Will the final score of this reply by Author, upvotes minus downvotes, be "
        "above 0? Answer with one word: positive if it will be above 0, negative if not.\n\nAnswer:"
    ),
    "impact": (
        "Readers vote comments up and down. What will the final score of this reply by Author be, upvotes minus "
        "downvotes? Answer with one whole number and nothing else.\n\nAnswer:"
    ),
    "next_text": "Write this reply as Author would write it. Give the text of the reply and nothing else.\n\nReply:",
}
_INDENTED_LEVELS: Final = 8
"""Deeper comments are not indented further; what each replies to is said by number."""


@dataclass(frozen=True)
class Limits:
    """How much of an item is shown, in characters; what is left out is counted and marked in the prompt.

    Attributes:
        history: Of the earlier texts, newest first.
        thread: Of the comments: those that the target replies to first, from its parent up, then the newest others.
        text: Of each single text, but for the one that is asked about and the one that is answered.
    """

    history: int = 8_000
    thread: int = 12_000
    text: int = 2_000


LIMITS: Final = {"history_chars": "history", "thread_chars": "thread", "text_chars": "text"}
"""What the fields of `Limits` are called in the metadata of a task."""


class Prompt(NamedTuple):
    """A prompt, and how many texts are left out of it or shortened."""

    text: str
    cut: int


def build_prompt(item: ItemRow, condition: str, limits: Limits | None = None) -> Prompt:
    """Write the prompt of an item.

    Args:
        item: The item.
        condition: One of `CONDITIONS`.
        limits: How much is shown; `Limits()` by default.

    Returns:
        The prompt, which holds neither a score nor anything written after the target.

    Raises:
        UserError: There is no such task or condition.
    """
    if item["task"] not in TASKS or condition not in CONDITIONS:
        raise UserError(
            f"no task {item['task']!r} with the condition {condition!r}",
            f"tasks are {', '.join(TASKS)}; conditions are {', '.join(CONDITIONS)}",
        )
    limits = limits or Limits()
    names = _names(item)
    history, history_cut = _history(item["other_history"] if condition == "npconv" else item["history"], limits)
    post, post_cut = _shorten(item["content"] or "", limits.text)
    sections = [
        _INTRODUCTION,
        f"## Earlier texts by Author, in other threads\n\n{history}",
        f"## The post by Author, in r/{item['subreddit']}\n\n{item['title']}\n\n{post}".rstrip(),
    ]
    cut = history_cut + post_cut
    if condition != "pnonconv":
        thread, thread_cut = _thread(item, names, limits)
        sections.append(f"## The comments so far\n\n{thread}")
        cut += thread_cut
    sections += [_asked(item, names), f"## Question\n\n{_QUESTIONS[item['task']]}"]
    return Prompt("\n\n".join(sections), cut)


def make_doc(item: ItemRow, condition: str, limits: Limits | None = None) -> ItemDoc:
    """Turn an item into the row that lm-eval handles, with the prompt of a condition."""
    prompt = build_prompt(item, condition, limits)
    parent = _parent(item)
    return {
        "item_id": item["item_id"],
        "author": item["author"],
        "subreddit": item["subreddit"],
        "prompt": prompt.text,
        "cut": prompt.cut,
        "truth": item[TRUTH[item["task"]]],
        "parent_score": item["parent_score"],
        "parent_text": parent["body"] if parent else item["content"] or item["title"],
        "last_text": item["history"][-1]["body"] if item["history"] else "",
    }


def _names(item: ItemRow) -> dict[str, str]:
    others = dict.fromkeys(message["author"] for message in item["conversation"])
    others.pop(item["author"], None)
    others.pop("", None)
    return {
        "": "[deleted]",
        item["author"]: "Author",
        **{name: f"U{number}" for number, name in enumerate(others, start=1)},
    }


def _parent(item: ItemRow) -> ShownMessage | None:
    """Return the comment that the target replies to, None where that is the post."""
    return next((m for m in item["conversation"] if m["message_id"] == item["target_parent_id"]), None)


def _asked(item: ItemRow, names: Mapping[str, str]) -> str:
    parent = _parent(item)
    if item["task"] != "next_text":
        return f"## The reply\n\nAuthor, {_time(item['timestamp'])}:\n{item['target_text']}"
    # What is answered is part of the question, so it is shown without the conversation as well.
    if parent is None:
        return "## The reply\n\nAuthor replies to the post itself."
    return (
        f"## The reply\n\nAuthor replies to this comment:\n\n"
        f"{names[parent['author']]}, {_time(parent['timestamp'])}:\n{parent['body']}"
    )


def _history(texts: Sequence[ShownText], limits: Limits) -> tuple[str, int]:
    shown: list[str] = []
    room, cut = limits.history, 0
    for text in reversed(texts):
        body, shortened = _shorten(text["body"] or "", limits.text)
        heading = f"[{_time(text['timestamp'])}, r/{text['subreddit']}, under “{text['title']}”]"
        room -= len(heading) + len(body)
        if room < 0:
            break
        shown.append(f"{heading}\n{body}".rstrip())
        cut += shortened
    left_out = len(texts) - len(shown)
    if left_out:
        shown.append(f"({_count(left_out, 'older text')} left out)")
    return "\n\n".join(reversed(shown)) or "(none)", cut + left_out


def _thread(item: ItemRow, names: Mapping[str, str], limits: Limits) -> tuple[str, int]:
    messages = item["conversation"]
    chosen = _chosen(item, limits)
    by_id = {message["message_id"]: message for message in messages}
    depths: dict[str, int] = {}
    numbers: dict[str, int] = {}
    lines: list[tuple[str, str]] = []
    """The comment, and how it is shown."""
    cut = 0
    for message in messages:
        key, parent = message["message_id"], message["parent_id"]
        depths[key] = depths[parent] + 1 if parent in depths else 0
        if key not in chosen:
            continue
        numbers[key] = len(numbers) + 1
        body, shortened = _shorten(message["body"] or "", limits.text)
        cut += shortened
        heading = (
            f"[{numbers[key]}] {names[message['author']]}, {_time(message['timestamp'])}"
            f"{_in_reply(parent, by_id, numbers)}:"
        )
        lines.append((key, _indented(f"{heading}\n{body}".rstrip(), depths[key])))
    place = item["target_parent_id"]
    target = _indented(
        f"[?] Author, {_time(item['timestamp'])}{_in_reply(place, by_id, numbers)}: the reply that is asked about",
        depths.get(place, -1) + 1,
    )
    shown = _with_target(lines, target, place, messages)
    left_out = len(messages) - len(lines)
    if left_out:
        shown.append(f"({_count(left_out, 'comment')} left out)")
    return "\n".join(shown), cut + left_out


def _with_target(lines: list[tuple[str, str]], target: str, parent: str, messages: Sequence[ShownMessage]) -> list[str]:
    """Put the target's place behind what is shown of the comments below its parent: it is the newest there."""
    keys = [key for key, _ in lines]
    below, last = {parent}, len(keys)
    for message in messages:
        key = message["message_id"]
        if message["parent_id"] in below or key == parent:
            below.add(key)
            last = keys.index(key) + 1 if key in keys else last
    shown = [line for _, line in lines]
    shown.insert(last, target)
    return shown


def _chosen(item: ItemRow, limits: Limits) -> set[str]:
    """Return the comments that fit: the target's ancestors from its parent up, then the newest of the others."""
    messages = {message["message_id"]: message for message in item["conversation"]}
    order: dict[str, None] = {}
    key = item["target_parent_id"]
    while key in messages and key not in order:
        order[key] = None
        key = messages[key]["parent_id"]
    newest = sorted(messages.values(), key=lambda m: (_moment(m["timestamp"]), m["message_id"]), reverse=True)
    order |= dict.fromkeys(message["message_id"] for message in newest)
    room, chosen = limits.thread, set()
    for key in order:
        room -= min(len(messages[key]["body"] or ""), limits.text)
        if room < 0:
            break
        chosen.add(key)
    return chosen


def _in_reply(parent: str, by_id: Mapping[str, ShownMessage], numbers: Mapping[str, int]) -> str:
    if parent not in by_id:
        return ""
    return f", in reply to [{numbers[parent]}]" if parent in numbers else ", in reply to a comment left out"


def _indented(text: str, depth: int) -> str:
    return indent(text, "  " * min(depth, _INDENTED_LEVELS))


def _shorten(text: str, limit: int) -> tuple[str, int]:
    return (text, 0) if len(text) <= limit else (f"{text[:limit].rstrip()} … (shortened)", 1)


def _moment(time: datetime | None) -> float:
    return time.timestamp() if time else 0.0


def _time(time: datetime | None) -> str:
    return f"{time:%Y-%m-%d %H:%M}" if time else "time unknown"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
