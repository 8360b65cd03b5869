"""Reading `questions_{split}.csv` of the official release."""

from __future__ import annotations

import ast
import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from personamem_builder.official.faults import Faults, is_text
from personamem_builder.schema import (
    OPTIONAL_QUESTION_FIELDS,
    QUESTION_SCHEMA,
    QUESTION_TYPE_ALIASES,
    has_labels,
    option_letter,
)

NUM_OPTIONS: Final = 4
_COLUMNS: Final = tuple(QUESTION_SCHEMA.names[: QUESTION_SCHEMA.names.index("source_question_type")])
_OPTIONAL: Final = tuple(field.name for field in OPTIONAL_QUESTION_FIELDS)
_INTEGERS: Final = (
    "persona_id",
    "context_length_in_tokens",
    "context_length_in_letters",
    "distance_to_ref_in_blocks",
    "distance_to_ref_in_tokens",
    "num_irrelevant_tokens",
    "end_index_in_shared_context",
)
_INT32_MAX: Final = 2**31 - 1


def read_questions(path: Path, faults: Faults) -> list[dict[str, Any]]:
    """Read one CSV of questions into rows of the question table.

    Both dialects of `all_options` are read (a JSON list, or a Python literal), and every label generation of
    `question_type`. A byte-order mark and CRLF line ends do no harm.

    Args:
        path: The file.
        faults: Gets every fault found; a row with a fault is left out of the result.

    Returns:
        The rows, in file order, each with its `row` number for later messages.
    """
    before = len(faults.lines)
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        faults.add(
            path.name,
            "not UTF-8 text; save the file as UTF-8",
            row=line,
            value=error.object[error.start : error.end],
        )
        return []
    rows = [
        row for number, record in _records(path.name, text, faults) if (row := _row(path.name, number, record, faults))
    ]
    if not rows and len(faults.lines) == before:
        faults.add(path.name, "has no questions")
    _check_unique_ids(path.name, rows, faults)
    return rows


def _records(name: str, text: str, faults: Faults) -> Iterator[tuple[int, dict[str, str]]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    number = 1
    try:
        header = next(reader, [])
        missing = [column for column in _COLUMNS if column not in header]
        twice = [column for column in (*_COLUMNS, *_OPTIONAL) if header.count(column) > 1]
        if missing:
            faults.add(name, f"has no column {', '.join(missing)}" if header else "is empty")
        if twice:
            faults.add(name, f"has two columns {', '.join(twice)}")
        if missing or twice:
            return
        for number, cells in enumerate(reader, start=2):
            if len(cells) == len(header):
                yield number, dict(zip(header, cells, strict=True))
            elif cells:
                faults.add(name, f"has {len(cells)} cells where the header has {len(header)}", row=number)
    except csv.Error as error:
        faults.add(name, f"not a readable CSV: {error}", row=number + 1)


def _row(name: str, number: int, record: dict[str, str], faults: Faults) -> dict[str, Any] | None:
    before = len(faults.lines)

    def fault(column: str, problem: str) -> None:
        faults.add(name, problem, row=number, column=column, value=record[column])

    label = record["question_type"]
    if label not in QUESTION_TYPE_ALIASES:
        fault("question_type", "unknown label; the labels known are in personamem_builder/schema.py")
    integers = {column: _integer(record[column]) for column in _INTEGERS}
    for column, integer in integers.items():
        if integer is None:
            fault(column, "not a whole number from 0 up")
    proportion = _proportion(record["distance_to_ref_proportion_in_context"])
    if proportion is None:
        fault("distance_to_ref_proportion_in_context", "not a percentage such as 92.67%")
    for column in ("question_id", "user_question_or_message", "shared_context_id"):
        if not record[column].strip():
            fault(column, "must not be empty")
    options = _options(record["all_options"])
    if options is None:
        fault("all_options", "neither a JSON list nor a Python list of strings")
        options = []
    elif len(options) != NUM_OPTIONS or not has_labels(options):
        fault(
            "all_options",
            f"must be {NUM_OPTIONS} options that start with (a) to ({option_letter(NUM_OPTIONS - 1)}), in order",
        )
    golds = [f"({option_letter(i)})" for i in range(NUM_OPTIONS)]
    if record["correct_answer"] not in golds:
        fault("correct_answer", f"must be one of {' '.join(golds)}")
    if len(faults.lines) > before:
        return None
    return {
        **{column: record[column] for column in _COLUMNS},
        **integers,
        **{column: record[column] for column in _OPTIONAL if column in record},
        "distance_to_ref_proportion_in_context": proportion,
        "all_options": options,
        "question_type": QUESTION_TYPE_ALIASES[label],
        "source_question_type": label,
        "answer_index": golds.index(record["correct_answer"]),
        "evidence_message_indices": [],
        "evidence_event_ids": [],
        "row": number,
    }


def _integer(cell: str) -> int | None:
    if not (cell.isascii() and cell.isdigit() and len(cell) <= len(str(_INT32_MAX))):
        return None
    return int(cell) if int(cell) <= _INT32_MAX else None


def _proportion(cell: str) -> float | None:
    try:
        proportion = float(cell.removesuffix("%")) / 100 if cell.endswith("%") else -1.0
    except ValueError:
        return None
    return proportion if 0 <= proportion <= 1 else None


def _options(cell: str) -> list[str] | None:
    for parse in (json.loads, ast.literal_eval):
        try:
            value = parse(cell)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            continue
        if isinstance(value, list) and all(isinstance(option, str) and is_text(option) for option in value):
            return value
    return None


def _check_unique_ids(name: str, rows: list[dict[str, Any]], faults: Faults) -> None:
    first: dict[str, int] = {}
    for row in rows:
        earlier = first.setdefault(row["question_id"], row["row"])
        if earlier != row["row"]:
            faults.add(
                name,
                f"already in row {earlier}",
                row=row["row"],
                column="question_id",
                value=row["question_id"],
            )
