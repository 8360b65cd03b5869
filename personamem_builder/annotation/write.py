"""Writing the folder of a validation study."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from generation.errors import UserError
from generation.files import replacing_folder
from personamem_builder.annotation.exports import label_studio_config, label_studio_tasks, potato_files
from personamem_builder.annotation.items import AnnotationItem, key_of, sample_digest
from personamem_builder.annotation.sheet import sheet_files
from personamem_builder.schema import option_letter

KEY: Final = "key.json"


def write_study(
    out: Path, items: Sequence[AnnotationItem], *, source: str, split: str, data_digest: str, seed: int
) -> None:
    """Write the sheet, its key, and the files for annotation tools; the folder is whole or absent.

    The head of the sheet names the `source` of the questions; the key holds `split`, `data_digest` and `seed`.

    Raises:
        UserError: `out` is there and not an empty folder, or cannot be written.
    """
    key = key_of(items, split=split, data_digest=data_digest, seed=seed)
    try:
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            hint = "choose another --out: a sheet that people rate must not change"
            raise UserError(f"{out} already exists", hint)
        with replacing_folder(out) as new:
            _write(new / KEY, [json.dumps(key, ensure_ascii=False, indent=1), "\n"])
            for name, text in sheet_files(items, source):
                _write(new / name, [text])
            _write(new / "items.jsonl", (json.dumps(record, ensure_ascii=False) + "\n" for record in _records(items)))
            _write(new / "label_studio.xml", [label_studio_config(items)])
            _write(new / "label_studio.json", _json_list(label_studio_tasks(items)))
            for name, text in potato_files(items):
                _write(new / "potato" / name, [text])
    except OSError as error:
        raise UserError(f"{out} cannot be written: {error.strerror}", "choose another --out") from error


def _records(items: Sequence[AnnotationItem]) -> Iterator[dict[str, object]]:
    """Yield the items without their answers, for tools of one's own."""
    sample = sample_digest(items)
    for item in items:
        yield {
            "id": item.row["question_id"],
            "sample": sample,
            "question_type": item.row["question_type"],
            "topic": item.row["topic"],
            "whole_history": item.whole,
            "history": item.lines,
            "message": item.message,
            "options": {option_letter(index): text for index, text in enumerate(item.options)},
        }


def _json_list(records: Iterable[dict[str, object]]) -> Iterator[str]:
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
