"""Writing the folder of a validation study."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from generation.errors import UserError
from personamem_builder.annotation.exports import label_studio_config, label_studio_tasks, potato_files
from personamem_builder.annotation.items import Item, key_of, sample_digest
from personamem_builder.annotation.sheet import sheet_files
from personamem_builder.schema import option_letter

KEY: Final = "key.json"


def write_study(out: Path, items: Sequence[Item], *, source: str, split: str, data_digest: str, seed: int) -> None:
    """Write the sheet, its key, and the files for annotation tools; the folder is whole or absent.

    Args:
        out: The folder to make.
        items: What is rated, in order.
        source: What the questions are from, for the head of the sheet.
        split: Their split.
        data_digest: Content digest of the dataset.
        seed: Of the sample.

    Raises:
        UserError: `out` is there and not an empty folder, or cannot be written.
    """
    part = out.with_name(f".{out.name}.{os.getpid()}.part")
    try:
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            hint = "choose another --out: a sheet that people rate must not change"
            raise UserError(f"{out} is there already", hint)
        part.mkdir(parents=True)
        key = key_of(items, split=split, data_digest=data_digest, seed=seed)
        _write(part / KEY, [json.dumps(key, ensure_ascii=False, indent=1), "\n"])
        for name, text in sheet_files(items, source):
            _write(part / name, [text])
        _write(part / "items.jsonl", (json.dumps(record, ensure_ascii=False) + "\n" for record in _records(items)))
        _write(part / "label_studio.xml", [label_studio_config(items)])
        _write(part / "label_studio.json", _json_list(label_studio_tasks(items)))
        for name, text in potato_files(items):
            _write(part / "potato" / name, [text])
        part.replace(out)
    except OSError as error:
        raise UserError(f"{out} cannot be written: {error.strerror}", "choose another --out") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _records(items: Sequence[Item]) -> Iterator[dict[str, Any]]:
    """Yield the items without their answers, for tools of one's own."""
    sample = sample_digest(items)
    for item in items:
        yield {
            "id": item.id,
            "sample": sample,
            "question_type": item.row["question_type"],
            "topic": item.row["topic"],
            "whole_history": item.whole,
            "history": item.lines,
            "message": item.message,
            "options": {option_letter(index): text for index, text in enumerate(item.options)},
        }


def _json_list(records: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield a JSON list piece by piece: with whole histories it may be larger than the memory."""
    before = "[\n"
    for record in records:
        yield before + json.dumps(record, ensure_ascii=False)
        before = ",\n"
    yield "\n]\n"


def _write(path: Path, pieces: Iterable[str]) -> None:
    path.parent.mkdir(exist_ok=True)
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(pieces)
        file.flush()
        os.fsync(file.fileno())
