"""Made-up Reddit-like data in the raw schema of PERSONA-Bench: a list of posts with trees of comments.

Users differ in style, tone and standing, in all that they write, so that a rule that knows an author's other texts can
beat one that does not:

- each opens, closes and argues with phrases of their own (`next_text`);
- the harsh ones write `HARSH` words in many texts, not in all, and all their texts are voted down more often
  (`sentiment`);
- those who give sources (`SOURCED` in many of their texts) get far higher scores, up or down (`impact`).

A reply speaks of the subject of what it replies to, so that the conversation helps too. Scores have heavy tails; trees
are wide and deep; some comments are deleted, removed or edited; texts are in several scripts.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple

from generation.seeds import rng_for

HARSH: Final = ("nonsense", "clueless", "pathetic", "garbage")
SOURCED: Final = "Source:"
SUBREDDITS: Final = ("worldnews", "science", "gaming", "movies", "books", "entrepreneur")

_START: Final = datetime(2023, 1, 1, tzinfo=UTC)
_SUBJECTS: Final = (
    ("the ceasefire vote", "the new tariff", "the border deal", "the flood relief"),
    ("the vaccine trial", "the gravity result", "the coral survey", "the dark matter map"),
    ("the raid boss", "the patch notes", "the speedrun route", "the loot drop"),
    ("the director's cut", "the final scene", "the casting choice", "the slow middle act"),
    ("the unreliable narrator", "the second volume", "the translation", "the ending"),
    ("the pricing page", "the first hire", "the seed round", "the churn rate"),
)
_OPENERS: Final = (
    "Honestly,",
    "Well, look,",
    "So here is the thing:",
    "Hm, not sure, but",
    "À mon avis,",
    "正直に言うと、",
)
_CLOSERS: Final = ("Cheers!", "Just my two cents.", "End of story.", "— sent from a train", "Ça va? 🙂", "Спасибо.")
_HABITS: Final = (
    "I keep coming back to",
    "nobody seems to remember",
    "my grandmother always warned about",
    "the numbers simply do not support",
    "one has to admire",
    "I spent a whole weekend on",
    "as I told my students about",
    "every forum eventually fights over",
)
_REASONS: Final = (
    "because the details were left out.",
    "and that changes how it ends.",
    "since the early reports were wrong.",
    "although it took them long enough.",
    "which is more than we had last year.",
    "so I would wait a week.",
)


class User(NamedTuple):
    """Who writes: `harsh` ones are voted down, `sourced` ones are noticed."""

    name: str
    opener: str
    habit: str
    closer: str
    harsh: bool
    sourced: bool


def make_posts(
    seed: int = 0, users: int = 40, posts: int = 4, comments: float = 9.0, named: str = "user"
) -> list[dict[str, Any]]:
    """Make posts in the raw schema, in no order of time or author.

    Args:
        seed: Same seed, same posts.
        users: How many people write; each of them posts.
        posts: Posts per user.
        comments: Comments per post, on average; half of the posts have far fewer, some far more.
        named: What names of users start with.
    """
    people = [_user(seed, number, named) for number in range(users)]
    made = [
        _post(rng_for(seed, "post", writer.name, number), writer, people, comments, f"{writer.name}-{number}")
        for writer in people
        for number in range(posts)
    ]
    rng_for(seed, "order").shuffle(made)
    return made


def deep_post(depth: int = 3000, author: str = "deep_op", other: str = "deep_other") -> dict[str, Any]:
    """Make a post with one chain of replies, `depth` comments long, by turns of another and of the author."""
    when = _START + timedelta(days=300)
    replies: list[dict[str, Any]] = []
    for level in reversed(range(depth)):
        replies = [
            {
                "body": f"Step {level} down the ladder, and still going.",
                "author": author if level % 2 else other,
                "score": 1 + level % 7,
                "timestamp": _stamp(when + timedelta(minutes=level + 1)),
                "replies": replies,
            }
        ]
    return {
        "title": "How deep can a thread go?",
        "url": "https://example.org/r/life/deep",
        "content": "Reply to the last one, please.",
        "__sub__": "life",
        "score": 12,
        "author": author,
        "timestamp": _stamp(when),
        "comments": replies,
    }


def write_flat(posts: Sequence[dict[str, Any]], path: Path) -> Path:
    """Write the raw form: one list of posts."""
    path.write_text("[" + ",\n".join(to_json(post) for post in posts) + "]", encoding="utf-8")
    return path


def write_grouped(posts: Sequence[dict[str, Any]], path: Path) -> Path:
    """Write the author-grouped form: `{author: [post, …], …}`, authors in the order of their first post."""
    members = [f"{json.dumps(author)}: [{', '.join(map(to_json, own))}]" for author, own in grouped(posts)]
    path.write_text("{" + ",\n".join(members) + "}", encoding="utf-8")
    return path


def write_store_rows(posts: Sequence[dict[str, Any]], path: Path) -> Path:
    """Write rows as the prompt makers of 3.1 and 3.2 do: the tree as it was, in a store, and a task that refers to it.

    A row per post with an author's reply; the one with the largest absolute score is the target.
    """
    rows = []
    for post_id, post in _numbered(posts):
        own = [(node_id, node) for node_id, _, node in walk(post, post_id) if node["author"] == post["author"]]
        if own:
            target_id, target = max(own, key=lambda pair: abs(pair[1]["score"]))
            task = {
                "prompt_text": f"Look at post {post_id} in the store. What is the score of reply {target_id}?",
                "target_post_reference_id": post_id,
                "target_reply_id": target_id,
                "true_label": target["score"],
                "subreddit": post["__sub__"],
            }
            rows.append(to_json({"post_data_store": {post_id: post}, "prediction_task": task}))
    return _write_lines(rows, path)


def write_prompt_rows(posts: Sequence[dict[str, Any]], path: Path) -> Path:
    """Write rows as the prompt makers of 3.3 do: the tree is JSON within the prompt, less the target and its subtree.

    A row per post with an author's reply; the latest is the target.
    """
    rows = []
    for post_id, post in _numbered(posts):
        nodes = list(walk(post, post_id))
        own = [entry for entry in nodes if entry[2]["author"] == post["author"]]
        if own:
            target_id, parent_id, target = max(own, key=lambda entry: str(entry[2]["timestamp"]))
            hidden = {node_id for node_id, _, _ in nodes if f"{node_id}-".startswith(f"{target_id}-")}
            prompt = (
                'An example comes first: [{"id": "x1", "body": "braces } in texts {", "replies": []}]\nAn answer.\n\n'
                f"The whole thread, one reply left out:\n{to_json(_with_ids(post, post_id, nodes, hidden))}\n"
                f"{post['author']} replied to the one with ID {parent_id}; the reply would have ID: {target_id}).\n"
                f"Write the reply of {post['author']}:"
            )
            row = {
                "user": post["author"],
                "prompt": prompt,
                "true_label": " ".join(target["body"].splitlines()),
                "subreddit": post["__sub__"],
            }
            rows.append(json.dumps(row))
    return _write_lines(rows, path)


def grouped(posts: Sequence[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Group posts by author, in the order of their first posts."""
    order = {name: number for number, name in enumerate(dict.fromkeys(post["author"] for post in posts))}
    by_author = sorted(posts, key=lambda post: order[post["author"]])
    return [(author, list(own)) for author, own in groupby(by_author, key=lambda post: post["author"])]


