"""The items of the three tasks, and the split of each author.

Which replies become items:

- **sentiment** and **impact** have the same items: every reply of a post's author in that post, whatever its score.
  Those of the source are each post's reply with the largest absolute score, less half of the positive ones; that choice
  looks at the label, and so is not made here. A score of 0 is kept: on Reddit a reply starts at 1, so 0 means that it
  was voted down, and it is not positive.
- **next_text**: the author's latest reply in each thread, a thread being a reply to the post with all below it.

What an item needs, none of which looks at the label:

- the target's score (not for next_text) and time are known, its text is there and was not edited: an edit comes after
  the votes, and often speaks of them;
- the text of what it replies to is there, and nothing above it is later than it is;
- somebody else has written in the conversation before;
- the author has written elsewhere before, so that there is a history.

Of a post with more than 10 such targets in a task, 10 are drawn (seeded): else a few long threads would be most of the
data, and their trees, once per item, most of the bytes.

What may be shown was written before the target, strictly: what has the same second counts as after, but for what stands
above the target. The conversation is without the target and all below it, and without comments of unknown time; edited
ones are left out too, since their text may be from later, but for those above the target (the manifest counts them). At
most 200 comments are kept: those above the target, nearest first, then the latest of the others. Where a comment is
left out, those below it hang under the next comment above that is kept, or under the post: the conversation is always a
whole tree.

The history is the author's latest 20 texts from other posts (own posts and comments anywhere), neither deleted nor
edited. The other history is as many texts of another author, drawn at random (seeded, by target) from those of the same
split who have at least as many; from the whole split, the longest first, where nobody has.
"""

from __future__ import annotations

import bisect
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from generation.seeds import rng_for
from personamem_builder.persona_bench.records import (
    ItemRow,
    MessageRow,
    PostRow,
    ShownContext,
    ShownMessage,
    ShownText,
    UserRow,
)
from personamem_builder.persona_bench.tree import has_text

MOST_PER_POST: Final = 10
MOST_MESSAGES: Final = 200
MOST_TEXTS: Final = 20

_SHARES: Final = (("train", 0.7), ("validation", 0.8), ("test", 1.0))
"""Where in [0, 1) each split ends."""
_TRIES: Final = 32


class IndexedText(NamedTuple):
    """A text in the index of an author: `key` orders those of one second."""

    timestamp: datetime
    key: tuple[str, int]
    post_id: str
    row: ShownText


def split_of(author: str, seed: int) -> str:
    """Return the split of an author: it depends on nothing but the name and the seed."""
    place = rng_for(seed, "split", author).random()
    return next(split for split, end in _SHARES if place < end)


def user_rows(posts: Iterable[PostRow], messages: Iterable[MessageRow], seed: int) -> list[UserRow]:
    """Return a row of `USER_SCHEMA` for each author that has a name, by name."""
    wrote = Counter(post["author"] for post in posts)
    replied = Counter(message["author"] for message in messages)
    return [
        {"author": author, "posts": wrote[author], "messages": replied[author], "split": split_of(author, seed)}
        for author in sorted((wrote.keys() | replied.keys()) - {""})
    ]


