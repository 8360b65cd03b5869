"""The questions behind the answers: a results file has their ids, the dataset says what they are about."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from generation.errors import UserError
from generation.files import file_digest
from personamem_builder.dataset.folder import is_dataset_folder, questions_path, read_manifest
from personamem_builder.dataset.load import read_questions
from personamem_builder.dataset.locate import ENVIRONMENT, cache_folder, find_folder, resolve_data
from personamem_builder.report.runs import Run

Row = Mapping[str, Any]
"""A row of a question table, see `schema.QUESTION_SCHEMA`."""

_OFFICIAL = "official"
_GIVE = "name it: --data FOLDER, or --data ORG/NAME"


class Source(NamedTuple):
    """A dataset that is at hand.

    Attributes:
        folder: Its folder.
        is_official: Whether it holds the questions of the official release.
    """

    folder: Path
    is_official: bool


class Questions(NamedTuple):
    """The questions of the datasets that the runs used.

    Attributes:
        rows: By digest of the dataset and split, then by question id.
        sources: The datasets, by digest.
        lacking: Why the questions of a dataset are not there, by digest (`""` where a run does not say which).
    """

    rows: Mapping[tuple[str, str], Mapping[str, Row]]
    sources: Mapping[str, Source]
    lacking: Mapping[str, str]

    def of(self, run: Run) -> Mapping[str, Row] | None:
        """Return the questions of a run's split by id, None where they are not at hand."""
        return self.rows.get((run.data_digest or "", run.split or ""))


def find_questions(runs: Sequence[Run], data: str | None = None) -> Questions:
    """Find the datasets of some runs and read their questions.

    A dataset is looked for at `data`, where the results say that it was, at `PERSONAMEM_DATA` and `./personamem`, and
    among those that evaluations keep in the cache. Only one with the digest that the results name is used.

    Args:
        runs: The runs.
        data: A dataset folder, or `ORG/NAME` on the Hub.

    Raises:
        UserError: `data` is no dataset, or not that of any run; its questions are damaged; or a run answers questions
            that its dataset does not have.
    """
    digests = dict.fromkeys(run.data_digest or "" for run in runs)
    given = _given(data, [digest for digest in digests if digest]) if data else {}
    folders: dict[str, Path] = {}
    lacking: dict[str, str] = {}
    for digest in digests:
        recorded = [run.data for run in runs if run.data and (run.data_digest or "") == digest]
        seen: list[str] = []
        found = given.get(digest) or (_search(digest, recorded, seen) if digest else None)
        if found is not None:
            folders[digest] = found
        elif not digest:
            lacking[digest] = "the results do not say which dataset they are on"
        else:
            at = f" (it was {recorded[0]})" if recorded else ""
            others = f"; {'; '.join(seen)}" if seen else ""
            lacking[digest] = f"the dataset of digest {digest[:12]}{at} is not here{others}; {_GIVE}"
    rows: dict[tuple[str, str], Mapping[str, Row]] = {}
    for run in runs:
        key = (run.data_digest or "", run.split or "")
        folder = folders.get(key[0])
        if folder is None:
            continue
        if key not in rows:
            rows[key] = _read(folder, key[1])
        _check_ids(run, rows[key], folder)
    sources = {digest: Source(folder, _is_official(folder)) for digest, folder in folders.items()}
    return Questions(rows, sources, lacking)


def _given(data: str, digests: Sequence[str]) -> dict[str, Path]:
    source = resolve_data(data, contexts=False)
    if source.digest not in digests:
        used = ", ".join(digests) or "no known dataset"
        raise UserError(
            f"{data} has the digest {source.digest}, but the results are on {used}",
            "give the dataset that was evaluated, or evaluate on this one: personamem eval --metadata data=…",
        )
    return {source.digest: source.folder}


def _search(digest: str, recorded: Sequence[str], seen: list[str]) -> Path | None:
    """Return the folder of a dataset; what else was found where it might have been goes to `seen`, in words."""
    for folder in _candidates(recorded, seen):
        other = read_manifest(folder)["digest"]
        if other == digest:
            return folder
        seen.append(f"{folder} has the digest {other[:12]}")
    return next((f for f in _cached() if read_manifest(f)["digest"] == digest), None)


def _candidates(recorded: Sequence[str], seen: list[str]) -> Iterator[Path]:
    for name in dict.fromkeys(recorded):
        if is_dataset_folder(Path(name)):
            yield Path(name)
    # find_folder() takes PERSONAMEM_DATA for a folder; it may also name a place on the Hub.
    if folder := find_folder():
        yield folder
    elif os.environ.get(ENVIRONMENT):
        try:
            yield resolve_data(contexts=False).folder
        except UserError as error:
            seen.append(f"{ENVIRONMENT}: {error.message}")


def _cached() -> Iterator[Path]:
    """Yield the datasets that evaluations made on demand: the official release, and those of `fresh_dataset`."""
    try:
        home = cache_folder()
    except UserError:
        return
    yield from (folder.parent for folder in sorted(home.glob("**/manifest.json")) if is_dataset_folder(folder.parent))


def _read(folder: Path, split: str) -> dict[str, Row]:
    manifest = read_manifest(folder)
    if split not in manifest["splits"]:
        return {}
    name = questions_path(split)
    path = folder / name
    if not path.is_file() or file_digest(path) != manifest["files"][name]["sha256"]:
        raise UserError(f"{path} is not what the manifest says", "import, build or download the dataset again")
    return {row["question_id"]: row for row in read_questions(folder, split).to_pylist()}


def _check_ids(run: Run, rows: Mapping[str, Row], folder: Path) -> None:
    unknown = [question_id for question_id in run.answers if question_id not in rows]
    if unknown:
        raise UserError(
            f"{run.path}: {len(unknown)} of the {len(run.answers)} questions of {run.task} are not in the split "
            f"{run.split} of {folder}, such as {unknown[0]!r}",
            "the answers beside it are of another split or were edited: run `personamem eval` again",
        )


def _is_official(folder: Path) -> bool:
    return _OFFICIAL in str(read_manifest(folder).get("source", {}).get("name", ""))