def walk(post: dict[str, Any], post_id: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield (id, parent's id, comment) depth first, with the ids of the prompt makers: `{parent}-c{n}`."""
    stack = [(post_id, comment) for comment in reversed(post["comments"])]
    number = 0
    while stack:
        parent, comment = stack.pop()
        number += 1
        node_id = f"{parent}-c{number}"
        yield node_id, parent, comment
        stack += [(node_id, reply) for reply in reversed(comment["replies"])]


def to_json(value: Any) -> str:
    """Return JSON; unlike `json.dumps` it takes any depth."""
    parts: list[str] = []
    # What is still to be written, the next last: text as it is, or a value that is not yet taken apart.
    stack: list[tuple[bool, Any]] = [(False, value)]
    while stack:
        is_text, top = stack.pop()
        if is_text:
            parts.append(top)
        elif isinstance(top, dict | list):
            is_dict = isinstance(top, dict)
            entries = [(f"{json.dumps(k)}: ", v) for k, v in top.items()] if is_dict else [("", v) for v in top]
            stack.append((True, "}" if is_dict else "]"))
            for index in reversed(range(len(entries))):
                label, inner = entries[index]
                stack += [(False, inner), (True, f"{', ' if index else ''}{label}")]
            stack.append((True, "{" if is_dict else "["))
        else:
            parts.append(json.dumps(top, ensure_ascii=False))
    return "".join(parts)


def _write_lines(rows: list[str], path: Path) -> Path:
    path.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    return path


def _numbered(posts: Sequence[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    for user, (_, own) in enumerate(grouped(posts), start=1):
        for number, post in enumerate(own, start=1):
            yield f"u{user}p{number}", post


def _with_ids(
    post: dict[str, Any], post_id: str, nodes: list[tuple[str, str, dict[str, Any]]], hidden: set[str]
) -> dict[str, Any]:
    copies: dict[str, Any] = {post_id: {**post, "comments": [], "id": post_id, "type": "post"}}
    for node_id, parent, node in nodes:
        if node_id not in hidden:
            copies[node_id] = {**node, "replies": [], "id": node_id, "parent_id": parent, "type": "comment"}
            copies[parent]["comments" if parent == post_id else "replies"].append(copies[node_id])
    made: dict[str, Any] = copies[post_id]
    return made


def _user(seed: int, number: int, named: str) -> User:
    rng = rng_for(seed, "user", number)
    return User(
        name=f"{named}_{number:04d}",
        opener=rng.choice(_OPENERS),
        habit=rng.choice(_HABITS),
        closer=rng.choice(_CLOSERS),
        harsh=rng.random() < 0.35,
        sourced=rng.random() < 0.25,
    )


def _post(rng: random.Random, writer: User, people: list[User], comments: float, slug: str) -> dict[str, Any]:
    sub = rng.randrange(len(SUBREDDITS))
    subjects = _SUBJECTS[sub]
    subject = rng.choice(subjects)
    when = _START + timedelta(seconds=rng.randrange(365 * 24 * 3600))
    post: dict[str, Any] = {
        "title": f"About {subject}",
        "url": f"https://example.org/r/{SUBREDDITS[sub]}/{slug}",
        "content": _text(rng, writer, subject),
        "__sub__": SUBREDDITS[sub],
        "score": _score(rng, writer),
        "author": writer.name,
        "timestamp": _stamp(when),
        "comments": [],
    }
    # What can be replied to: the list that takes replies, its subject, its time, and whether the author wrote it.
    places = [(post["comments"], subject, when, True)]
    for _ in range(min(400, int(comments * 0.57 * rng.paretovariate(1.6) * rng.uniform(0.5, 1.0)) + 1)):
        place = places[0] if rng.random() < 0.35 else places[rng.randrange(max(0, len(places) - 6), len(places))]
        replies, subject, before, by_author = place
        own = not by_author and rng.random() < 0.55
        person = writer if own else rng.choice(people)
        if rng.random() < 0.3:
            subject = rng.choice(subjects)
        when = before + timedelta(seconds=int(30 * rng.paretovariate(0.7)) % (14 * 24 * 3600) + 1)
        comment = _comment(rng, person, subject, when)
        replies.append(comment)
        places.append((comment["replies"], subject, when, person is writer))
    return post


def _comment(rng: random.Random, person: User, subject: str, when: datetime) -> dict[str, Any]:
    comment: dict[str, Any] = {
        "body": _text(rng, person, subject),
        "author": person.name,
        "score": _score(rng, person),
        "timestamp": _stamp(when),
        "replies": [],
    }
    fate = rng.random()
    if fate < 0.03:
        comment |= {"body": "[deleted]", "author": "[deleted]"}
    elif fate < 0.05:
        comment["body"] = "[removed]"
    elif fate < 0.10:
        comment["edited"] = True
    elif fate < 0.15:
        comment["author_flair_text"] = "long-time member"
    return comment


def _text(rng: random.Random, person: User, subject: str) -> str:
    words = [person.opener, person.habit, subject, rng.choice(_REASONS)]
    if person.harsh and rng.random() < 0.5:
        words.append(f"What {rng.choice(HARSH)}.")
    if person.sourced and rng.random() < 0.5:
        words.append(f"{SOURCED} https://example.org/{rng.randrange(10_000)}")
    if rng.random() < 0.7:
        words.append(f"\n\n{person.closer}")
    return " ".join(words)


def _score(rng: random.Random, person: User) -> int:
    size = int(rng.paretovariate(0.9) * (12 if person.sourced else 1))
    if rng.random() < 0.05:
        return 0
    return min(size, 60_000) * (-1 if rng.random() < (0.7 if person.harsh else 0.08) else 1)


def _stamp(when: datetime) -> str:
    return when.isoformat().replace("+00:00", "Z")
