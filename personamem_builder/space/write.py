"""A Space as a folder: the pages, the viewer, the audit, the README, and a list of the files.

The list, `space.json`, says that a folder is a Space of ours, whole and as it was written:

    {"format": "personamem-space", "dataset_digest": str, "files": {path: sha256}}
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from generation.errors import UserError
from generation.files import file_digest, replacing_folder
from generation.reading import as_model, as_one, read_json
from personamem_builder.audit.page import saved_to_html
from personamem_builder.audit.saved import SavedAudit, read_audit
from personamem_builder.build.card import CARD
from personamem_builder.dataset.folder import AUDIT
from personamem_builder.manifest import Manifest, read_manifest
from personamem_builder.report.question_columns import find_questions
from personamem_builder.results.runs import Run
from personamem_builder.space.boards import Leaderboard, make_leaderboard
from personamem_builder.space.card import render_card
from personamem_builder.space.page import PAGES, SpaceHead, page_file, render_differences, render_index
from personamem_builder.view.site import Sample, Site
from personamem_builder.view.site import page_file as view_file
from personamem_builder.view.write import site_files

LIST: Final = "space.json"
FORMAT: Final = "personamem-space"
FIRST_PAGE: Final = "index.html"
MOST_BYTES: Final = 30 * 10**6
"""A Space is refused that is larger: nobody waits for it."""
CONTEXTS: Final = 3
"""Histories of each split in the viewer, unless another number is asked for: at most some 4 MB each, in 1M."""
LONGEST_REPLY: Final = 400
"""Letters of a model's reply in the viewer."""

_ICON: Final = "icon.svg"
_PAPER: Final = "https://arxiv.org/abs/2504.14225"
_AGAIN: Final = "make it again: personamem space"


class SpaceRequest(NamedTuple):
    """What the user wants to see.

    Attributes:
        title: What the Space is called.
        dataset: The dataset on the Hub that it leads to, `ORG/NAME` or `ORG/NAME@v1.0.0`; empty for none.
        code: Address of the code; empty for none.
        contexts: Histories of each split in the viewer; without any there is no viewer.
    """

    title: str
    dataset: str = ""
    code: str = ""
    contexts: int = CONTEXTS


class SpaceSize(NamedTuple):
    """The files of a Space, and bytes: of all, of the first page, of the viewer."""

    files: int
    size: int
    first_page: int
    viewer: int


class SpaceList(BaseModel):
    """What `space.json` says."""

    model_config = ConfigDict(strict=True)

    format: Literal["personamem-space"]
    dataset_digest: str
    files: dict[Annotated[str, Field(pattern=r"^\w[\w.-]*(/\w[\w.-]*)*$")], str]


def write_space(out: Path, folder: Path, runs: Sequence[Run], request: SpaceRequest) -> SpaceSize:
    """Write a Space, all or nothing, to a new or empty folder or in place of an older one.

    Args:
        out: Where it goes.
        folder: The dataset folder.
        runs: What was evaluated on it.
        request: What the user wants.

    Raises:
        UserError: `out` holds something else, a run is of another dataset, no model answered a whole split, the audit
            is of other data, or the Space would be too large.
    """
    _check_out(out)
    manifest = read_manifest(folder)
    leaderboard = _leaderboard(folder, manifest, runs)
    audit = _audit(folder, manifest)
    head = SpaceHead(
        title=request.title,
        name=folder.name if not request.dataset else request.dataset.partition("@")[0],
        version=manifest["version"],
        digest=manifest["digest"],
        newest=max(run.date for run in runs)[:10],
        links=_links(request, manifest),
        has_viewer=request.contexts > 0,
        audit_passed=audit.passed if audit else None,
    )
    files = _files(head, leaderboard, manifest, audit, request.dataset.partition("@")[0])
    sample = Sample(request.contexts, LONGEST_REPLY, f"../{FIRST_PAGE}")
    splits = list(dict.fromkeys(board.split for board in leaderboard.boards))
    site = Site(folder, splits, _shown(splits, runs), sample) if sample.contexts else None
    try:
        with replacing_folder(out) as new:
            return _write(new, files, site, manifest["digest"])
    except OSError as error:
        raise UserError(f"{out} cannot be written: {error}", "free some space, or choose another folder") from error


def read_space(folder: Path) -> dict[str, Path | bytes]:
    """Return the files of a Space by their paths, after a check that they are as they were written.

    Raises:
        UserError: The folder is no Space, or files are missing or were changed.
    """
    found = _list(folder)
    changed = [
        name
        for name, digest in found.files.items()
        if not (folder / name).is_file() or file_digest(folder / name) != digest
    ]
    if changed:
        more = f" and {len(changed) - 1} more are" if len(changed) > 1 else " is"
        raise UserError(f"{folder}: {changed[0]}{more} not as it was written", _AGAIN)
    return {name: folder / name for name in sorted([*found.files, LIST])}


def _list(folder: Path) -> SpaceList:
    path = folder / LIST
    if not path.is_file():
        raise UserError(
            f"{folder} is not a Space: it has no {LIST}", "make one: personamem space --out FOLDER --results results"
        )
    return as_model(read_json(path, _AGAIN), SpaceList, str(path), _AGAIN)


