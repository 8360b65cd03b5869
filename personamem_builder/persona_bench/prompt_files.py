"""Prompts as JSON lines, for any harness: a row gets a `response`, and `log.evaluate_log` scores the file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Final, NamedTuple

from generation.errors import UserError
from generation.files import replacing
from personamem_builder.persona_bench.docs import Docs
from personamem_builder.persona_bench.prompts import Limits
from personamem_builder.persona_bench.records import ItemDoc, domain_of

_SUFFIX: Final = ".jsonl"


class PromptFile(NamedTuple):
    """A file that was written, and its number of rows."""

    path: Path
    rows: int


def write_prompts(
    folder: Path,
    out: Path,
    tasks: Sequence[str],
    conditions: Sequence[str],
    *,
    split: str = "test",
    released: bool = False,
    limits: Limits | None = None,
) -> list[PromptFile]:
    """Write a file for each task and condition, a row for each item.

    Args:
        folder: The dataset folder.
        out: A file `….jsonl` where there is one task and one condition; else a folder, whose files are called
            `{task}_{condition}[_released].jsonl`.
        tasks: Of `TASKS`.
        conditions: Of `CONDITIONS`.
        split: Of the paired form; the released one has all posts.
        released: Whether the items and prompts are those of the released form.
        limits: How much the prompts of the paired form show.

    Raises:
        UserError: The folder has no such items, or `out` is a file for several tasks or conditions, or cannot be
            written.
    """
    wanted = list(product(tasks, conditions))
    is_file = out.suffix == _SUFFIX
    if is_file and len(wanted) != 1:
        raise UserError(
            f"{out} is one file, and there are {len(wanted)} pairs of a task and a condition",
            "name one --task and one --condition, or a folder",
        )
    written = []
    try:
        (out.parent if is_file else out).mkdir(parents=True, exist_ok=True)
        for task, condition in wanted:
            docs = Docs(folder, task, condition, split, released=released)
            name = f"{task}_{condition}{'_released' if released else ''}{_SUFFIX}"
            path = out if is_file else out / name
            rows = 0
            with replacing(path) as part, part.open("w", encoding="utf-8") as file:
                for row in prompt_rows(docs, task, condition, limits):
                    file.write(f"{json.dumps(row, ensure_ascii=False)}\n")
                    rows += 1
            written.append(PromptFile(path, rows))
    except OSError as error:
        raise UserError(f"{out} cannot be written: {error.strerror or error}", "give another --out") from error
    return written


def prompt_rows(docs: Docs, task: str, condition: str, limits: Limits | None = None) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file.

    A row has `item_id`, `task`, `condition`, `form`, `split`, `target_reply_id` (of `messages.parquet`), `user` (the
    author), `subreddit`, `domain`; `prompt`, and the same as `messages`; `cut` (how many texts are left out or
    shortened); `true_label`: `positive` or `negative`, the score, or the reply. Keys that the source has too
    are called as there.
    """
    for doc in docs.rows(limits):
        yield {
            "item_id": doc["item_id"],
            "task": task,
            "condition": condition,
            "form": "released" if docs.released else "paired",
            "split": docs.split,
            "target_reply_id": doc["item_id"].partition("-")[2],
            "user": doc["author"],
            "subreddit": doc["subreddit"],
            "domain": domain_of(doc["subreddit"]),
            "prompt": doc["prompt"],
            "messages": [{"role": "user", "content": doc["prompt"]}],
            "cut": doc["cut"],
            "true_label": _label(task, doc),
        }


def _label(task: str, doc: ItemDoc) -> Any:
    return ("positive" if doc["truth"] else "negative") if task == "sentiment" else doc["truth"]
