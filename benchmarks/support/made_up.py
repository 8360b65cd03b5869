"""A made-up dataset folder of any size: the text is random words, the records are those of a real one."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

SPLIT = "128k"
_SESSION_LENGTH = 50
_LETTERS_PER_TOKEN = 4


def write_made_up(
    folder: Path, *, contexts: int, letters: int, messages: int, questions: int, file_limit: int = 500 * 10**6
) -> None:
    """Write a dataset folder with one split, always the same for the same sizes; one context is in memory at a time.

    A context has so many messages and about so many letters; each question is asked at a random message of one.
    """
    import pyarrow as pa

    from personamem_builder.build.write import Source, write_dataset
    from personamem_builder.schema import QUESTION_SCHEMA

    rng = random.Random(7)
    words = make_words(rng)
    places = sorted((rng.randrange(contexts), rng.randint(1, messages)) for _ in range(questions))

    def tables() -> Iterator[pa.Table]:
        for number, own in groupby(enumerate(places), key=lambda place: place[1][0]):
            row = make_context(number, words, letters, messages)
            yield pa.Table.from_pylist([make_question(i, row, end) for i, (_, end) in own], schema=QUESTION_SCHEMA)

    write_dataset(
        folder,
        {SPLIT: tables()},
        ((SPLIT, make_context(number, words, letters, messages)) for number in range(contexts)),
        Source(name="random words", url="", license="mit", version="1.0.0", fingerprint=""),
        file_limit=file_limit,
    )


def make_words(rng: random.Random) -> list[str]:
    """Return made-up words."""
    syllables = [a + b for a in "bcdfghklmnprstvw" for b in "aeiou"]
    return ["".join(rng.choices(syllables, k=rng.randint(1, 4))) for _ in range(5000)]


def make_context(number: int, words: list[str], letters: int, messages: int) -> dict[str, Any]:
    """Return a shared context, always the same of a number."""
    rng = random.Random(f"context {number}")
    length = letters // messages
    text = " ".join(rng.choices(words, k=letters // 5))  # a word with its blank has six letters: more than enough
    starts = list(range(0, messages, _SESSION_LENGTH))
    return {
        "shared_context_id": f"{number:064x}",
        "persona_id": number,
        "messages": [{"role": _role(i), "content": text[i * length : (i + 1) * length]} for i in range(messages)],
        "session_starts": starts,
        "session_topics": [""] * len(starts),
        "session_dates": [""] * len(starts),
        "num_tokens": letters // _LETTERS_PER_TOKEN,
    }


def _role(index: int) -> str:
    if index % _SESSION_LENGTH == 0:
        return "system"
    return "user" if index % 2 else "assistant"


def make_question(number: int, context: dict[str, Any], end: int) -> dict[str, Any]:
    """Return a question that is asked at a place of a context."""
    letters = sum(len(message["content"]) for message in context["messages"][:end])
    text = context["messages"][end - 1]["content"]
    length = min(200, len(text) // 4)
    return {
        "persona_id": context["persona_id"],
        "question_id": f"q{number:05}",
        "question_type": "recall_user_shared_facts",
        "topic": "words",
        "context_length_in_tokens": letters // _LETTERS_PER_TOKEN,
        "context_length_in_letters": letters,
        "distance_to_ref_in_blocks": 0,
        "distance_to_ref_in_tokens": 0,
        "num_irrelevant_tokens": 0,
        "distance_to_ref_proportion_in_context": 0.0,
        "user_question_or_message": text[:200],
        "correct_answer": "(a)",
        "all_options": [f"({letter}) {text[i * length : (i + 1) * length]}" for i, letter in enumerate("abcd")],
        "shared_context_id": context["shared_context_id"],
        "end_index_in_shared_context": end,
        "source_question_type": "recall_user_shared_facts",
        "answer_index": 0,
        "evidence_message_indices": [],
        "evidence_event_ids": [],
    }
