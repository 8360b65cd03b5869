"""Wrong answers labelled by a person or by a model: a CSV that a spreadsheet opens, written and read.

A cell that a spreadsheet would take for a formula, or for a number that it shortens, has an apostrophe in front. It is
taken away when the file is read, so that every text comes back as it was.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from generation.errors import UserError
from generation.files import replacing
from generation.reading import as_one, clean_text, read_text
from personamem_builder.results.settings import printable

FORMAT: Final = "format"
"""The category of replies from which no option can be read."""

CATEGORIES: Final[Mapping[str, str]] = {
    "personalization": "the answer would do for anybody: it leaves out what the history tells of this user",
    "update": "the answer fits what the user once said, and misses that it has changed since",
    FORMAT: "no option can be read from what the model wrote",
    "hallucination": "the answer rests on a preference or an event of the user's that the history does not hold",
    "other": "anything else",
}
"""What may have gone wrong, and what each means: the categories of appendix F of the paper (arXiv 2504.14225), in
words of our own."""

RULE: Final = "rule"
"""The rater of rows that need none: replies without a letter."""

LONGEST_CELL: Final = 32_000
"""Characters of a cell; a spreadsheet takes up to 32,767."""

COLUMNS: Final = (
    "question_id",
    "persona_id",
    "question_type",
    "topic",
    "message",
    "right_option",
    "chosen_option",
    "reply",
    "category",
    "rater",
    "note",
    "model",
    "task",
)
_NEEDED: Final = ("question_id", "chosen_option", "category", "model", "task")
_DELIMITERS: Final = (",", ";", "\t")
"""What spreadsheets put between cells, by the language that they speak."""
_CHANGED: Final = re.compile(r"'*(?:[=+\-@＝＋－＠\t\r]|(?:\d{12,}|\d+[eE]\d+)\Z)")
_AGAIN: Final = "mend it in the spreadsheet, and save it as CSV in UTF-8"
_SHOWN: Final = 60
_LETTER: Final = re.compile(r"\(([a-z])\) ")


class LabelledError(NamedTuple):
    """A row of a file of labels.

    Attributes:
        row: Its number in the spreadsheet, the header being row 1.
        letter: Of the chosen option; None where no letter could be read.
        category: One of `CATEGORIES`; None where there is none yet.
        rater: Empty where nobody is named.
    """

    row: int
    question_id: str
    letter: str | None
    category: str | None
    rater: str
    model: str
    task: str


def write_labels(path: Path, rows: Iterable[Mapping[str, str]]) -> None:
    """Write rows of `COLUMNS`; the file is whole or absent. Characters that no file can hold become U+FFFD.

    Raises:
        UserError: It cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # With a byte order mark, without which Excel takes the text for another encoding.
        with replacing(path) as part, part.open("w", encoding="utf-8-sig", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(COLUMNS)
            writer.writerows([guarded(clean_text(row[name])) for name in COLUMNS] for row in rows)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}", "choose another --out") from error


def read_rows(path: Path, needed: Sequence[str] = COLUMNS) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the number and the cells of each row that is not empty; commas, semicolons or tabs part the cells.

    Raises:
        UserError: The file cannot be read, is no CSV, or lacks a column; the row is named.
    """
    text = read_text(path, _AGAIN)
    head = text.partition("\n")[0]
    delimiter = max(_DELIMITERS, key=head.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    number = 0
    try:
        header = [name.strip() for name in next(reader, [])]
        if lacking := [name for name in needed if name not in header]:
            raise UserError(
                f"{path}, row 1: there is no column {', '.join(lacking)}",
                "give a file that `personamem annotate --errors` wrote; its columns may stand in any order",
            )
        if twice := [name for name in COLUMNS if header.count(name) > 1]:
            raise UserError(f"{path}, row 1: the column {twice[0]} appears twice", _AGAIN)
        for number, cells in enumerate(reader, start=2):
            if not any(cells):
                continue
            if len(cells) != len(header):
                what = f"{len(cells)} cells where the header has {len(header)}"
                raise UserError(f"{path}, row {number}: {what}", _AGAIN)
            yield number, {name: unguarded(cell) for name, cell in zip(header, cells, strict=True)}
    except csv.Error as error:
        raise UserError(f"{path}, row {max(number, 1) + 1}: no CSV: {error}", _AGAIN) from error


def read_labels(path: Path) -> list[LabelledError]:
    """Read what a rater filled in. Capital letters and blanks around a category do no harm.

    Raises:
        UserError: As `read_rows`, or a category is unknown, a row is there twice, or there is none; all faults are
            named with row and column.
    """
    labels: list[LabelledError] = []
    faults: list[UserError] = []
    seen: dict[tuple[str, str, str], int] = {}
    for number, cells in read_rows(path, _NEEDED):
        category = cells["category"].strip().lower()
        if category and category not in CATEGORIES:
            what = f"{short(cells['category'])} is none of {', '.join(CATEGORIES)}"
            faults.append(UserError(f"{path}, row {number}, column category: {what}", "give one of these, or none"))
        key = (cells["model"], cells["task"], cells["question_id"])
        if key in seen:
            what = f"{short(cells['question_id'])} is in row {seen[key]} already"
            hint = "a file is what one rater says: keep one of the rows"
            faults.append(UserError(f"{path}, row {number}, column question_id: {what}", hint))
        seen.setdefault(key, number)
        letter = _LETTER.match(cells["chosen_option"])
        labels.append(
            LabelledError(
                number,
                cells["question_id"],
                letter and letter[1],
                category or None,
                printable(cells.get("rater", "").strip()),
                cells["model"],
                cells["task"],
            )
        )
    if faults:
        raise as_one(faults)
    if not labels:
        raise UserError(f"{path} has no rows", _AGAIN)
    return labels


def guarded(text: str) -> str:
    """Return a text as a cell that a spreadsheet shows as it is."""
    return f"'{text}" if _CHANGED.match(text) else text


def unguarded(cell: str) -> str:
    """Return the text of a cell, the inverse of `guarded`."""
    return cell[1:] if cell.startswith("'") and _CHANGED.match(cell[1:]) else cell


def short(text: str) -> str:
    """Return a value as an error shows it."""
    shown = printable(text)
    return repr(shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 1]}…")