def _check_out(out: Path) -> None:
    hint = "choose another folder"
    if not out.name:
        raise UserError(f"{out} is the current folder, which cannot be replaced", hint)
    if not out.exists():
        return
    if not out.is_dir():
        raise UserError(f"{out} exists and is not a folder", hint)
    there = sorted(path.relative_to(out).as_posix() for path in out.rglob("*") if not path.is_dir())
    if not there:
        return
    known = {LIST, *_list(out).files} if LIST in there else set()
    if other := [name for name in there if name not in known]:
        raise UserError(f"{out} is not empty, and holds something other than a Space: {other[0]}", hint)


def _leaderboard(folder: Path, manifest: Manifest, runs: Sequence[Run]) -> Leaderboard:
    digest = manifest["digest"]
    if other := [run for run in runs if run.data_digest != digest]:
        lines = [f"{run.path}: {run.task} was run on {_named(run.data_digest)}" for run in other[:_NAMED]]
        lines += [f"and {len(other) - _NAMED} more"] * (len(other) > _NAMED)
        raise UserError(
            "\n".join([*lines, f"{folder} is the dataset {digest}"]),
            "a leaderboard is of one dataset: leave these results out, or give the --data that they are on",
        )
    questions = find_questions(runs, str(folder))
    if faults := [*questions.damaged, *questions.misfits.values()]:
        raise as_one(faults)
    by_split = {run.split or "": questions.of(run) or {} for run in runs}
    leaderboard = make_leaderboard(runs, by_split)
    if not leaderboard.boards:
        reasons = [f"{one.label} on {task}: {one.reason}" for task, own in leaderboard.apart.items() for one in own]
        raise UserError(
            "\n".join(["no model answered all questions of a split", *reasons]),
            "evaluate one on a whole split: personamem eval --tasks personamem_32k …",
        )
    return leaderboard


_NAMED: Final = 4
"""Runs that an error names."""


def _named(digest: str | None) -> str:
    return f"the dataset {digest}" if digest else "a dataset that it does not name"


def _audit(folder: Path, manifest: Manifest) -> SavedAudit | None:
    path = folder / AUDIT
    if not path.is_file():
        return None
    hint = f"audit it anew: personamem audit {folder} --out {path}"
    audit = read_audit(path, hint)
    if audit.digest != manifest["digest"]:
        raise UserError(f"{path} is the audit of other data (digest {audit.digest[:12] or 'unknown'})", hint)
    return audit


def _links(request: SpaceRequest, manifest: Manifest) -> dict[str, str]:
    repo, _, revision = request.dataset.partition("@")
    dataset = f"https://huggingface.co/datasets/{repo}" + (f"/tree/{revision}" if revision else "") if repo else ""
    source = manifest["source"]["url"]
    found = {"Dataset": dataset or (source if source.startswith("https://") else ""), "Code": request.code}
    return {name: url for name, url in {**found, "Paper": _PAPER}.items() if url}


def _shown(splits: Sequence[str], runs: Sequence[Run]) -> list[Run]:
    """Return the runs whose answers the viewer shows: those of models that saw something of the history."""
    seen = [run for run in runs if run.has_context and not (run.is_floor or run.shown.tainted)]
    return [run for run in seen if run.split in splits]


def _files(
    head: SpaceHead, leaderboard: Leaderboard, manifest: Manifest, audit: SavedAudit | None, dataset: str
) -> dict[str, bytes]:
    texts = {
        FIRST_PAGE: render_index(head, leaderboard),
        "differences.html": render_differences(head, leaderboard),
        CARD: render_card(head, leaderboard, manifest, dataset),
    }
    if audit:
        texts["audit.html"] = saved_to_html(audit, home=FIRST_PAGE)
    files = {name: text.encode() for name, text in texts.items()} | {name: page_file(name) for name in PAGES}
    return files | {_ICON: view_file(_ICON)}


def _contents(files: dict[str, bytes], site: Site | None) -> Iterator[tuple[str, bytes]]:
    yield from files.items()
    if site:
        for name, content in site_files(site):
            yield f"viewer/{name}", content


def _write(new: Path, files: dict[str, bytes], site: Site | None, digest: str) -> SpaceSize:
    digests: dict[str, str] = {}
    size = viewer = 0
    for name, content in _contents(files, site):
        path = new / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        digests[name] = hashlib.sha256(content).hexdigest()
        size += len(content)
        viewer += len(content) if name.startswith("viewer/") else 0
        if size > MOST_BYTES:
            raise UserError(
                f"the Space would be larger than {MOST_BYTES / 1e6:.0f} MB: {(size - viewer) / 1e6:.1f} MB of pages, "
                "and the rest histories and answers in the viewer",
                "show fewer histories: --contexts 1, or --contexts 0 for no viewer",
            )
    listed = {"format": FORMAT, "dataset_digest": digest, "files": dict(sorted(digests.items()))}
    text = json.dumps(listed, indent=1) + "\n"
    (new / LIST).write_text(text, encoding="utf-8")
    return SpaceSize(len(digests) + 1, size + len(text), len(files[FIRST_PAGE]), viewer)
