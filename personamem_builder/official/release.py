"""The official release, checked and turned into the two tables of a dataset."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Final

import pyarrow as pa

from generation.errors import UserError
from generation.tokenizer import count_tokens
from personamem_builder.official.contexts_jsonl import read_contexts, session_starts
from personamem_builder.official.faults import Faults
from personamem_builder.official.questions_csv import ReleaseRow, read_questions
from personamem_builder.schema import (
    OPTIONAL_QUESTION_FIELDS,
    QUESTION_SCHEMA,
    SPLITS,
    ContextRow,
    Message,
    option_texts,
    shown_profile,
    table_order,
)


@dataclass(frozen=True)
class Release:
    """What a folder of release files holds, by split.

    Attributes:
        questions: The question tables, sorted by context, end index and id.
        contexts: The shared contexts, sorted by id.
        notes: Legal oddities, in words.
        strangers: The contexts that show another user than an earlier one of the same persona id.
    """

    questions: Mapping[str, pa.Table]
    contexts: Mapping[str, Sequence[ContextRow]]
    notes: Sequence[str]
    strangers: Mapping[str, Sequence[str]]


def questions_file(split: str) -> str:
    """Return the name of the file of questions, `questions_32k.csv` for 32k."""
    return f"questions_{split}.csv"


def contexts_file(split: str) -> str:
    """Return the name of the file of shared contexts, `shared_contexts_32k.jsonl` for 32k."""
    return f"shared_contexts_{split}.jsonl"


def release_files(splits: Iterable[str]) -> list[str]:
    """Return the names of both files of some splits."""
    return [name for split in splits for name in (questions_file(split), contexts_file(split))]


def read_release(folder: Path) -> Release:
    """Read and check every split that a folder holds.

    Question types are then the canonical ones, and token counts those of our tokenizer.

    Raises:
        UserError: The folder has no such files, or they have faults: all of them are listed.
    """
    splits = [split for split in SPLITS if any((folder / name).exists() for name in release_files([split]))]
    if not splits:
        raise UserError(
            f"{folder} holds no release files",
            f"give a folder with {questions_file('32k')} and {contexts_file('32k')}",
        )
    faults = Faults()
    notes: list[str] = []
    rows: dict[str, list[ReleaseRow]] = {}
    contexts: dict[str, list[ContextRow]] = {}
    for split in splits:
        if absent := [name for name in release_files([split]) if not (folder / name).exists()]:
            faults.add(absent[0], f"is missing from {folder}; both files of the split {split} are needed")
            continue
        rows[split] = read_questions(folder / questions_file(split), faults)
        messages = read_contexts(folder / contexts_file(split), faults)
        tokens = count_tokens(
            [m["content"] for context in messages.values() for m in context]
            + [row["user_question_or_message"] for row in rows[split]]
        )
        _check(split, rows[split], messages, tokens, faults)
        contexts[split] = _context_rows(rows[split], messages, tokens)
        notes += _notes(split, rows[split], messages)
    faults.raise_if_any()
    schema = _question_schema(rows.values())
    return Release(
        questions={split: pa.Table.from_pylist(rows[split], schema=schema) for split in splits},
        contexts=contexts,
        notes=notes,
        strangers={split: _strangers(own) for split, own in contexts.items()},
    )


def _strangers(contexts: Sequence[ContextRow]) -> list[str]:
    profiles: dict[int, str] = {}
    shown = [(row, shown_profile(row["messages"])) for row in contexts]
    return [
        row["shared_context_id"] for row, profile in shown if profiles.setdefault(row["persona_id"], profile) != profile
    ]


def _question_schema(splits: Iterable[Sequence[ReleaseRow]]) -> pa.Schema:
    present = {column for rows in splits for row in rows for column in row}
    return pa.schema([*QUESTION_SCHEMA, *(field for field in OPTIONAL_QUESTION_FIELDS if field.name in present)])


def _check(
    split: str,
    rows: list[ReleaseRow],
    contexts: Mapping[str, list[Message]],
    tokens: Mapping[str, int],
    faults: Faults,
) -> None:
    """Check each question against its context, and sort the questions."""
    totals = {
        key: (
            [0, *accumulate(tokens[m["content"]] for m in messages)],
            [0, *accumulate(len(m["content"]) for m in messages)],
        )
        for key, messages in contexts.items()
    }
    owners: dict[str, int] = {}
    for row in rows:

        def fault(column: str, problem: str, columns: Mapping[str, object] = row, number: int = row["row"]) -> None:
            faults.add(questions_file(split), problem, row=number, column=column, value=columns[column])

        key, end = row["shared_context_id"], row["end_index_in_shared_context"]
        if key not in contexts:
            fault("shared_context_id", f"no (sound) context of this id in {contexts_file(split)}")
            continue
        if owners.setdefault(key, row["persona_id"]) != row["persona_id"]:
            fault("persona_id", f"another persona than {owners[key]}, whose questions use the same context")
        in_tokens, in_letters = totals[key]
        if not 1 <= end < len(in_tokens):
            fault("end_index_in_shared_context", f"past the context, which has {len(in_tokens) - 1} messages")
            continue
        if row["context_length_in_tokens"] != (count := in_tokens[end] + tokens[row["user_question_or_message"]]):
            fault("context_length_in_tokens", f"the context up to the end index gives {count}")
        if row["context_length_in_letters"] != (count := in_letters[end]):
            fault("context_length_in_letters", f"the context up to the end index gives {count}")
    rows.sort(key=table_order)


def _context_rows(
    rows: list[ReleaseRow], contexts: Mapping[str, list[Message]], tokens: Mapping[str, int]
) -> list[ContextRow]:
    owners = {row["shared_context_id"]: row["persona_id"] for row in rows}
    result: list[ContextRow] = []
    for key in sorted(owners.keys() & contexts.keys()):
        messages = contexts[key]
        starts = session_starts(messages)
        result.append(
            {
                "shared_context_id": key,
                "persona_id": owners[key],
                "messages": messages,
                "session_starts": starts,
                "session_topics": [""] * len(starts),
                "session_dates": [""] * len(starts),
                "num_tokens": sum(tokens[m["content"]] for m in messages),
            }
        )
    return result


_NOTE_KINDS: Final = (
    "{} of {} questions have identical options",
    "{} of {} questions repeat a question of the same persona",
    "{} of {} neighbouring messages have the same role",
    "{} of {} contexts are used by no question and left out",
)


def _notes(split: str, rows: list[ReleaseRow], contexts: Mapping[str, list[Message]]) -> list[str]:
    asked = Counter((row["persona_id"], row["user_question_or_message"]) for row in rows)
    used = {row["shared_context_id"] for row in rows}
    neighbours = [(a, b) for messages in contexts.values() for a, b in pairwise(messages)]
    counts = (
        (sum(len(set(option_texts(row))) < len(row["all_options"]) for row in rows), len(rows)),
        (len(rows) - len(asked), len(rows)),
        (sum(a["role"] == b["role"] for a, b in neighbours), len(neighbours)),
        (len(contexts.keys() - used), len(contexts)),
    )
    return [f"{split}: {kind.format(*count)}" for kind, count in zip(_NOTE_KINDS, counts, strict=True) if count[0]]
