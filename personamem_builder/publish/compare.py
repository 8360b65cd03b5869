"""Two versions of a dataset compared, and the number that the new one must get.

Versions are `MAJOR.MINOR.PATCH`. What counts is whether a score measured on the old version can be carried over:

- major: it cannot. A question of the old version is gone, or differs in what is asked: its message, options, answer,
  type, place in its context, or a message of that context.
- minor: it can, for the questions there were. Questions, contexts or splits are new, and all old ones stay.
- patch: it can, as it stands. What changed is not asked: evidence, distances, topics, dates, the manifest.
- none: the data are equal.

Scores of `memory=oracle` depend on the evidence too, and change with a patch; those of a `--limit` depend on the
order of the questions, which is no part of a comparison.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple

from generation.errors import UserError
from generation.progress import track
from personamem_builder.dataset.check import read_as_it_is
from personamem_builder.dataset.contexts import iter_contexts
from personamem_builder.dataset.folder import changed_files, context_files, question_files
from personamem_builder.manifest import Manifest, read_manifest
from personamem_builder.table_files import table_files

VERSION: Final = r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
"""Matches MAJOR.MINOR.PATCH."""

Bump = Literal["major", "minor", "patch", "none"]

RELEVANT_COLUMNS: Final = frozenset(
    {
        "question_type",
        "user_question_or_message",
        "all_options",
        "correct_answer",
        "answer_index",
        "shared_context_id",
        "end_index_in_shared_context",
    }
)
"""Columns of the questions that a score depends on."""

RELEVANT_CONTEXT_COLUMNS: Final = frozenset({"messages", "session_starts"})
"""Columns of the shared contexts that a score depends on: what a model is shown."""

_DESCRIPTION: Final = ("schema_version", "source", "license", "tokenizer", "canary", "generation", "notes")
"""Keys of the manifest that say something about the data."""


@dataclass(frozen=True)
class RowChanges:
    """How the rows of a table differ: the ids of those added and removed, and in which columns others changed."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: Mapping[str, tuple[str, ...]]

    def relevant(self, columns: frozenset[str]) -> list[str]:
        """Return the ids of rows that differ in one of some columns."""
        return [key for key, changed in self.changed.items() if not columns.isdisjoint(changed)]


@dataclass(frozen=True)
class SplitChanges:
    """How a split differs; of a split that only one version has, all is added or removed."""

    questions: RowChanges
    contexts: RowChanges


@dataclass(frozen=True)
class Comparison:
    """How two versions differ.

    Attributes:
        old_version: As the manifest says.
        splits: What differs within each split of either, those included that only one has.
        description: The keys of the manifest, such as `license`, that differ.
    """

    old_version: str
    new_version: str
    splits_added: tuple[str, ...]
    splits_removed: tuple[str, ...]
    splits: Mapping[str, SplitChanges]
    description: tuple[str, ...]


def compare(old: Path, new: Path) -> Comparison:
    """Compare two dataset folders; contexts are read one at a time, and digests of their columns kept.

    Raises:
        UserError: One is not a dataset folder, or a file is not the one that its manifest speaks of.
    """
    before, after = read_manifest(old), read_manifest(new)
    for folder in (old, new):
        if damaged := changed_files(folder):
            raise UserError(
                f"{folder}: {', '.join(damaged)} is not what the manifest says", "build or download it again"
            )
    names = list(dict.fromkeys([*before["splits"], *after["splits"]]))
    return Comparison(
        old_version=before["version"],
        new_version=after["version"],
        splits_added=tuple(name for name in names if name not in before["splits"]),
        splits_removed=tuple(name for name in names if name not in after["splits"]),
        splits={name: _compare_split(name, _Version(old, before), _Version(new, after)) for name in names},
        description=tuple(key for key in _DESCRIPTION if before.get(key) != after.get(key)),
    )


def required_bump(comparison: Comparison) -> Bump:
    """Return which number must be raised, at least; the rules are those of this module's docstring."""
    splits = comparison.splits.values()
    if any(
        split.questions.removed
        or split.questions.relevant(RELEVANT_COLUMNS)
        or split.contexts.relevant(RELEVANT_CONTEXT_COLUMNS)
        for split in splits
    ):
        return "major"
    if comparison.splits_added or any(split.questions.added or split.contexts.added for split in splits):
        return "minor"
    others = (split.questions.changed or split.contexts.changed or split.contexts.removed for split in splits)
    return "patch" if comparison.splits_removed or comparison.description or any(others) else "none"


def version_numbers(version: str) -> tuple[int, int, int]:
    """Return the numbers of a version.

    Raises:
        UserError: It is not three numbers.
    """
    match = re.fullmatch(VERSION, version)
    if match is None:
        raise UserError(f"{version!r} is not a version", "a version is MAJOR.MINOR.PATCH, such as 1.0.0")
    major, minor, patch = map(int, match.groups())
    return major, minor, patch


def next_version(old: str, bump: Bump) -> str:
    """Return the version that follows; raises `UserError` as `version_numbers`."""
    major, minor, patch = version_numbers(old)
    numbers = {
        "major": (major + 1, 0, 0),
        "minor": (major, minor + 1, 0),
        "patch": (major, minor, patch + 1),
        "none": (major, minor, patch),
    }[bump]
    return ".".join(map(str, numbers))


