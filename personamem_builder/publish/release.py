"""What a version of a dataset consists of, and the reasons not to publish one."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from generation.errors import UserError
from generation.files import replacing
from generation.reading import as_model, read_json, read_text
from personamem_builder.audit.saved import SavedAudit
from personamem_builder.build.card import CARD, card_pictures, render_card, split_card
from personamem_builder.build.verify import verify_dataset
from personamem_builder.dataset.folder import AUDIT
from personamem_builder.manifest import MANIFEST, ChangelogEntry, Manifest, read_manifest
from personamem_builder.publish.compare import (
    VERSION,
    Bump,
    changes,
    compare,
    next_version,
    required_bump,
    version_numbers,
)
from personamem_builder.publish.croissant import croissant
from personamem_builder.publish.secrets import find_secrets

CROISSANT: Final = "croissant.json"


ReleaseFiles = Mapping[str, Path | bytes]
"""The files of a release by path in the repository: a file of the dataset folder, or the bytes of a text."""


class ReleaseRequest(NamedTuple):
    """What the user wants published.

    Attributes:
        changes: Lines of their own for the changelog.
        allow_failed_audit: Whether a failed or missing audit only puts a banner on the card.
        superseded_by: What readers are sent to instead; empty for nothing.
    """

    repo_id: str
    tag: str
    changes: Sequence[str] = ()
    allow_failed_audit: bool = False
    superseded_by: str = ""


def prepare_release(folder: Path, request: ReleaseRequest, previous: Path | None = None) -> ReleaseFiles:
    """Put a release together; nothing is written.

    The same folder, request and previous version, the newest on the Hub, give the same bytes: a push that was
    interrupted is run again.

    Raises:
        UserError: The folder must not be published; all reasons are named.
    """
    if not re.fullmatch(f"v{VERSION}", request.tag):
        raise UserError(f"{request.tag!r} is not a version tag", "give v and three numbers, such as --tag v1.0.0")
    verify_dataset(folder)
    manifest = read_manifest(folder)
    audit = _read_audit(folder)
    banner = _banner(manifest, audit)
    reasons = [] if request.allow_failed_audit or not banner else [banner]
    if not manifest.get("license"):
        reasons.append(f"{MANIFEST} names no licence")
    released = manifest | {
        "version": request.tag.removeprefix("v"),
        "repo_id": request.repo_id,
        "changelog": _changelog(folder, manifest, request, previous),
    }
    released.pop("audit_banner", None)
    if banner:
        released["audit_banner"] = banner
    released.pop("superseded_by", None)
    if request.superseded_by:
        released["superseded_by"] = request.superseded_by
    files = _files(folder, released, audit, previous)
    reasons += [f"a secret: {line}" for line in find_secrets(files)]
    if reasons:
        raise UserError(
            f"{folder} cannot be published: {'; '.join(reasons)}",
            "mend this first" + ("; or publish it with a banner: --allow-failed-audit" if banner in reasons else ""),
        )
    return files


def write_back(folder: Path, files: ReleaseFiles) -> None:
    """Write the texts of a release into the dataset folder, which then is what the Hub gets.

    Raises:
        UserError: The disk refuses.
    """
    try:
        for name, content in files.items():
            if isinstance(content, bytes):
                with replacing(folder / name) as part:
                    part.write_bytes(content)
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error}", "nothing was published") from error


def _read_audit(folder: Path) -> dict[str, Any] | None:
    path = folder / AUDIT
    if not path.is_file():
        return None
    hint = f"audit it anew: personamem audit {folder} --out {path}"
    audit: dict[str, Any] = read_json(path, hint)
    as_model(audit, SavedAudit, str(path), hint)
    return audit


def _banner(manifest: Manifest, audit: Mapping[str, Any] | None) -> str:
    """Return what is wrong with the audit, as the card would say it; empty if nothing is."""
    if audit is None:
        return "This dataset was not audited"
    if audit["digest"] != manifest["digest"]:
        return f"The audit is of other data (digest {audit['digest'][:12]}, not {manifest['digest'][:12]})"
    verdicts = [finding["verdict"] for split in audit["splits"] for finding in split["findings"] if finding["verdict"]]
    if missed := verdicts.count("FAIL"):
        return f"This dataset misses {missed} of the {len(verdicts)} limits of its audit"
    return ""


def _changelog(
    folder: Path, manifest: Manifest, request: ReleaseRequest, previous: Path | None
) -> list[ChangelogEntry]:
    """Return the changelog with this version on top."""
    version = request.tag.removeprefix("v")
    if previous is None:
        return [{"version": version, "changes": ["First version.", *request.changes]}]
    before = read_manifest(previous)
    earlier = list(before.get("changelog", ()))
    if before["version"] == version and before["digest"] == manifest["digest"] and earlier:
        return earlier  # this very version: it is there already, or its push was interrupted
    comparison = compare(previous, folder)
    _check_version(before["version"], version, required_bump(comparison))
    return [{"version": version, "changes": [*changes(comparison), *request.changes]}, *earlier]


def _check_version(before: str, version: str, bump: Bump) -> None:
    old, new = version_numbers(before), version_numbers(version)
    if new <= old:
        raise UserError(f"version {before} is on the Hub already, {version} is not above it", _proposed(before, bump))
    least = {"major": 0, "minor": 1, "patch": 2, "none": 2}[bump]
    if new[: least + 1] <= old[: least + 1]:
        raise UserError(
            f"what changed since version {before} asks for a {bump} version, and {version} is none",
            _proposed(before, bump),
        )


def _proposed(before: str, bump: Bump) -> str:
    return f"--tag v{next_version(before, 'patch' if bump == 'none' else bump)}"


def _files(folder: Path, manifest: Manifest, audit: Mapping[str, Any] | None, previous: Path | None) -> ReleaseFiles:
    card = render_card(manifest, audit, _earlier_card(folder, previous))
    files: dict[str, Path | bytes] = {name: folder / name for name in manifest["files"]}
    files[MANIFEST] = _json(manifest)
    files[CARD] = card.encode()
    files |= {name: text.encode() for name, text in card_pictures(manifest).items()}
    files[CROISSANT] = _json(croissant(manifest))
    if audit is not None:
        files[AUDIT] = (folder / AUDIT).read_bytes()
    return dict(sorted(files.items()))


def _earlier_card(folder: Path, previous: Path | None) -> str:
    """Return the card whose parts written by hand are kept: that on the Hub, unless the folder's own has some."""
    own = read_text(folder / CARD, "build the dataset again, or mend its card")
    if previous is None or any(split_card(own)[1:]):
        return own
    return read_text(previous / CARD)


def _json(content: Mapping[str, object]) -> bytes:
    return json.dumps(content, indent=2, ensure_ascii=False).encode() + b"\n"
