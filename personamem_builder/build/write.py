"""Writing a dataset folder: Parquet, card and manifest, all or nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from generation.errors import UserError
from generation.files import file_digest, replacing_folder
from generation.tokenizer import TOKENIZER
from personamem_builder.build.card import CARD, render_card, split_card, write_pictures
from personamem_builder.build.contexts_parquet import ContextWriter
from personamem_builder.build.features import features_of
from personamem_builder.build.parts import FILE_LIMIT
from personamem_builder.build.questions_parquet import WrittenQuestions, write_questions
from personamem_builder.dataset.context_places import persona_span
from personamem_builder.dataset.folder import AUDIT, dataset_digest
from personamem_builder.manifest import MANIFEST, FileEntry, Manifest, OptionalEntries, SplitEntry, is_dataset_folder
from personamem_builder.schema import CONTEXT_SCHEMA, SCHEMA_VERSION, ContextRow
from personamem_builder.table_files import contexts_path, questions_path, table_files

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
    questions: Mapping[str, Iterable[pa.Table]],
    contexts: Iterable[tuple[str, ContextRow]],
    source: Source,
    notes: Sequence[str] = (),
    auditor: Auditor | None = None,
    funnel: dict[str, Any] | None = None,
    generation: dict[str, Any] | None = None,
    file_limit: int = FILE_LIMIT,
) -> Manifest:
    """Write a dataset folder, replacing an older one only once the new one is whole.

    What was written by hand into the card of the older one goes into the new card. In memory are at most a row group of
    questions or of contexts: 32 MiB of text.

    Args:
        out: The folder to make.
        questions: The questions of each split, sorted by (context, end index): a stream of tables, read before the
            contexts.
        contexts: Shared contexts, each with its split: a stream, of which one has to be in memory.
        source: Where the content comes from.
        notes: Known oddities, one sentence each, for the manifest and the card.
        auditor: Audits the folder, which then holds what it found, and whose card shows it.
        funnel: What became of the questions that were made; None if nothing was decided about them.
        generation: What generated data were made with. It is published: no secrets, no paths.
        file_limit: Bytes after which a file of a table ends and another begins.

    Raises:
        UserError: `out` exists and is something else, its card cannot be read, a split has no questions, or the disk
            refuses.
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
            written, splits = _write_tables(folder, questions, contexts, file_limit)
            told["figures"] = {split: own.figures.as_json() for split, own in written.items()}
            manifest = _manifest(folder, splits, next(iter(written.values())).schema, source, told)
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
    folder: Path,
    questions: Mapping[str, Iterable[pa.Table]],
    contexts: Iterable[tuple[str, ContextRow]],
    limit: int,
) -> tuple[dict[str, WrittenQuestions], dict[str, SplitEntry]]:
    """Write the files of all splits; return what was written, and their entries in the manifest."""
    canary = {CANARY_KEY: CANARY}
    written = {
        split: write_questions(folder / questions_path(split), split, tables, canary, limit)
        for split, tables in questions.items()
    }
    with ExitStack() as stack:
        writers = {
            split: stack.enter_context(ContextWriter(folder / contexts_path(split), canary, limit)) for split in written
        }
        for split, row in contexts:
            writers[split].write(row)
        for writer in writers.values():
            writer.flush()  # side by side
    return written, {split: _entry(own, writers[split]) for split, own in written.items()}


def _entry(questions: WrittenQuestions, contexts: ContextWriter) -> SplitEntry:
    longest = questions.figures.context_tokens
    return {
        "questions": questions.figures.questions,
        "shared_contexts": contexts.count,
        "personas": questions.figures.personas,
        "max_context_length_in_tokens": int(longest.greatest) if longest else 0,
        "digests": {"benchmark": questions.digest, "shared_contexts": contexts.digest.hexdigest()},
        "num_bytes": {"benchmark": questions.num_bytes, "shared_contexts": contexts.num_bytes},
    }


def _manifest(
    folder: Path, splits: dict[str, SplitEntry], question_schema: pa.Schema, source: Source, told: OptionalEntries
) -> Manifest:
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
        "features": {"benchmark": features_of(question_schema), "shared_contexts": features_of(CONTEXT_SCHEMA)},
        "splits": splits,
        "files": _file_entries(folder, splits),
    }


def _file_entries(folder: Path, splits: Iterable[str]) -> dict[str, FileEntry]:
    entries: dict[str, FileEntry] = {
        f"data/{path.name}": {"bytes": path.stat().st_size, "sha256": file_digest(path)}
        for path in sorted((folder / "data").iterdir())
    }
    for split in splits:
        names = table_files(entries, "shared_contexts", split)
        for name in names if len(names) > 1 else ():
            metadata = pq.read_metadata(folder / name)
            spans = [persona_span(metadata.row_group(i)) for i in range(metadata.num_row_groups)]
            ends = [end for span in spans if span for end in span]
            entries[name]["personas"] = [min(ends), max(ends)]
    return entries


def _check_out(out: Path) -> None:
    if not out.name:
        raise UserError(f"{out} is the current folder, which cannot be replaced", "choose another --out")
    if out.exists() and not is_dataset_folder(out) and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out} exists and is not a personamem dataset folder", "choose another --out")
