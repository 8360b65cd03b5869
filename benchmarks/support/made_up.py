"""A made-up dataset folder of any size: the text is random words, the records are those of a real one."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SPLIT = "128k"
_SESSION_LENGTH = 50
_LETTERS_PER_TOKEN = 4


def write_made_up(folder: Path, *, contexts: int, letters: int, messages: int, questions: int) -> None:
    """Write a dataset folder with one split, always the same for the same sizes.

    A context has so many messages and about so many letters; each question is asked at a random message of one.
    """
    import pyarrow as pa

    from personamem_builder.build.write import Source, write_dataset
    from personamem_builder.schema import QUESTION_SCHEMA

    rng = random.Random(7)
    context_rows = list(_contexts(rng, contexts, letters, messages))
    places = sorted((rng.randrange(contexts), rng.randint(1, messages)) for _ in range(questions))
    question_rows = [_question(i, context_rows[context], end) for i, (context, end) in enumerate(places)]
    write_dataset(
        folder,
        {SPLIT: [pa.Table.from_pylist(question_rows, schema=QUESTION_SCHEMA)]},
        [(SPLIT, row) for row in context_rows],
        Source(name="random words", url="", license="mit", version="1.0.0", fingerprint=""),
    )


def _contexts(rng: random.Random, contexts: int, letters: int, messages: int) -> Iterator[dict[str, Any]]:
    syllables = [a + b for a in "bcdfghklmnprstvw" for b in "aeiou"]
    words = ["".join(rng.choices(syllables, k=rng.randint(1, 4))) for _ in range(5000)]
    length = letters // messages
    words_needed = letters // 5  # a word with its blank has six letters on average: more than enough
    for number in range(contexts):
        text = " ".join(rng.choices(words, k=words_needed))
        starts = list(range(0, messages, _SESSION_LENGTH))
        yield {
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


def _question(number: int, context: dict[str, Any], end: int) -> dict[str, Any]:
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
