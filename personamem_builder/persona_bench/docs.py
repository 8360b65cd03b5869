"""Reading the items of a dataset folder with their prompts, in the paired and in the released form."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from generation.errors import UserError
from generation.files import file_digest
from personamem_builder.persona_bench.card import items_path, table_path
from personamem_builder.persona_bench.prompts import TRUTH, Limits, make_doc
from personamem_builder.persona_bench.records import ITEM_SCHEMA, MESSAGE_SCHEMA, POST_SCHEMA, SPLITS, ItemDoc
from personamem_builder.persona_bench.released import released_docs
from personamem_builder.persona_bench.tables import iter_rows
from personamem_builder.persona_bench.write import read_manifest

ALL: Final = "all"
"""What the split of the released form is called: it takes all posts."""


class Docs:
    """The items of one task in one condition.

    Attributes:
        split: The split, `ALL` in the released form.
        released: Whether it is the released form.
        digests: Of the files that were read, as the manifest has them.
    """

    def __init__(self, folder: Path, task: str, condition: str, split: str = "test", *, released: bool = False) -> None:
        """Check the files against the manifest.

        Raises:
            UserError: There is no such split, or the folder or its files are not what the manifest says.
        """
        if not released and split not in SPLITS:
            raise UserError(f"split={split}: no such split", f"use one of {', '.join(SPLITS)}")
        self._folder, self._task, self._condition, self.released = folder, task, condition, released
        self.split = ALL if released else split
        names = (
            (table_path("posts"), table_path("messages"))
            if released
            else (items_path(task, "train"), items_path(task, split))
        )
        self.digests = _check(folder, names)

    def rows(self, limits: Limits | None = None) -> Iterator[ItemDoc]:
        """Yield the items; `limits` are those of the paired form.

        Raises:
            UserError: There are none.
        """
        if self.released:
            paths = ((self._folder / name) for name in self.digests)
            posts, messages = (list(iter_rows(*one)) for one in zip(paths, (POST_SCHEMA, MESSAGE_SCHEMA), strict=True))
            yield from released_docs(self._task, self._condition, posts, messages)
            return
        found = False
        # One batch at a time: an item holds a whole conversation, its row only a prompt.
        for item in iter_rows(self._folder / items_path(self._task, self.split), ITEM_SCHEMA):
            found = True
            yield make_doc(item, self._condition, limits)
        if not found:
            what = f"{self._folder} has no items of {self._task} in the split {self.split}"
            raise UserError(what, "import more posts")

    def train_truths(self) -> list[Any]:
        """Return the labels of the train split; there is none in the released form."""
        if self.released:
            return []
        truth = TRUTH[self._task]
        return [row[truth] for row in iter_rows(self._folder / items_path(self._task, "train"), ITEM_SCHEMA, [truth])]


def _check(folder: Path, names: tuple[str, ...]) -> dict[str, str]:
    files = read_manifest(folder)["files"]
    hint = "import the data again: personamem persona-bench import FILE --out persona_bench"
    digests = {}
    for name in names:
        if name not in files or not (folder / name).is_file():
            raise UserError(f"{folder / name} is missing", hint)
        digests[name] = file_digest(folder / name)
        if digests[name] != files[name]["sha256"]:
            raise UserError(f"{folder / name} is not what the manifest says", hint)
    return digests
