"""A dataset folder, loaded as users load it and compared with its manifest."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from generation.errors import UserError
from personamem_builder.build.contexts_parquet import ContextDigest
from personamem_builder.dataset.check import check_questions, iter_questions
from personamem_builder.dataset.contexts import iter_contexts
from personamem_builder.dataset.folder import (
    ContentDigest,
    changed_files,
    context_files,
    dataset_digest,
    question_files,
)
from personamem_builder.manifest import read_manifest


def verify_dataset(folder: Path) -> None:
    """Load each split with plain `datasets`, and compare counts and digests with the manifest.

    Raises:
        UserError: Something differs, or the data have faults; they are named.
    """
    import datasets

    manifest = read_manifest(folder)
    faults = [f"{name} is damaged" for name in changed_files(folder)]
    if faults:  # it may not even load
        raise _faulty(folder, faults)
    if manifest["digest"] != dataset_digest(manifest["splits"]):
        faults.append("the digest in the manifest is not that of its splits")
    for split, entry in manifest["splits"].items():
        check_questions(folder, split)
        files = [str(path) for path in question_files(folder, split)]
        with tempfile.TemporaryDirectory() as cache, _no_bars():
            loaded = datasets.load_dataset("parquet", data_files={"rows": files}, split="rows", cache_dir=cache)
        if len(loaded) != entry["questions"]:
            faults.append(f"{split}: {len(loaded)} questions load and not {entry['questions']}")
        questions = ContentDigest()
        for table in iter_questions(folder, split):
            questions.update(table.to_pylist())
        if questions.hexdigest() != entry["digests"]["benchmark"]:
            faults.append(f"{split}: the questions have another digest than the manifest says")
        contexts = ContextDigest()
        count = contexts.update(iter_contexts(*context_files(folder, split)))
        if count != entry["shared_contexts"]:
            faults.append(f"{split}: there are {count} contexts and not {entry['shared_contexts']}")
        if contexts.hexdigest() != entry["digests"]["shared_contexts"]:
            faults.append(f"{split}: the contexts have another digest than the manifest says")
    if faults:
        raise _faulty(folder, faults)


@contextmanager
def _no_bars() -> Iterator[None]:
    """Have `datasets` show no progress: nobody asked it for anything."""
    from datasets.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    were_disabled = are_progress_bars_disabled()
    disable_progress_bars()
    try:
        yield
    finally:
        if not were_disabled:
            enable_progress_bars()


def _faulty(folder: Path, faults: list[str]) -> UserError:
    return UserError(f"{folder} is not as it was written: {'; '.join(faults)}", "build it again")
