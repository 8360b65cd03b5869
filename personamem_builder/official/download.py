"""The official release, downloaded from the Hugging Face Hub at a pinned commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from generation.errors import UserError
from generation.files import file_digest
from personamem_builder.hub.download import OFFICIAL_REPO_IDS, snapshot
from personamem_builder.official.release import release_files
from personamem_builder.schema import SPLITS

OFFICIAL_REVISION: Final = "73dfd752d477d0c466cd441f1669397f5726d7ab"
"""The commit that is read unless the user asks for another."""

OFFICIAL_SHA256: Final = {
    "questions_32k.csv": "23f306a8d28b7ffcf133fe7dad09ade06fcb862fc7c3f19691362a5cd69409bd",
    "shared_contexts_32k.jsonl": "217247ebfec9e8442fc53570c795ab69f21aad08745f7de78d9beab51b122d4a",
}
"""Digests of the files at the pinned commit, as far as they are known."""

_BY_HAND: Final = "download the files by hand and use `personamem import-official FOLDER`"


@dataclass(frozen=True)
class ReleaseDownload:
    """The official release on this machine, under the name and at the commit where it was found."""

    folder: Path
    repo_id: str
    revision: str


def download_release(splits: Sequence[str] = SPLITS, *, revision: str = OFFICIAL_REVISION) -> ReleaseDownload:
    """Download the files of some splits of the official release, or find them in the local cache.

    Digests are checked at the pinned commit only.

    Raises:
        UserError: The files cannot be had, or one of them is not what was published.
    """
    files = release_files(splits)
    repo_id, folder = snapshot(
        OFFICIAL_REPO_IDS,
        revision,
        patterns=files,
        required=files,
        missing_hint="ask for other splits or another revision",
        instead=f", or {_BY_HAND}",
    )
    if folder.name == OFFICIAL_REVISION:
        for name in files:
            _check_digest(folder / name)
    return ReleaseDownload(folder, repo_id, folder.name)


def _check_digest(path: Path) -> None:
    """Raise if a digest is known for a file of the pinned commit and the file has another one."""
    expected = OFFICIAL_SHA256.get(path.name)
    if expected is None:
        return
    found = file_digest(path)
    if found != expected:
        raise UserError(
            f"{path} is not the published file: expected sha256 {expected}, found {found}",
            # The snapshot is a link into the cache; without the file behind it, it would be linked again.
            f"delete {path.resolve()} and rerun the command, or {_BY_HAND}",
        )
