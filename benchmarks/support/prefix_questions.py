"""The questions that `prefix_scoring.py` runs, cut from the official 32k split."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from support.scoring import by_opening, read_rows, train_tokenizer

VOCABULARY = 2048
END_INDICES = 8


def prepare(release: Path, folder: Path, size: dict[str, Any]) -> dict[str, float]:
    """Write the questions of all parts and a tokenizer; return what those of the run are."""
    rows = read_rows(release)
    all_contexts = list(dict.fromkeys(row.context for row in rows))
    # Spread over the split; they have openings of their own in it.
    openings = [group[0].context for group in by_opening(rows)]
    taken = openings[:: math.ceil(len(openings) / size["contexts"])]
    asked = [row for context in taken for row in [row for row in rows if row.context == context][: size["questions"]]]
    questions = [
        {"group": row.context, "messages": row.messages(), "options": row.options}
        for row in [shorten(row, size["part"]) for row in asked]
    ]
    letters = letters_of(rows, size)
    short = [
        {"group": str(number), "messages": [{"role": "user", "content": row.question}], "options": row.options}
        for number, row in enumerate(rows[:: math.ceil(len(rows) / (size["short"] or 1))])
    ]
    for name, part in (("options", questions), ("letters", letters), ("short", short)):
        (folder / f"{name}.json").write_text(json.dumps(part), encoding="utf-8")
    texts = list(dict.fromkeys(m["content"] for question in [*questions, *letters] for m in question["messages"]))
    tokenizer = train_tokenizer(texts, VOCABULARY)
    tokenizer.save_pretrained(folder)
    return {"contexts": len(taken), "all_contexts": len(all_contexts), **sizes(questions, tokenizer)}


def sizes(questions: Sequence[dict[str, Any]], tokenizer: Any) -> dict[str, float]:
    """Return how many tokens questions and options have, and how many distinct prefixes there are."""
    prompt_lengths, option_lengths, paths = [], [], []
    for question in questions:
        prompt = tokenizer.apply_chat_template(question["messages"], add_generation_prompt=True, tokenize=False)
        prompt_lengths.append(len(tokenizer.encode(prompt, add_special_tokens=False)))
        for option in question["options"]:
            path = tokenizer.encode(prompt + option, add_special_tokens=False)
            option_lengths.append(len(path) - prompt_lengths[-1])
            paths.append(path[:-1])
    return {
        "questions": len(questions),
        "requests": len(paths),
        "bound": count_distinct_prefixes(paths),
        "prompt": statistics.mean(prompt_lengths),
        "option": statistics.mean(option_lengths),
    }


def letters_of(rows: Sequence[Any], size: dict[str, Any]) -> list[dict[str, Any]]:
    """Return questions of the whole split as if asked, with their options shown, at few ends of one history."""
    longest = max(rows, key=lambda row: len(row.history))
    step = len(longest.history) // END_INDICES
    questions = []
    for number, row in enumerate(rows[:: math.ceil(len(rows) / size["letters"])]):
        end = (number % END_INDICES + 1) * step
        short = shorten(
            replace(row, history=longest.history[:end], session_starts=longest.session_starts), size["part"]
        )
        messages = short.messages(letters=True)
        questions.append({"group": "letters", "messages": messages, "options": row.labels})
    return questions


def shorten(row: Any, part: int) -> Any:
    """Return a row with the first part of every history message, and the last part of its question and options."""

    def kept(text: str) -> int:
        return math.ceil(len(text) / part)

    return replace(
        row,
        history=[{**message, "content": message["content"][: kept(message["content"])]} for message in row.history],
        question=row.question[-kept(row.question) :],
        letters=row.letters[-kept(row.letters) :],
        options=[option[-kept(option) :] for option in row.options],
    )


def count_distinct_prefixes(paths: list[list[int]]) -> int:
    """Count them without the code that is measured: in sorted order, each path adds what the last does not start."""
    total = 0
    last: list[int] = []
    for path in sorted(paths):
        total += len(path) - shared_start(last, path)
        last = path
    return total


def shared_start(a: list[int], b: list[int]) -> int:
    """Return how many elements two lists have in common at their start."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
