"""From the official release to a dataset folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from generation.files import file_digest, json_digest
from personamem_builder.build.write import Source, write_dataset
from personamem_builder.manifest import Manifest
from personamem_builder.official.download import OFFICIAL_REVISION, download_release
from personamem_builder.official.release import read_release, release_files
from personamem_builder.schema import SPLITS

_URL: Final = "https://huggingface.co/datasets/bowen-upenn/PersonaMem"


@dataclass(frozen=True)
class Imported:
    """What an import made: the manifest of the folder, the legal oddities met, and see `Release.strangers`."""

    manifest: Manifest
    notes: Sequence[str]
    strangers: Mapping[str, Sequence[str]]


def import_release(path: Path, out: Path) -> Imported:
    """Read a folder of release files and write a dataset folder.

    Raises:
        UserError: The files have faults (all are listed, nothing is written), or `out` cannot be written.
    """
    release = read_release(path)
    files = {name: file_digest(path / name) for name in release_files(release.questions)}
    source = Source(
        name="the official PersonaMem release",
        url=_URL,
        license="mit",
        version="1.0.0",
        fingerprint=json_digest(files),
    )
    contexts = ((split, row) for split, rows in release.contexts.items() for row in rows)
    questions = {split: [table] for split, table in release.questions.items()}
    manifest = write_dataset(out, questions, contexts, source, release.notes)
    return Imported(manifest, release.notes, release.strangers)


def import_from_hub(out: Path, splits: Sequence[str] = (), revision: str | None = None) -> Imported:
    """Download some splits of the release, all by default, and write a dataset folder.

    Raises:
        UserError: The Hub cannot be reached or lacks the files; or as `import_release`.
    """
    return import_release(download_release(splits or SPLITS, revision=revision or OFFICIAL_REVISION).folder, out)
