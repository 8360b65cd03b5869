"""Writing a dataset folder: Parquet, card and manifest, all or nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from generation.errors import UserError
from generation.files import file_digest, replacing_folder
from generation.tokenizer import TOKENIZER
from personamem_builder.build.card import CARD, render_card, split_card, write_pictures
from personamem_builder.build.contexts_parquet import ContextWriter
from personamem_builder.build.features import features_of
from personamem_builder.dataset.folder import AUDIT, content_digest, contexts_path, dataset_digest, questions_path
from personamem_builder.manifest import MANIFEST, Manifest, OptionalEntries, SplitEntry, is_dataset_folder
from personamem_builder.schema import SCHEMA_VERSION, ContextRow
from personamem_builder.stats.figures import describe_split

CANARY: Final = "personamem:canary:7f0c2b1e-5a8d-4d0e-9c43-2f6b1d7a90e5"
"""Marks our data files, so that a model trained on them can be found out. Never reuse it elsewhere."""

CANARY_KEY: Final = "personamem.canary"
"""Under which each Parquet file carries it, in its key-value metadata."""

Auditor = Callable[[Path], Mapping[str, Any]]
"""Audits a dataset folder that has no card yet, and returns the JSON that `audit.render` defines."""


@dataclass(frozen=True)
class Source:
    """Where the content of a dataset comes from, and under what license and version it goes.

    Attributes:
        url: May be empty.
        license: SPDX id in lower case, as Hub cards write it.
        fingerprint: Identifies the inputs (a config, or the digests of the files read).
    """

    name: str
    url: str
    license: str
    version: str
    fingerprint: str


def write_dataset(
    out: Path,
    questions: Mapping[str, pa.Table],
    contexts: Iterable[tuple[str, ContextRow]],
    source: Source,
    notes: Sequence[str] = (),
    auditor: Auditor | None = None,
    funnel: dict[str, Any] | None = None,
    generation: dict[str, Any] | None = None,
) -> Manifest:
    """Write a dataset folder, replacing an older one only once the new one is whole.

    What was written by hand into the card of the older one goes into the new card.

    Args:
        out: The folder to make.
        questions: The question table of each split, sorted by (context, end index).
        contexts: Shared contexts, each with its split: a stream, of which one has to be in memory.
        source: Where the content comes from.
        notes: Known oddities, one sentence each, for the manifest and the card.
        auditor: Audits the folder, which then holds what it found, and whose card shows it.
        funnel: What became of the questions that were made; None if nothing was decided about them.
        generation: What generated data were made with. It is published: no secrets, no paths.

    Raises:
        UserError: `out` exists and is something else, its card cannot be read, or the disk refuses.
    """
    told: OptionalEntries = {"notes": list(notes)}
    if generation is not None:
        told["generation"] = generation
    if funnel is not None:
        told["funnel"] = funnel
    try:
        _check_out(out)
        with replacing_folder(out) as folder:
            previous = _read_card(out)
            (folder / "data").mkdir()
            splits = _write_tables(folder, questions, contexts)
            figures = [describe_split(split, table.to_pylist()) for split, table in questions.items()]
            told["figures"] = {one.split: one.as_json() for one in figures}
            manifest = _manifest(folder, splits, source, told)
            (folder / MANIFEST).write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
            audit = auditor(folder) if auditor else None
            if audit is not None:
                (folder / AUDIT).write_text(json.dumps(audit, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
            (folder / CARD).write_text(render_card(manifest, audit, previous), encoding="utf-8")
            write_pictures(folder, manifest)
    except OSError as error:
        raise UserError(f"{out} cannot be written: {error}", "the folder is as it was before") from error
    return manifest


def _read_card(folder: Path) -> str | None:
    """Return the card of the folder that is replaced, None if it has none; one that is damaged is found out early."""
    path = folder / CARD
    if not path.is_file():
        return None
    try:
        text = path.read_text(encoding="utf-8")
        split_card(text)
    except (UnicodeDecodeError, UserError) as error:
        raise UserError(
            f"{path}, of which the parts written by hand are kept, cannot be read: {error}", "mend it, or remove it"
        ) from error
    return text


def _write_tables(
    folder: Path, questions: Mapping[str, pa.Table], contexts: Iterable[tuple[str, ContextRow]]
) -> dict[str, SplitEntry]:
    """Write the files of all splits and return their entries in the manifest."""
    canary = {CANARY_KEY: CANARY}
    with ExitStack() as stack:
        writers = {
            split: stack.enter_context(ContextWriter(folder / contexts_path(split), canary)) for split in questions
        }
        for split, row in contexts:
            writers[split].write(row)
        for writer in writers.values():
            writer.flush()
        for split, table in questions.items():
            with pq.ParquetWriter(folder / questions_path(split), table.schema, compression="zstd") as writer:
                writer.write_table(table)
                writer.add_key_value_metadata(canary)
        question_digests = {split: content_digest(table) for split, table in questions.items()}
    return {
        split: {
            "questions": table.num_rows,
            "shared_contexts": writers[split].count,
            "personas": pc.count_distinct(table["persona_id"]).as_py(),
            "max_context_length_in_tokens": pc.max(table["context_length_in_tokens"]).as_py(),
            "digests": {"benchmark": question_digests[split], "shared_contexts": writers[split].digest.hexdigest()},
            "num_bytes": {"benchmark": table.nbytes, "shared_contexts": writers[split].num_bytes},
        }
        for split, table in questions.items()
    }


def _manifest(folder: Path, splits: dict[str, SplitEntry], source: Source, told: OptionalEntries) -> Manifest:
    first = next(iter(splits))
    return {
        "format": "personamem",
        "schema_version": SCHEMA_VERSION,
        "version": source.version,
        "digest": dataset_digest(splits),
        "source": {"name": source.name, "url": source.url},
        "license": source.license,
        "config_fingerprint": source.fingerprint,
        "tokenizer": TOKENIZER,
        "canary": CANARY,
        **told,
        "features": {
            "benchmark": features_of(pq.read_schema(folder / questions_path(first))),
            "shared_contexts": features_of(pq.read_schema(folder / contexts_path(first))),
        },
        "splits": splits,
        "files": {
            f"data/{path.name}": {"bytes": path.stat().st_size, "sha256": file_digest(path)}
            for path in sorted((folder / "data").iterdir())
        },
    }


def _check_out(out: Path) -> None:
    if not out.name:
        raise UserError(f"{out} is the current folder, which cannot be replaced", "choose another --out")
    if out.exists() and not is_dataset_folder(out) and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out} exists and is not a personamem dataset folder", "choose another --out")
