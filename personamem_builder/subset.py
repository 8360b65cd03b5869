"""Lists of questions that an evaluation is restricted to, such as the hard part of a split.

    {"format": "personamem-subset", "version": 1, "method": "how they were chosen",
     "source": "what from", "digest": "…" or null, "splits": {"32k": ["question id", …], …}}

A plain text file with an id a line is read too.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from pydantic import BaseModel, ConfigDict

from generation.errors import UserError
from generation.files import replacing
from generation.reading import as_model, parse_json, read_text

FORMAT: Final = "personamem-subset"
VERSION: Final = 1
_MAKE: Final = "make one: personamem audit DATA --export-hard FILE; or write a question id a line"


class Subset(NamedTuple):
    """Some questions of a split: their ids, sorted, and the name of the file that lists them."""

    name: str
    ids: tuple[str, ...]

    @property
    def digest(self) -> str:
        """The sha256 of the ids, sorted, a line each: files with the same questions have the same."""
        return hashlib.sha256("".join(f"{question_id}\n" for question_id in self.ids).encode()).hexdigest()


class _File(BaseModel):
    model_config = ConfigDict(strict=True)

    version: int
    splits: dict[str, list[str]]


def write_subset(
    path: Path, splits: Mapping[str, Sequence[str]], *, method: str, source: str, digest: str | None
) -> None:
    """Write the ids of the questions of a subset by split, all or nothing.

    Args:
        path: The file.
        splits: The ids.
        method: How they were chosen, in words.
        source: What they were chosen from.
        digest: Content digest of that dataset; None where there is none.
    """
    content = {
        "format": FORMAT,
        "version": VERSION,
        "method": method,
        "source": source,
        "digest": digest,
        "splits": splits,
    }
    with replacing(path) as part:
        part.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read_subset(path: str | os.PathLike[str], split: str) -> Subset:
    """Read which questions of a split a file of `write_subset` names; a plain list of ids, one a line, is of any split.

    Raises:
        UserError: The file is absent or not such a file, or it names no question of the split.
    """
    file = Path(path).expanduser()
    text = read_text(file, _MAKE)
    is_json = text.lstrip().startswith(("{", "["))
    ids = _ids_of_split(file, text, split) if is_json else [line for line in map(str.strip, text.splitlines()) if line]
    if not ids:
        raise UserError(f"{file} names no question of the split {split}", _MAKE)
    return Subset(file.name, tuple(sorted(set(ids))))


def _ids_of_split(file: Path, text: str, split: str) -> Iterable[str]:
    content = parse_json(text, str(file), _MAKE)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise UserError(f'{file} is not a list of questions: it lacks "format": "{FORMAT}"', _MAKE)
    parsed = as_model(content, _File, str(file), _MAKE)
    if parsed.version != VERSION:
        raise UserError(f"{file} has version {parsed.version}, version {VERSION} is read", "update personamem")
    if split not in parsed.splits:
        raise UserError(
            f"{file} has no questions of the split {split}, only of {', '.join(parsed.splits) or 'none at all'}",
            "evaluate a task of such a split, or export it from data that have this one",
        )
    return parsed.splits[split]
