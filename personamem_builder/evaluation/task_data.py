"""The data of an lm-eval task: where they are, and which questions are asked with what, by the task's metadata."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from generation.errors import UserError
from personamem_builder.build.on_demand import data_or_official, fresh_source, recipe_of
from personamem_builder.dataset.check import read_questions
from personamem_builder.dataset.folder import changed_files
from personamem_builder.dataset.locate import DataSource, hub_source, split_folder
from personamem_builder.manifest import read_manifest
from personamem_builder.memory.controls import Control, Full, SplitQuestions
from personamem_builder.schema import QuestionRow
from personamem_builder.subset import read_subset
from personamem_builder.table_files import data_files

_log = logging.getLogger("lm_eval.personamem")


def asked_split(metadata: dict[str, Any], own: str) -> str:
    """Return the split that a task asks: the key `split` of its metadata, else its task file's own.

    Raises:
        UserError: It is no name.
    """
    split = metadata.get("split", own)
    if not isinstance(split, str) or not split:
        raise UserError(f"--metadata split={split!r} is not the name of a split", 'e.g. \'{"split": "10blocks"}\'')
    return split


def chosen_value(metadata: dict[str, Any], key: str, values: tuple[str, ...]) -> Any:
    """Return the value of a key of a task's metadata, which get the first of the known ones where it is not there.

    Raises:
        UserError: It is none of them.
    """
    value = metadata.setdefault(key, values[0])
    if value not in values:
        raise UserError(f"--metadata {key}={value}: no such value", f"use one of {', '.join(values)}")
    return value


def find_source(metadata: dict[str, Any], split: str, task: str) -> DataSource:
    """Return the dataset that a task's metadata name; where it is made from a recipe, they get to say which."""
    if metadata.get("repo"):
        return _repo_source(metadata, split)
    recipe = recipe_of(metadata)
    if recipe is None:
        if "seed" in metadata:  # lm-eval copies the model's arguments here, and many models have a seed
            _log.info("%s: without config, seed=%s is not about the data", task, metadata["seed"])
        return data_or_official(metadata.get("data"), metadata.get("revision"), split)
    source = fresh_source(recipe, split)
    metadata.update(seed=recipe.seed, config_fingerprint=recipe.fingerprint)
    return source


def _repo_source(metadata: dict[str, Any], split: str) -> DataSource:
    """Return the dataset that the keys `repo` and `revision` of a task's metadata name."""
    repo = metadata["repo"]
    for other in ("data", "config"):
        if metadata.get(other):
            raise UserError(
                f"--metadata has both repo={repo} and {other}={metadata[other]}",
                "each says where the data come from: leave one of them out",
            )
    if not isinstance(repo, str):
        raise UserError(
            f"--metadata repo={repo!r} is not a name", 'e.g. \'{"repo": "ORG/NAME", "revision": "v1.0.0"}\''
        )
    repo_id, _, pinned = repo.partition("@")
    return hub_source(repo_id, pinned or metadata.get("revision"), [split], contexts=False)


def read_rows(
    metadata: dict[str, Any], source: DataSource, split: str, task: str
) -> tuple[list[QuestionRow], list[QuestionRow]]:
    """Return all questions of a split, and those of the subset that the metadata name, if they name one.

    The metadata get what results say of the subset.

    Raises:
        UserError: A file was changed, or the split lacks questions of the subset.
    """
    folder = split_folder(source, split)
    needed = [] if source.hub else data_files(read_manifest(folder)["files"], [split])  # else verified already
    if changed := changed_files(folder, needed):
        raise UserError(f"{folder}: {', '.join(changed)} is not what the manifest says", "import or download it again")
    rows: list[QuestionRow] = read_questions(folder, split).to_pylist()
    given = metadata.get("subset")
    if given is None:
        return rows, rows
    if not isinstance(given, str) or not given:
        raise UserError(f"--metadata subset={given!r} is not a path", "give the file that --export-hard wrote")
    subset = read_subset(given, split)
    ids = set(subset.ids)
    if unknown := sorted(ids.difference(row["question_id"] for row in rows)):
        raise UserError(
            f"{given}: {len(unknown)} of its {len(ids)} questions are not in the split {split} of "
            f"{source.origin}, such as {unknown[0]}",
            "name the data it was made from (--metadata data=… or config=…), or export it from these",
        )
    metadata.update(subset_size=len(ids), subset_sha256=subset.digest)
    _log.info("%s: only the %d questions of %s", task, len(ids), given)
    return rows, [row for row in rows if row["question_id"] in ids]


def without_history(
    metadata: dict[str, Any], whole: Sequence[QuestionRow], asked: Sequence[QuestionRow], source: DataSource, task: str
) -> Control:
    """Return the condition of a task that shows no history; its results name none.

    Raises:
        UserError: The metadata name another.
    """
    if metadata.get("memory", Full.name) != Full.name or metadata.get("store"):
        raise UserError(
            f"{task} shows no history, so --metadata memory={metadata.get('memory', '…')} has no meaning",
            f"use --tasks {task.removesuffix('_nocontext')}",
        )
    metadata.pop("memory", None)
    return Full(metadata.get("settings"), SplitQuestions(whole, asked, source.origin))


def record_source(metadata: dict[str, Any], source: DataSource, task: str) -> None:
    """Have the results of a task say where its data are from, and the log whether there are newer ones."""
    metadata.update(data=source.origin, data_digest=source.digest)
    if hub := source.hub:
        metadata.update(repo=hub.repo_id, revision=hub.revision, commit=hub.commit)
    if newer := read_manifest(source.folder).get("superseded_by"):
        _log.warning("%s: %s is superseded by %s", task, source.origin, newer)
    _log.info("%s: data from %s, digest %s", task, source.origin, source.digest)
