"""Reading `questions_{split}.csv` of the official release, or a part of its columns."""

from __future__ import annotations

import ast
import csv
import gzip
import io
import json
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, cast

from generation.reading import MAX_FILE_BYTES
from personamem_builder.official.faults import Faults, is_text
from personamem_builder.schema import (
    COUNT_COLUMNS,
    OPTIONAL_QUESTION_FIELDS,
    QUESTION_SCHEMA,
    QUESTION_TYPE_ALIASES,
    QuestionRow,
    has_labels,
    option_label,
)

OFFICIAL_COLUMNS: Final = tuple(QUESTION_SCHEMA.names[: QUESTION_SCHEMA.names.index("source_question_type")])
"""The fifteen columns of the release, in its order."""

OPTIONS_ONLY_COLUMNS: Final = (
    "persona_id",
    "question_id",
    "question_type",
    "topic",
    "shared_context_id",
    "user_question_or_message",
    "correct_answer",
    "all_options",
)
"""Those that say nothing of how a question stands to its context."""

NUM_OPTIONS: Final = range(4, 5)
"""How many options a question of the release has."""

_OPTIONAL: Final = tuple(field.name for field in OPTIONAL_QUESTION_FIELDS)
_INT32_MAX: Final = 2**31 - 1


class ReleaseRow(QuestionRow):
    """A question with the number of its row in the file, the header being row 1."""

    row: int


_Fault = Callable[[str, str], None]
"""Notes a fault of a row: the column, and the problem."""


def read_questions(
    path: Path, faults: Faults, *, required: Sequence[str] = OFFICIAL_COLUMNS, num_options: range = NUM_OPTIONS
) -> list[ReleaseRow]:
    """Read one CSV of questions, packed if its name ends with `.gz`, into rows of the question table, in file order.

    Both dialects of `all_options` are read (a JSON list, or a Python literal), and every label generation of
    `question_type`. A byte-order mark and CRLF line ends do no harm.

    Args:
        path: The file.
        faults: Gets every fault found; a row with a fault is left out of the result.
        required: Columns that must be there; the other columns of the release are read where they are.
        num_options: How many options a question may have.
    """
    before = len(faults.lines)
    try:
        text = _content(path).decode("utf-8-sig")
    except _TooLong:
        faults.add(path.name, f"is longer than the limit of {MAX_FILE_BYTES // 2**20} MiB, unpacked")
        return []
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        faults.add(path.name, f"not a whole gzip file: {error}")
        return []
    except OSError as error:
        faults.add(path.name, f"cannot be read: {error.strerror}")
        return []
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
        row
        for number, record in _records(path.name, text, required, faults)
        if (row := _row(path.name, number, record, num_options, faults))
    ]
    if not rows and len(faults.lines) == before:
        faults.add(path.name, "has no questions")
    _check_unique_ids(path.name, rows, faults)
    return rows


class _TooLong(Exception):
    """A file is longer than any of the kind."""


def _content(path: Path) -> bytes:
    """Return what is in a file, unpacked: a few kilobytes of gzip may be gigabytes."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise _TooLong
    return content


def _records(name: str, text: str, required: Sequence[str], faults: Faults) -> Iterator[tuple[int, dict[str, str]]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    number = 1
    try:
        header = next(reader, [])
        missing = [column for column in required if column not in header]
        twice = [column for column in (*OFFICIAL_COLUMNS, *_OPTIONAL) if header.count(column) > 1]
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


def _row(name: str, number: int, record: dict[str, str], num_options: range, faults: Faults) -> ReleaseRow | None:
    before = len(faults.lines)

    def fault(column: str, problem: str) -> None:
        faults.add(name, problem, row=number, column=column, value=record[column])

    label = record["question_type"]
    if label not in QUESTION_TYPE_ALIASES:
        fault("question_type", "unknown label; the labels known are in personamem_builder/schema.py")
    numbers = _numbers(record, fault)
    for column in ("question_id", "user_question_or_message", "shared_context_id"):
        if column in record and not record[column].strip():
            fault(column, "must not be empty")
    options, golds = _choice(record, num_options, fault)
    if len(faults.lines) > before:
        return None
    row = {
        **{column: record[column] for column in (*OFFICIAL_COLUMNS, *_OPTIONAL) if column in record},
        **numbers,
        "all_options": options,
        "question_type": QUESTION_TYPE_ALIASES[label],
        "source_question_type": label,
        "answer_index": golds.index(record["correct_answer"]),
        "evidence_message_indices": [],
        "evidence_event_ids": [],
        "row": number,
    }
    return cast("ReleaseRow", row)  # its columns are those of the file


def _numbers(record: dict[str, str], fault: _Fault) -> dict[str, int | float | None]:
    numbers: dict[str, int | float | None] = {}
    for column in COUNT_COLUMNS:
        if column in record:
            numbers[column] = _integer(record[column])
            if numbers[column] is None:
                fault(column, "not a whole number from 0 up")
    if (column := "distance_to_ref_proportion_in_context") in record:
        numbers[column] = _proportion(record[column])
        if numbers[column] is None:
            fault(column, "not a percentage such as 92.67%")
    return numbers


def _choice(record: dict[str, str], num_options: range, fault: _Fault) -> tuple[list[str], list[str]]:
    """Return the options, and what `correct_answer` may say."""
    most = num_options[-1]
    options = _options(record["all_options"])
    if options is None:
        fault("all_options", "neither a JSON list nor a Python list of strings")
        options = []
    elif len(options) not in num_options or not has_labels(options):
        count = str(most) if len(num_options) == 1 else f"{num_options[0]} to {most}"
        fault("all_options", f"must be {count} options that start with (a) to {option_label(most - 1)}, in order")
    golds = [option_label(i) for i in range(len(options) if len(options) in num_options else most)]
    if record["correct_answer"] not in golds:
        fault("correct_answer", f"must be one of {' '.join(golds)}")
    return options, golds


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
    for parse in (json.loads, _python_list):
        try:
            value = parse(cell)
        except (ValueError, SyntaxError, RecursionError):
            continue
        if isinstance(value, list) and all(isinstance(option, str) and is_text(option) for option in value):
            return value
    return None


_STRING: Final = re.compile(r"""\s*('(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")\s*(,|\Z)""", re.DOTALL)


def _python_list(cell: str) -> list[str]:
    """Return a list of strings that is written as Python writes it; no other code gets to Python's parser.

    Raises:
        ValueError: It is no such list.
        SyntaxError: A string has an escape that is none.
    """
    inner = cell.strip()
    if not (inner.startswith("[") and inner.endswith("]")):
        raise ValueError("no list")
    inner, place, strings = inner[1:-1], 0, []
    while place < len(inner.rstrip()):
        match = _STRING.match(inner, place)
        if match is None:
            raise ValueError("no list of strings")
        strings.append(str(ast.literal_eval(match[1])))
        place = match.end()
    return strings


def _check_unique_ids(name: str, rows: list[ReleaseRow], faults: Faults) -> None:
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