def changes(comparison: Comparison) -> list[str]:
    """Say what changed, a line each, for a changelog; empty if nothing did."""
    lines = []
    for name, split in comparison.splits.items():
        if name in comparison.splits_added:
            lines.append(
                f"{name}: a new split, {_count(split.questions.added, 'question')} about "
                f"{_count(split.contexts.added, 'context')}"
            )
        elif name in comparison.splits_removed:
            lines.append(f"{name}: the split is gone")
        else:
            lines += [f"{name}: {line}" for line in _row_lines(split.questions, "question", RELEVANT_COLUMNS)]
            lines += [f"{name}: {line}" for line in _row_lines(split.contexts, "context", RELEVANT_CONTEXT_COLUMNS)]
    return lines + [f"the manifest has another {key}" for key in comparison.description]


def to_json(comparison: Comparison) -> dict[str, object]:
    """Return a comparison with what follows from it, as JSON."""
    bump = required_bump(comparison)
    return {
        **asdict(comparison),
        "bump": bump,
        "next_version": next_version(comparison.old_version, bump),
        "changes": changes(comparison),
    }


def _row_lines(rows: RowChanges, what: str, relevant: frozenset[str]) -> list[str]:
    lines = [f"{_count(rows.added, what)} added"] if rows.added else []
    lines += [f"{_count(rows.removed, what)} removed"] if rows.removed else []
    matter = set(rows.relevant(relevant))
    for ids, effect in (
        ([key for key in rows.changed if key in matter], "in what is asked"),
        ([key for key in rows.changed if key not in matter], "without effect on scores"),
    ):
        columns = Counter(column for key in ids for column in rows.changed[key])
        if ids:
            named = ", ".join(f"{column} of {count}" for column, count in sorted(columns.items()))
            lines.append(f"{_count(ids, what)} changed {effect} ({named})")
    return lines


def _count(ids: Iterable[str], what: str) -> str:
    count = len(list(ids))
    return f"{count} {what}{'' if count == 1 else 's'}"


class _Version(NamedTuple):
    folder: Path
    manifest: Manifest


_Row = Mapping[str, object]
_Rows = Mapping[str, _Row]


def _compare_split(split: str, old: _Version, new: _Version) -> SplitChanges:
    return SplitChanges(
        _compare_rows(_questions(old, split), _questions(new, split)),
        _compare_contexts(split, old, new),
    )


def _compare_contexts(split: str, old: _Version, new: _Version) -> RowChanges:
    if _files(old, split) == _files(new, split):  # they were compared with these: there is nothing to read
        return RowChanges((), (), {})
    return _compare_rows(_contexts(old, split), _contexts(new, split))


def _files(version: _Version, split: str) -> list[str]:
    """Return the digests of the files of contexts."""
    if split not in version.manifest["splits"]:
        return []
    files = version.manifest["files"]
    return [files[name]["sha256"] for name in table_files(files, "shared_contexts", split)]


def _questions(version: _Version, split: str) -> _Rows:
    if split not in version.manifest["splits"]:
        return {}
    rows = read_as_it_is(version.folder, split).to_pylist()
    return _by_id(rows, "question_id", question_files(version.folder, split)[0])


def _contexts(version: _Version, split: str) -> _Rows:
    if split not in version.manifest["splits"]:
        return {}
    paths = context_files(version.folder, split)
    count = version.manifest["splits"][split]["shared_contexts"]
    rows = track(iter_contexts(*paths), f"reading contexts of {split}", count)
    digests: Iterator[_Row] = ({**_digests(row), "shared_context_id": row["shared_context_id"]} for row in rows)
    return _by_id(digests, "shared_context_id", paths[0])


def _by_id(rows: Iterable[_Row], key: str, path: Path) -> _Rows:
    by_id: dict[str, _Row] = {}
    for row in rows:
        name = str(row[key])
        if name in by_id:
            raise UserError(f"{path} has two rows with the {key} {name}", "versions are compared by these ids")
        by_id[name] = row
    return by_id


def _digests(row: _Row) -> dict[str, bytes | None]:
    return {
        column: None if value is None else hashlib.sha256(json.dumps(value, sort_keys=True).encode()).digest()
        for column, value in row.items()
    }


def _compare_rows(old: _Rows, new: _Rows) -> RowChanges:
    changed = {key: _changed_columns(old[key], new[key]) for key in old if key in new}
    return RowChanges(
        added=tuple(key for key in new if key not in old),
        removed=tuple(key for key in old if key not in new),
        changed={key: columns for key, columns in changed.items() if columns},
    )


def _changed_columns(old: _Row, new: _Row) -> tuple[str, ...]:
    """Return the columns in which two rows differ; a column that is not there is empty."""
    columns = dict.fromkeys([*old, *new])
    return tuple(column for column in columns if not _same(old.get(column), new.get(column)))


def _same(old: object, new: object) -> bool:
    return bool(old == new or (old != old and new != new))  # a number that is none equals nothing, not even itself
