"""The manifest of a dataset folder: what it says, and how it is read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from generation.errors import UserError
from generation.reading import as_model, parse_json, read_text
from personamem_builder.schema import SCHEMA_VERSION

MANIFEST: Final = "manifest.json"
FORMAT: Final = "personamem"

_MAKE: Final = "make one: personamem import-official FOLDER --out personamem"
_AGAIN: Final = "build, import or download the dataset again"

_Count = Annotated[int, Field(ge=0, lt=2**31)]
_Bytes = Annotated[int, Field(ge=0, lt=2**63)]
_Text = Annotated[str, StringConstraints(min_length=1)]
_Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
_Split = Annotated[str, StringConstraints(pattern=r"^\w+(\.\w+)*$")]
# Names outside of `data/` would be read, and written, elsewhere.
_DataFile = Annotated[str, StringConstraints(pattern=r"^data/[^/\\\x00]+$")]


class _Part(BaseModel):
    """A part of a manifest; a newer personamem may have written more keys."""

    model_config = ConfigDict(strict=True, extra="allow")


class Source(_Part):
    """Where the content comes from."""

    name: str
    url: str


class Digests(_Part):
    """Content digests of the two tables of a split."""

    benchmark: _Digest
    shared_contexts: _Digest


class Sizes(_Part):
    """Bytes of the two tables of a split, unpacked."""

    benchmark: _Bytes
    shared_contexts: _Bytes


class Split(_Part):
    """A split: its counts and digests."""

    questions: _Count
    shared_contexts: _Count
    personas: _Count
    max_context_length_in_tokens: _Count
    digests: Digests
    num_bytes: Sizes | None = None


class File(_Part):
    """A file of data."""

    bytes: _Bytes
    sha256: _Digest


class Change(_Part):
    """An entry of the changelog."""

    version: _Text
    changes: list[str]


class Features(_Part):
    """The columns of the two tables, as cards describe them."""

    benchmark: list[dict[str, Any]]
    shared_contexts: list[dict[str, Any]]


class ListedFile(_Part):
    """A file that can be downloaded."""

    sha256: _Digest


class Listing(_Part):
    """What a download needs to know of a manifest; whoever uses the folder reads it as a `Manifest`."""

    splits: Annotated[dict[_Split, Any], Field(min_length=1)]
    files: dict[_DataFile, ListedFile]


class Manifest(_Part):
    """A manifest; keys that older versions did not write may be absent."""

    format: Literal["personamem"]
    schema_version: Annotated[int, Field(ge=1)]
    version: _Text
    digest: _Digest
    source: Source
    license: str | list[str]
    config_fingerprint: str
    tokenizer: _Text
    splits: Annotated[dict[_Split, Split], Field(min_length=1)]
    files: dict[_DataFile, File]
    canary: str = ""
    notes: list[str] = []
    generation: dict[str, Any] = {}
    funnel: dict[str, Any] = {}
    features: Features | None = None
    repo_id: _Text = "-"
    changelog: list[Change] = []
    superseded_by: str = ""
    audit_banner: str = ""
    license_link: str = ""

    @model_validator(mode="after")
    def _has_files(self) -> Manifest:
        needed = [f"data/{kind}_{split}.parquet" for split in self.splits for kind in ("questions", "shared_contexts")]
        if absent := [name for name in needed if name not in self.files]:
            raise ValueError(f"files: {', '.join(absent)} is missing, which the splits need")
        if self.features is not None and any(split.num_bytes is None for split in self.splits.values()):
            raise ValueError("splits: num_bytes is missing, which the features go with")
        return self


class NotOurs(UserError):
    """A `manifest.json` that something else wrote."""


def parse_manifest(text: str, owner: str) -> dict[str, Any]:
    """Return a manifest of ours, as its JSON has it.

    Args:
        text: The content of a `manifest.json`.
        owner: The folder it is of, for messages.

    Raises:
        NotOurs: Something else wrote it.
        UserError: It is damaged, belongs to a newer personamem, or has faults; all of them are named.
    """
    where = f"{owner}/{MANIFEST}"
    content = parse_json(text, where, _AGAIN)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        found = content.get("format") if isinstance(content, dict) else content
        other = f"the format of its {MANIFEST} is {_short(found)}, not {FORMAT!r}"
        raise NotOurs(f"{owner} is not a personamem dataset folder: {other}", _MAKE)
    version = content.get("schema_version")
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise UserError(
            f"{owner} has schema version {version}, this personamem reads up to {SCHEMA_VERSION}",
            "install a newer personamem",
        )
    as_model(content, Manifest, where, _AGAIN)
    return content


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest of a dataset folder.

    Raises:
        UserError: There is none; or as `parse_manifest`.
    """
    path = folder / MANIFEST
    if not path.is_file():
        raise UserError(f"{folder} is not a personamem dataset folder (no {MANIFEST} in it)", _MAKE)
    return parse_manifest(read_text(path, _AGAIN), str(folder))


def is_dataset_folder(folder: Path) -> bool:
    """Say whether a folder is a dataset that personamem wrote, damaged or not: what may be replaced as such."""
    try:
        content = parse_json(read_text(folder / MANIFEST), MANIFEST)
    except UserError:
        return False
    return isinstance(content, dict) and content.get("format") == FORMAT


def may_be_dataset(folder: Path) -> bool:
    """Say whether a folder is a dataset, or was one before its manifest was damaged: what is worth reading."""
    path = folder / MANIFEST
    try:
        if not path.is_file():
            return False
        parse_manifest(read_text(path), str(folder))
    except NotOurs:
        return False
    except (UserError, OSError, ValueError):  # ValueError: a name with a null character
        return True
    return True


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
