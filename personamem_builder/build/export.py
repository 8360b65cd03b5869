"""From a dataset folder to the files of the official release."""

from __future__ import annotations

import csv
import io
import json
import re
import struct
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from generation.errors import UserError
from generation.files import replacing
from generation.progress import track
from personamem_builder.dataset.check import check_questions, iter_questions
from personamem_builder.dataset.contexts import iter_contexts
from personamem_builder.dataset.folder import check_files, check_split, context_files
from personamem_builder.dataset.tables import has_values
from personamem_builder.manifest import read_manifest
from personamem_builder.official.questions_csv import OFFICIAL_COLUMNS
from personamem_builder.official.release import contexts_file, questions_file
from personamem_builder.schema import OPTIONAL_QUESTION_FIELDS, QuestionRow

_RELEASE_FILE: Final = re.compile(r"(questions_[^.]+\.csv|shared_contexts_[^.]+\.jsonl)")
_LEFT_OVER: Final = re.compile(rf"\.{_RELEASE_FILE.pattern}\.\d+\.part")
_MAX_DECIMALS: Final = 15


class Exported(NamedTuple):
    """The two files of a split, and what they hold."""

    questions: int
    contexts: int
    files: tuple[Path, Path]


def export_release(folder: Path, out: Path, splits: Sequence[str] = ()) -> dict[str, Exported]:
    """Write `questions_{split}.csv` and `shared_contexts_{split}.jsonl`, as the official release has them.

    Left out is what that layout cannot hold: evidence, what options assert, and topics and dates of sessions. Files
    take the place of older ones only when all of them are whole. One context is in memory at a time.

    Args:
        folder: A dataset folder.
        out: Where the files go: a new folder, an empty one, or one that holds nothing but such files.
        splits: Which; all of the dataset by default.

    Raises:
        UserError: There is no such dataset or split, its files are damaged, `out` holds something else, or the disk
            refuses.
    """
    manifest = read_manifest(folder)
    names = list(dict.fromkeys(splits)) or list(manifest["splits"])
    for name in names:
        check_split(manifest, name, folder)
    check_files(folder, names)
    _check_out(out)
    for name in names:
        check_questions(folder, name)
    exported = {}
    is_new = not out.exists()
    try:
        out.mkdir(parents=True, exist_ok=True)
        for path in out.iterdir():
            if _LEFT_OVER.fullmatch(path.name):  # by a run that was killed
                path.unlink()
        with ExitStack() as files:  # every file is written before the first one takes its place
            for name in names:
                paths = (out / questions_file(name), out / contexts_file(name))
                question_file, context_file = (files.enter_context(replacing(path)) for path in paths)
                total = manifest["splits"][name]["shared_contexts"]
                exported[name] = Exported(
                    _write_questions(folder, name, question_file),
                    _write_contexts(context_files(folder, name), context_file, name, total),
                    paths,
                )
    except OSError as error:
        raise UserError(f"{out} cannot be written: {error}", "free some space, or choose another --out") from error
    finally:
        if is_new and not exported:
            with suppress(OSError):
                out.rmdir()
    return exported


def _check_out(out: Path) -> None:
    if not out.exists():
        return
    if not out.is_dir():
        raise UserError(f"{out} exists and is not a folder", "choose another --out")
    other = sorted(p.name for p in out.iterdir() if not _RELEASE_FILE.fullmatch(p.name))
    if other := [name for name in other if not _LEFT_OVER.fullmatch(name)]:
        raise UserError(
            f"{out} holds something other than questions_SPLIT.csv and shared_contexts_SPLIT.jsonl: {other[0]}",
            "choose another --out",
        )


def _write_questions(folder: Path, split: str, path: Path) -> int:
    optional = [field.name for field in OPTIONAL_QUESTION_FIELDS]
    known = {name for table in iter_questions(folder, split) for name in optional if has_values(table, name)}
    columns = [*OFFICIAL_COLUMNS, *(name for name in optional if name in known)]
    count = 0
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(_line(columns))
        for row in (row for table in iter_questions(folder, split) for row in table.to_pylist()):
            cells = official_cells(row)
            file.write(_line([cells[column] for column in columns]))
            count += 1
    return count


def official_cells(row: QuestionRow) -> dict[str, Any]:
    """Return a question row as the official CSV has it.

    Its type is labelled as in its source, its options are a JSON list and a Python literal alike, the distance is a
    percentage.
    """
    return {
        **row,
        "question_type": row["source_question_type"],
        # JSON that escapes no more than it must is a Python literal too: official scripts read either.
        "all_options": json.dumps(row["all_options"], ensure_ascii=False),
        "distance_to_ref_proportion_in_context": _percentage(row["distance_to_ref_proportion_in_context"]),
    }


def _percentage(fraction: float) -> str:
    """Return `92.67%`, with as many decimals more as give the same 32-bit number when read."""
    for decimals in range(2, _MAX_DECIMALS):
        cell = f"{100 * fraction:.{decimals}f}"
        if struct.pack("f", float(cell) / 100) == struct.pack("f", fraction):
            break
    return f"{cell}%"


def _line(cells: Sequence[Any]) -> str:
    """Return a line of CSV that ends as in the official files; a cell with any line end in it is quoted."""
    line = io.StringIO(newline="")
    # With "\n" as its line end, the writer of Python 3.11 would leave a lone "\r" unquoted.
    csv.writer(line, lineterminator="\r\n").writerow(cells)
    return line.getvalue().removesuffix("\r\n") + "\n"


def _write_contexts(sources: Sequence[Path], path: Path, split: str, total: int) -> int:
    count = 0
    with path.open("w", encoding="utf-8", newline="") as file:
        for row in track(iter_contexts(*sources), f"writing contexts of {split}", total):
            file.write(json.dumps({row["shared_context_id"]: row["messages"]}, ensure_ascii=False) + "\n")
            count += 1
    return count
