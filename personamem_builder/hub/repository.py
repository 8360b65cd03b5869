"""A repository on the Hub as it is now, whatever the local cache holds of it."""

from __future__ import annotations

import hashlib
import io
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from generation.errors import UserError
from personamem_builder.hub.retries import patiently

if TYPE_CHECKING:
    from huggingface_hub.hf_api import DatasetInfo, HfApi, RepoFile, SpaceInfo

LOG_IN: Final = "log in with `hf auth login` or set HF_TOKEN, with a token that may write"

RepoType = Literal["dataset", "space"]

_BLOCK: Final = 1 << 20


class FileDigests(NamedTuple):
    """The size of a file, and the two names by which the Hub may know it: large files by `sha256`, others by `git`."""

    size: int
    sha256: str
    git: str

    def is_of(self, entry: RepoFile) -> bool:
        """Say whether a file on the Hub is this one."""
        return entry.lfs.sha256 == self.sha256 if entry.lfs else entry.blob_id == self.git


def file_digests(content: Path | bytes) -> FileDigests:
    """Return the digests of a file, or of its bytes, reading it once."""
    size = content.stat().st_size if isinstance(content, Path) else len(content)
    sha256, git = hashlib.sha256(), hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    with content.open("rb") if isinstance(content, Path) else io.BytesIO(content) as file:
        while block := file.read(_BLOCK):
            sha256.update(block)
            git.update(block)
    return FileDigests(size, sha256.hexdigest(), git.hexdigest())


def hub_api() -> HfApi:
    """Return the Hub client with the user's token, if there is one.

    Raises:
        UserError: The token cannot be one.
    """
    from huggingface_hub import HfApi, get_token

    token = get_token()
    if token and not re.fullmatch("[!-~]+", token):  # it could not be sent, and the error would quote it
        raise UserError("the token has characters that no token has", LOG_IN)
    return HfApi(token=token)


class Repository:
    """A repository, as the user's token sees it; it need not be there.

    Args:
        repo_id: `ORG/NAME`.
        repo_type: What it is.

    Attributes:
        api: The Hub client; `patiently` calls what is not wrapped here.

    Raises:
        UserError: The token cannot be one.
    """

    def __init__(self, repo_id: str, repo_type: RepoType = "dataset") -> None:
        self.api = hub_api()
        self.repo_id = repo_id
        self.repo_type = repo_type

    def info(self, branch: str | None = None) -> DatasetInfo | SpaceInfo | None:
        """Return what the Hub says of the repository, or None if it or the branch is not there."""
        from huggingface_hub import constants
        from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError

        try:
            # The only call that has a time limit: it comes first.
            limit = constants.HF_HUB_ETAG_TIMEOUT
            if self.repo_type == "space":
                return patiently(self.api.space_info, self.repo_id, revision=branch, timeout=limit)
            return patiently(self.api.dataset_info, self.repo_id, revision=branch, timeout=limit)
        except GatedRepoError:
            raise
        except (RepositoryNotFoundError, RevisionNotFoundError):
            return None

    def commit_of(self, tag: str) -> str:
        """Return the full sha of the commit that has a tag."""
        return str(patiently(self.api.dataset_info, self.repo_id, revision=tag).sha)

    def tree(self, commit: str) -> dict[str, RepoFile]:
        """Return the files of a commit by their paths."""
        from huggingface_hub.hf_api import RepoFile

        def entries() -> list[RepoFile]:
            tree = self.api.list_repo_tree(self.repo_id, repo_type=self.repo_type, revision=commit, recursive=True)
            return [entry for entry in tree if isinstance(entry, RepoFile)]

        return {entry.path: entry for entry in patiently(entries)}

    @contextmanager
    def downloaded(self, commit: str, path: str) -> Iterator[Path]:
        """Give a file of a commit for the time of the block; it never comes from the user's cache."""
        with tempfile.TemporaryDirectory(prefix="personamem-") as folder:
            fetch = partial(self.api.hf_hub_download, self.repo_id, path, repo_type=self.repo_type, revision=commit)
            yield Path(patiently(fetch, cache_dir=folder))

    def read(self, commit: str, path: str) -> bytes:
        """Return the bytes of a file of a commit."""
        with self.downloaded(commit, path) as file:
            return file.read_bytes()
