"""From a file of posts to a dataset folder: all or nothing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, Field, field_validator

from generation.errors import UserError
from generation.files import file_digest, replacing_folder
from generation.reading import as_model, read_json
from personamem_builder.official.faults import Faults
from personamem_builder.persona_bench.card import TERMS, items_path, render_card, table_path
from personamem_builder.persona_bench.items import Items, user_rows
from personamem_builder.persona_bench.read import read_posts
from personamem_builder.persona_bench.records import (
    DOMAINS,
    ITEM_SCHEMA,
    MESSAGE_SCHEMA,
    OTHER,
    POST_SCHEMA,
    SCHEMA_VERSION,
    SPLITS,
    TASKS,
    USER_SCHEMA,
    MessageRow,
    domain_of,
)
from personamem_builder.persona_bench.tree import take_apart

MANIFEST: Final = "manifest.json"
CARD: Final = "README.md"
FORMAT: Final = "persona-bench"

_BATCH: Final = 5000
_ITEMS_BATCH: Final = 200
"""Rows in memory before they are written; items are long."""


def import_file(path: Path, out: Path, seed: int = 0) -> dict[str, Any]:
    """Read a file of posts and write a dataset folder, replacing an older one only once the new one is whole.

    Args:
        path: The file, in any of the forms that `read` tells.
        out: The folder to make.
        seed: Of the splits by author, the other histories and the choice where a post has too many targets.

    Returns:
        The manifest.

    Raises:
        UserError: The file has faults (all are listed, nothing is written), or `out` cannot be written.
    """
    try:
        _check_out(out)
        with replacing_folder(out) as folder:
            (folder / "data").mkdir()
            counts: Counter[str] = Counter()
            domains = _write_posts(path, folder, counts)
            items = _write_items(folder, seed)
            manifest = {
                "format": FORMAT,
                "schema_version": SCHEMA_VERSION,
                "terms": TERMS,
                "source": {"name": path.name, "bytes": path.stat().st_size, "sha256": file_digest(path)},
                "seed": seed,
                "counts": {
                    **{name: pq.read_metadata(folder / table_path(name)).num_rows for name in ("posts", "messages")},
                    "users": pq.read_metadata(folder / table_path("users")).num_rows,
                    **{key: counts[key] for key in sorted(counts)},
                },
                "posts_by_domain": domains,
                **items,
                "files": {
                    f"data/{file.name}": {"bytes": file.stat().st_size, "sha256": file_digest(file)}
                    for file in sorted((folder / "data").iterdir())
                },
            }
            (folder / MANIFEST).write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
            (folder / CARD).write_text(render_card(manifest), encoding="utf-8")
    except OSError as error:
        raise UserError(f"{out} cannot be written: {error}", "the folder is as it was before") from error
    return manifest


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest of a PERSONA-Bench folder.

    Raises:
        UserError: There is none, or it belongs to a newer personamem.
    """
    if not is_persona_bench(folder):
        raise UserError(
            f"{folder} is not a PERSONA-Bench folder (no {MANIFEST} of ours in it)",
            "make one: personamem persona-bench import FILE --out persona_bench",
        )
    path, hint = folder / MANIFEST, "import the posts again"
    manifest: dict[str, Any] = read_json(path, hint)
    known = as_model(manifest, _Manifest, str(path), hint)
    if known.schema_version > SCHEMA_VERSION:
        raise UserError(
            f"{folder} has schema version {known.schema_version}, this version of personamem reads up to "
            f"{SCHEMA_VERSION}",
            "install a newer personamem",
        )
    return manifest


class _File(BaseModel):
    sha256: str


class _Manifest(BaseModel):
    """What is read of a manifest."""

    schema_version: int = Field(ge=1)
    files: dict[str, _File]

    @field_validator("files")
    @classmethod
    def _whole(cls, files: dict[str, _File]) -> dict[str, _File]:
        needed = {table_path(name) for name in ("posts", "messages", "users")}
        needed |= {items_path(task, split) for task in TASKS for split in SPLITS}
        if lacking := sorted(needed - files.keys()):
            raise ValueError(f"{', '.join(lacking)} is not listed")
        if foreign := [name for name in files if name not in needed]:
            raise ValueError(f"{foreign[0]!r} is not a file of ours")
        return files