class Items:
    """Makes the items of a dataset, a post at a time.

    Attributes:
        dropped: Why replies of authors became no items, by task.
        noted: What is told of the items that were made.
    """

    def __init__(
        self, posts: Sequence[PostRow], threads: Mapping[str, Sequence[MessageRow]], users: Sequence[UserRow], seed: int
    ):
        self.dropped: Counter[str] = Counter()
        self.noted: Counter[str] = Counter()
        self._posts = posts
        self._threads = threads
        self._seed = seed
        self._texts = _texts_by_author(posts, threads)
        self._splits = {user["author"]: user["split"] for user in users}
        # Those with most texts first: who has at least n texts is then a stretch from the start.
        self._ranked: dict[str, list[str]] = defaultdict(list)
        for author in sorted(self._texts, key=lambda author: (-len(self._texts[author]), author)):
            self._ranked[self._splits[author]].append(author)

    def __iter__(self) -> Iterator[tuple[str, ItemRow]]:
        """Yield (split, row of `ITEM_SCHEMA`), post by post."""
        for post in self._posts:
            thread = self._threads.get(post["post_id"], ())
            if post["author"] and thread:
                yield from self._of_post(post, _Thread(post, thread))

    def _of_post(self, post: PostRow, thread: _Thread) -> Iterator[tuple[str, ItemRow]]:
        own = [i for i, message in enumerate(thread.messages) if message["author"] == post["author"]]
        for task, targets in (("scored", own), ("next_text", thread.latest(own))):
            fit = [target for target in targets if self._fits(task, post, thread, target)]
            if len(fit) > MOST_PER_POST:
                self.dropped[f"{task}: more than {MOST_PER_POST} in the post"] += len(fit) - MOST_PER_POST
                fit = sorted(rng_for(self._seed, "targets", task, post["post_id"]).sample(fit, MOST_PER_POST))
            for target in fit:
                shown = self._shown(post, thread, target)
                for name in ("sentiment", "impact") if task == "scored" else ("next_text",):
                    yield self._splits[post["author"]], _item(name, post, thread, target, shown)

    def _fits(self, task: str, post: PostRow, thread: _Thread, target: int) -> bool:
        message = thread.messages[target]
        above = thread.above(target)
        parent_text = thread.messages[above[0]]["body"] if above else f"{post['title']}{post['body']}"
        problem = ""
        if message["deleted"]:
            problem = "text deleted"
        elif message["timestamp"] is None or (task == "scored" and message["score"] is None):
            problem = "time or score unknown"
        elif message["edited"]:
            problem = "edited"
        elif not has_text(parent_text):
            problem = "parent deleted"
        elif any(
            row["timestamp"] and row["timestamp"] > message["timestamp"]
            for row in (post, *(thread.messages[i] for i in above))
        ):
            problem = "before what it replies to"
        elif not thread.has_other(target, post["author"]):
            problem = "nobody else before it"
        elif not self._texts_before(post["author"], message["timestamp"], post["post_id"], 1):
            problem = "no history"
        if problem:
            self.dropped[f"{task}: {problem}"] += 1
        return not problem

    def _shown(self, post: PostRow, thread: _Thread, target: int) -> ShownContext:
        message = thread.messages[target]
        conversation = thread.conversation(target)
        when = _time(message)
        history = self._texts_before(post["author"], when, post["post_id"], MOST_TEXTS)
        other = self._other(post, message, len(history))
        other_history = self._texts_before(other, when, post["post_id"], len(history)) if other else []
        self.noted["other_history_shorter"] += len(other_history) < len(history)
        self.noted["conversation_cut"] += len(conversation) == MOST_MESSAGES
        self.noted["edited_above_target"] += any(thread.messages[i]["edited"] for i in thread.above(target))
        return {
            "conversation": conversation,
            "history": [text.row for text in history],
            "other_author": other,
            "other_history": [text.row for text in other_history],
        }

    def _texts_before(self, author: str, when: datetime, post_id: str, most: int) -> list[IndexedText]:
        """Return the latest texts of an author that were written before, in other posts; the newest last."""
        texts = self._texts.get(author, [])
        found: list[IndexedText] = []
        for index in reversed(range(bisect.bisect_left(texts, when, key=lambda text: text.timestamp))):
            if len(found) == most:
                break
            if texts[index].post_id != post_id:
                found.append(texts[index])
        return found[::-1]

    def _other(self, post: PostRow, message: MessageRow, count: int) -> str:
        """Draw another author with at least as many texts; "" if the split has no other with any."""
        ranked = self._ranked[self._splits[post["author"]]]
        rng = rng_for(self._seed, "other", message["message_id"])

        def texts(author: str) -> int:
            if author == post["author"]:
                return 0
            return len(self._texts_before(author, _time(message), post["post_id"], count))

        enough = bisect.bisect_right(ranked, -count, key=lambda author: -len(self._texts[author]))
        for _ in range(_TRIES if enough else 0):
            author = ranked[rng.randrange(enough)]
            if texts(author) == count:
                return author
        # Few fit: among all of them each is as likely as by drawing on.
        fit = [author for author in ranked[:enough] if texts(author) == count]
        if fit:
            return rng.choice(fit)
        best = max(ranked, key=texts, default="")
        return best if best and texts(best) else ""


