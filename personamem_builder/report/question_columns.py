"""The questions behind the answers: a results file has their ids, the dataset says what they are about."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from generation.errors import UserError
from personamem_builder.dataset.check import read_questions
from personamem_builder.dataset.folder import changed_files, is_whole
from personamem_builder.dataset.locate import ENVIRONMENT, cache_folder, find_folder, resolve_data
from personamem_builder.manifest import may_be_dataset, read_manifest
from personamem_builder.results.runs import Run
from personamem_builder.schema import QuestionRow, option_letter
from personamem_builder.table_files import table_files

_OFFICIAL = "official"
_GIVE = "name it: --data FOLDER, or --data ORG/NAME"


class Source(NamedTuple):
    """The folder of a dataset, and whether it holds the questions of the official release."""

    folder: Path
    is_official: bool


class Questions(NamedTuple):
    """The questions of the datasets that the runs used.

    Attributes:
        rows: By digest of the dataset and split, then by question id.
        sources: The datasets, by digest.
        lacking: Why the questions of a dataset are not there, by digest (`""` where a run does not say which).
        damaged: Datasets that are there and cannot be read: why their questions are lacking.
        misfits: Runs whose answers are to other questions than those of their dataset, and what is wrong with them.
    """

    rows: Mapping[tuple[str, str], Mapping[str, QuestionRow]]
    sources: Mapping[str, Source]
    lacking: Mapping[str, str]
    damaged: Sequence[UserError] = ()
    misfits: Mapping[Run, UserError] = {}

    def of(self, run: Run) -> Mapping[str, QuestionRow] | None:
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
        UserError: `data` is no dataset, or not that of any run.
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
    rows: dict[tuple[str, str], Mapping[str, QuestionRow]] = {}
    damaged: dict[str, UserError] = {}
    misfits: dict[Run, UserError] = {}
    for run in runs:
        key = (run.data_digest or "", run.split or "")
        folder = folders.get(key[0])
        if folder is None or key[0] in damaged:
            continue
        if key not in rows:
            try:
                rows[key] = _read(folder, key[1])
            except UserError as error:
                damaged[key[0]] = error
                lacking[key[0]] = error.message
                continue
        if misfit := _misfit(run, rows[key], folder):
            misfits[run] = misfit
    rows = {key: own for key, own in rows.items() if key[0] not in damaged}
    sources = {
        digest: Source(folder, _is_official(folder)) for digest, folder in folders.items() if digest not in damaged
    }
    return Questions(rows, sources, lacking, list(damaged.values()), misfits)


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
        other = _digest(folder, seen)
        if other == digest:
            return folder
        if other:
            seen.append(f"{folder} has the digest {other[:12]}")
    return next((folder for folder in _cached() if _digest(folder, []) == digest), None)


def _digest(folder: Path, seen: list[str]) -> str | None:
    try:
        return str(read_manifest(folder)["digest"])
    except UserError as error:
        seen.append(error.message)
        return None


def _candidates(recorded: Sequence[str], seen: list[str]) -> Iterator[Path]:
    for name in dict.fromkeys(recorded):
        # Not what pathlib says, which raises for names that are too long.
        if os.path.isdir(name) and may_be_dataset(Path(name)):  # noqa: PTH112
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
    """Yield the datasets that evaluations made on demand: the official release, and those of `fresh_source`."""
    try:
        home = cache_folder()
    except UserError:
        return
    yield from (folder.parent for folder in sorted(home.glob("**/manifest.json")) if is_whole(folder.parent))


def _read(folder: Path, split: str) -> dict[str, QuestionRow]:
    manifest = read_manifest(folder)
    if split not in manifest["splits"]:
        return {}
    for name in changed_files(folder, table_files(manifest["files"], "benchmark", split)):
        raise UserError(f"{folder / name} is not what the manifest says", "import, build or download the dataset again")
    return {row["question_id"]: row for row in read_questions(folder, split).to_pylist()}


def _misfit(run: Run, rows: Mapping[str, QuestionRow], folder: Path) -> UserError | None:
    """Say where answers are to other questions than a dataset has."""
    answers = {**run.answers, **run.failed}
    unknown = [question_id for question_id in answers if question_id not in rows]
    hint = "the answers beside it are of another split or were edited: run `personamem eval` again"
    if unknown:
        return UserError(
            f"{run.path}: {len(unknown)} of the {len(answers)} questions of {run.task} are not in the split "
            f"{run.split} of {folder}, such as {unknown[0]!r}",
            hint,
        )
    for question_id, answer in answers.items():
        row = rows[question_id]
        told = {
            "persona_id": (answer.persona_id, row["persona_id"]),
            "question_type": (answer.question_type, row["question_type"]),
            "n_options": (answer.n_options, len(row["all_options"])),
            "answer": (answer.answer or option_letter(row["answer_index"]), option_letter(row["answer_index"])),
        }
        for name, (theirs, own) in told.items():
            if theirs != own:
                what = f"{name} of the question {question_id!r} of {run.task} is {theirs!r}, {own!r} in {folder}"
                return UserError(f"{run.path}: {what}", hint)
    return None


def _is_official(folder: Path) -> bool:
    return _OFFICIAL in str(read_manifest(folder).get("source", {}).get("name", ""))
