"""From the official release to a dataset folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from generation.files import file_digest
from personamem_builder.dataset.write import Source, write_dataset
from personamem_builder.official.hub import OFFICIAL_REVISION, download_release
from personamem_builder.official.release import contexts_file, questions_file, read_release
from personamem_builder.schema import SPLITS

_URL: Final = "https://huggingface.co/datasets/bowen-upenn/PersonaMem"


@dataclass(frozen=True)
class Imported:
    """What an import made: the manifest of the folder, the legal oddities met, and see `Release.strangers`."""

    manifest: dict[str, Any]
    notes: Sequence[str]
    strangers: Mapping[str, Sequence[str]]


def import_release(path: Path, out: Path) -> Imported:
    """Read a folder of release files and write a dataset folder.

    Raises:
        UserError: The files have faults (all are listed, nothing is written), or `out` cannot be written.
    """
    release = read_release(path)
    files = {
        name: file_digest(path / name)
        for split in release.questions
        for name in (questions_file(split), contexts_file(split))
    }
    source = Source(
        name="the official PersonaMem release",
        url=_URL,
        license="mit",
        version="1.0.0",
        fingerprint=hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest(),
    )
    contexts = ((split, row) for split, rows in release.contexts.items() for row in rows)
    manifest = write_dataset(out, release.questions, contexts, source, release.notes)
    return Imported(manifest, release.notes, release.strangers)


def import_from_hub(out: Path, splits: Sequence[str] = (), revision: str | None = None) -> Imported:
    """Download the release from the Hub and write a dataset folder.

    Args:
        out: The dataset folder to write.
        splits: The splits to fetch; all of them by default.
        revision: Another revision than the pinned one.

    Raises:
        UserError: The Hub cannot be reached or lacks the files; or as `import_release`.
    """
    return import_release(download_release(splits or SPLITS, revision=revision or OFFICIAL_REVISION).folder, out)