class _Thread:
    """The comments of one post, as a tree."""

    def __init__(self, post: PostRow, messages: Sequence[MessageRow]) -> None:
        self.messages = messages
        self._post_id = post["post_id"]
        places = {message["message_id"]: i for i, message in enumerate(messages)}
        self.parents = [places.get(message["parent_id"], -1) for message in messages]

    def above(self, index: int) -> list[int]:
        """Return the comments above one, the nearest first."""
        above = []
        while (index := self.parents[index]) >= 0:
            above.append(index)
        return above

    def latest(self, own: Sequence[int]) -> list[int]:
        """Return the latest of some comments in each thread, by time, then by place; of those with a text."""
        best: dict[int, int] = {}
        roots: list[int] = []
        for i, parent in enumerate(self.parents):
            roots.append(i if parent < 0 else roots[parent])
        for i in own:
            when = self.messages[i]["timestamp"]
            if when and not self.messages[i]["deleted"]:
                known = best.get(roots[i])
                if known is None or _time(self.messages[known]) <= when:
                    best[roots[i]] = i
        return sorted(best.values())

    def before(self, target: int) -> list[int]:
        """Return what may be shown of the comments, depth first."""
        when = _time(self.messages[target])
        above = set(self.above(target))
        last = target + 1  # depth first: what is below a comment follows it
        while last < len(self.messages) and self.messages[last]["depth"] > self.messages[target]["depth"]:
            last += 1
        return [
            i
            for i, message in enumerate(self.messages)
            if i in above
            or (
                not target <= i < last
                and not message["edited"]
                and message["timestamp"] is not None
                and message["timestamp"] < when
            )
        ]

    def has_other(self, target: int, author: str) -> bool:
        """Say whether a text of another author is among what may be shown."""

        def is_other(index: int) -> bool:
            return self.messages[index]["author"] != author and not self.messages[index]["deleted"]

        return any(map(is_other, self.above(target))) or any(map(is_other, self.before(target)))

    def conversation(self, target: int) -> list[ShownMessage]:
        """Return what is shown of the comments, as a whole tree."""
        shown = self.before(target)
        if len(shown) > MOST_MESSAGES:
            above = self.above(target)
            rest = sorted(set(shown).difference(above), key=lambda i: (_time(self.messages[i]), i))
            near = above[:MOST_MESSAGES]
            shown = sorted([*near, *rest[len(rest) - min(len(rest), MOST_MESSAGES - len(near)) :]])
        kept = set(shown)
        return [self._message(i, kept) for i in shown]

    def _message(self, index: int, kept: set[int]) -> ShownMessage:
        message = self.messages[index]
        parent = self.parents[index]
        while parent >= 0 and parent not in kept:
            parent = self.parents[parent]
        return {
            "message_id": message["message_id"],
            "parent_id": self._post_id if parent < 0 else self.messages[parent]["message_id"],
            "author": message["author"],
            "body": message["body"],
            "timestamp": message["timestamp"],
        }


def _time(message: MessageRow) -> datetime:
    """Return when a comment was written that is only used where that is known."""
    when = message["timestamp"]
    assert when is not None
    return when


def _texts_by_author(
    posts: Sequence[PostRow], threads: Mapping[str, Sequence[MessageRow]]
) -> dict[str, list[IndexedText]]:
    texts: dict[str, list[IndexedText]] = defaultdict(list)
    for post in posts:
        written: list[tuple[str, PostRow | MessageRow]] = []
        if has_text(f"{post['title']}{post['body']}"):
            written.append((post["post_id"], post))
        written += [
            (message["message_id"], message)
            for message in threads.get(post["post_id"], ())
            if not message["deleted"] and not message["edited"]
        ]
        for number, (text_id, source) in enumerate(written):
            if source["author"] and source["timestamp"]:
                row: ShownText = {
                    "message_id": text_id,
                    "subreddit": post["subreddit"],
                    "title": post["title"],
                    "body": source["body"],
                    "timestamp": source["timestamp"],
                }
                texts[source["author"]].append(
                    IndexedText(source["timestamp"], (post["post_id"], number), post["post_id"], row)
                )
    for own in texts.values():
        own.sort(key=lambda text: (text.timestamp, text.key))
    return dict(texts)


def _item(task: str, post: PostRow, thread: _Thread, target: int, shown: ShownContext) -> ItemRow:
    message = thread.messages[target]
    parent = thread.parents[target]
    to_write = task == "next_text"
    score = None if to_write else message["score"]
    return {
        "item_id": f"{task}-{message['message_id']}",
        "task": task,
        "post_id": post["post_id"],
        "target_id": message["message_id"],
        "author": post["author"],
        "subreddit": post["subreddit"],
        "timestamp": _time(message),
        "title": post["title"],
        "content": post["body"],
        **shown,
        "target_parent_id": message["parent_id"],
        "target_text": "" if to_write else message["body"],
        "positive": None if score is None else score > 0,
        "score": score,
        "reply": message["body"] if to_write else "",
        "parent_score": (post if parent < 0 else thread.messages[parent])["score"],
    }
