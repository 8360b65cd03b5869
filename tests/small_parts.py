"""Datasets whose tables are several files."""

from __future__ import annotations

from pathlib import Path

from personamem_builder.build.write import Source, write_dataset
from personamem_builder.dataset.check import read_questions
from personamem_builder.dataset.contexts import iter_contexts
from personamem_builder.dataset.folder import context_files
from personamem_builder.manifest import read_manifest


def cut_dataset(folder: Path, out: Path, limit: int) -> Path:
    """Write the tables of a dataset anew, with files that end after so many bytes, and row groups too.

    Args:
        folder: A dataset folder.
        out: The folder to make.
        limit: See `write_dataset`.

    Returns:
        The new folder.
    """
    manifest = read_manifest(folder)
    write_dataset(
        out,
        {split: [read_questions(folder, split)] for split in manifest["splits"]},
        ((split, row) for split in manifest["splits"] for row in iter_contexts(*context_files(folder, split))),
        Source(manifest["source"]["name"], manifest["source"]["url"], "mit", manifest["version"], "f" * 64),
        manifest.get("notes", ()),
        generation=manifest.get("generation"),
        file_limit=limit,
    )
    return out
