"""The manifest of a dataset folder: what it says, and how it is read."""

from __future__ import annotations

from pathlib import Path
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NotRequired,  # pydantic needs this one before Python 3.12
    cast,
)

from pydantic import AfterValidator, ConfigDict, Field, RootModel, StringConstraints, with_config
from typing_extensions import TypedDict

from generation.errors import UserError
from generation.reading import as_model, parse_json, read_text
from personamem_builder.schema import SCHEMA_VERSION
from personamem_builder.table_files import data_files

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


# A newer personamem may have written more keys.
_part: Final = with_config(ConfigDict(strict=True, extra="allow"))


@_part
class SourceEntry(TypedDict):
    """Where the content comes from."""

    name: str
    url: str


@_part
class Digests(TypedDict):
    """Content digests of the two tables of a split."""

    benchmark: _Digest
    shared_contexts: _Digest


@_part
class Sizes(TypedDict):
    """Bytes of the two tables of a split, unpacked."""

    benchmark: _Bytes
    shared_contexts: _Bytes


@_part
class SplitEntry(TypedDict):
    """Counts and digests of a split."""

    questions: _Count
    shared_contexts: _Count
    personas: _Count
    max_context_length_in_tokens: _Count
    digests: Digests
    num_bytes: NotRequired[Sizes]


@_part
class FileEntry(TypedDict):
    """Size and digest of a data file.

    `personas` are the least and the greatest persona of one of several files of shared contexts: readers of a few
    contexts on the Hub need not look into the others.
    """

    bytes: _Bytes
    sha256: _Digest
    personas: NotRequired[Annotated[list[_Count], Field(min_length=2, max_length=2)]]


@_part
class ChangelogEntry(TypedDict):
    """What changed in a version, in words."""

    version: _Text
    changes: list[str]


Feature = dict[str, Any]
"""A column as cards describe it, see `build.features`."""


@_part
class Features(TypedDict):
    """The columns of the two tables."""

    benchmark: list[Feature]
    shared_contexts: list[Feature]


@_part
class ListedFile(TypedDict):
    """What a download needs to know of a `FileEntry`."""

    sha256: _Digest


@_part
class _Listing(TypedDict):
    splits: Annotated[dict[_Split, Any], Field(min_length=1)]
    files: dict[_DataFile, ListedFile]


def _with_all_files(manifest: Any) -> Any:
    try:
        data_files(manifest["files"], manifest["splits"])
    except ValueError as error:
        raise ValueError(f"files: {error}") from error
    return manifest


Listing = Annotated[_Listing, AfterValidator(_with_all_files)]
"""What a download needs to know of a manifest; whoever uses the folder reads it as a `Manifest`."""


@_part
class OptionalEntries(TypedDict, total=False):
    """What manifests of older versions, or of some datasets, lack.

    `generation` says what generated data were made with, `funnel` what became of the questions that were made,
    `figures` what each split consists of (see `stats.figures`).
    """

    canary: str
    notes: list[str]
    generation: dict[str, Any]
    funnel: dict[str, Any]
    figures: dict[str, dict[str, Any]]
    features: Features
    repo_id: _Text
    changelog: list[ChangelogEntry]
    superseded_by: str
    audit_banner: str
    license_link: str


@_part
class Manifest(OptionalEntries):
    """The content of a `manifest.json`."""

    format: Literal["personamem"]
    schema_version: Annotated[int, Field(ge=1)]
    version: _Text
    digest: _Digest
    source: SourceEntry
    license: str | list[str]
    config_fingerprint: str
    tokenizer: _Text
    splits: Annotated[dict[_Split, SplitEntry], Field(min_length=1)]
    files: dict[_DataFile, FileEntry]


def _are_columns(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(one, dict) and isinstance(one.get("name"), str) and _is_type(one) for one in value
    )


def _is_type(column: dict[str, object]) -> bool:
    """Say whether a column has a type as `build.features` writes it: a name, a list of something, or a struct."""
    inner = column.get("list", column.get("dtype"))
    return isinstance(inner, str) or _are_columns(inner) or (isinstance(inner, dict) and _is_type(inner))


def _complete(manifest: Manifest) -> Manifest:
    _with_all_files(manifest)
    for config, columns in manifest.get("features", {}).items():
        if not _are_columns(columns):
            raise ValueError(f"features: {config} describes no columns")
    if "features" in manifest and any("num_bytes" not in split for split in manifest["splits"].values()):
        raise ValueError("splits: num_bytes is missing, which the features go with")
    return manifest


_CompleteManifest = RootModel[Annotated[Manifest, AfterValidator(_complete)]]


class NotOurs(UserError):
    """A `manifest.json` that something else wrote."""


def parse_manifest(text: str, owner: str) -> Manifest:
    """Return a manifest of ours, as its JSON has it; messages name the folder `owner`.

    Raises:
        NotOurs: Something else wrote it.
        UserError: It is damaged, belongs to a newer personamem, or has faults; all of them are named.
    """
    where = f"{owner}/{MANIFEST}"
    content: Any = parse_json(text, where, _AGAIN)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        found = content.get("format") if isinstance(content, dict) else content
        other = f"the format of its {MANIFEST} is {_short(found)}, not {FORMAT!r}"
        raise NotOurs(f"{owner} is not a personamem dataset folder: {other}", _MAKE)
    version = content.get("schema_version")
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise UserError(
            f"{owner} has schema version {version}, this version of personamem reads up to {SCHEMA_VERSION}",
            "install a newer personamem",
        )
    as_model(content, _CompleteManifest, where, _AGAIN)
    return cast("Manifest", content)  # what the validation gives is in another order


def read_manifest(folder: Path) -> Manifest:
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