class _Table:
    """A Parquet file that is written a batch of rows at a time."""

    def __init__(self, path: Path, schema: pa.Schema, batch: int) -> None:
        self._writer = pq.ParquetWriter(path, schema, compression="zstd")
        self._schema = schema
        self._batch = batch
        self._rows: list[Mapping[str, Any]] = []

    def __enter__(self) -> _Table:
        return self

    def __exit__(self, *error: object) -> None:
        if error[0] is None:
            self._flush()
        self._writer.close()

    def add(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self._rows += rows
        if len(self._rows) >= self._batch:
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            self._writer.write_table(pa.Table.from_pylist(self._rows, schema=self._schema))
            self._rows = []


def _write_posts(path: Path, folder: Path, counts: Counter[str]) -> dict[str, int]:
    """Write the tables of posts and messages; return the number of posts in each domain."""
    faults = Faults()
    seen: set[str] = set()
    domains = Counter(dict.fromkeys((*DOMAINS, OTHER), 0))
    authors: set[str] = set()
    with (
        _Table(folder / table_path("posts"), POST_SCHEMA, _BATCH) as posts,
        _Table(folder / table_path("messages"), MESSAGE_SCHEMA, _BATCH) as messages,
    ):
        for raw in read_posts(path, faults, counts):
            row_counts: Counter[str] = Counter()
            row, comments = take_apart(raw.post, raw.where, faults, row_counts, linked=raw.linked)
            if row["post_id"] in seen:
                counts["posts_twice"] += 1
            elif not faults.lines:
                seen.add(row["post_id"])
                counts.update(row_counts)
                counts["posts_without_comments"] += not comments
                depths = [comment["depth"] for comment in comments]
                counts["threads"] += depths.count(0)
                # Depth first: what replies to a comment follows it.
                counts["paths"] += sum(after <= depth for depth, after in zip(depths, [*depths[1:], 0], strict=False))
                domains[domain_of(row["subreddit"])] += 1
                authors.add(row["author"])
                posts.add([row])
                messages.add(comments)
    faults.raise_if_any()
    counts["post_authors"] = len(authors - {""})
    return dict(domains)


def _write_items(folder: Path, seed: int) -> dict[str, Any]:
    posts = pq.read_table(folder / table_path("posts")).to_pylist()
    messages = pq.read_table(folder / table_path("messages")).to_pylist()
    users = user_rows(posts, messages, seed)
    with _Table(folder / table_path("users"), USER_SCHEMA, _BATCH) as table:
        table.add(users)
    threads: dict[str, list[MessageRow]] = {}
    for message in messages:
        threads.setdefault(message["post_id"], []).append(message)
    items = Items(posts, threads, users, seed)
    counts: Counter[tuple[str, str, str]] = Counter()
    authors: dict[tuple[str, str], set[str]] = {}
    with ExitStack() as stack:
        tables = {
            (task, split): stack.enter_context(_Table(folder / items_path(task, split), ITEM_SCHEMA, _ITEMS_BATCH))
            for task in TASKS
            for split in SPLITS
        }
        for split, item in items:
            task = item["task"]
            tables[task, split].add([item])
            authors.setdefault((task, split), set()).add(item["author"])
            counts[task, split, "items"] += 1
            if item["score"] is not None:
                sign = "positive" if item["score"] > 0 else "zero" if item["score"] == 0 else "negative"
                counts[task, split, sign] += 1
    return {
        "items": {
            task: {
                split: {
                    "items": counts[task, split, "items"],
                    "authors": len(authors.get((task, split), ())),
                    **(
                        {sign: counts[task, split, sign] for sign in ("positive", "zero", "negative")}
                        if task != "next_text"
                        else {}
                    ),
                }
                for split in SPLITS
            }
            for task in TASKS
        },
        "items_noted": dict(sorted(items.noted.items())),
        "replies_left_out": dict(sorted(items.dropped.items())),
    }


def is_persona_bench(folder: Path) -> bool:
    """Return whether a folder holds a PERSONA-Bench dataset, by its manifest."""
    try:
        content = read_json(folder / MANIFEST)
    except UserError:
        return False
    return isinstance(content, dict) and content.get("format") == FORMAT


def _check_out(out: Path) -> None:
    if not out.name:
        raise UserError(f"{out} is the current folder, which cannot be replaced", "choose another --out")
    if out.exists() and not is_persona_bench(out) and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out} exists and is not a PERSONA-Bench folder", "choose another --out")
