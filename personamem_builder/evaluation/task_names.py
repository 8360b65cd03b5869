"""What `--tasks` names: tasks, tags, groups, patterns of these, and YAML files."""

from __future__ import annotations

import glob
import json
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from generation.errors import UserError
from personamem_builder.schema import SPLITS


@dataclass(frozen=True)
class ChosenTasks:
    """The tasks of a run.

    Attributes:
        names: What lm-eval is to be given: names of tasks and groups, and paths.
        output_types: The output type of each single task, as far as it is known.
        built_in: Whether tasks of lm-eval's own may be among them, so that its thousands must be indexed.
    """

    names: list[str]
    output_types: Mapping[str, str | None]
    built_in: bool

    @property
    def ours(self) -> list[str]:
        """The single tasks that are ours."""
        return [name for name in self.output_types if name.startswith("personamem")]


def choose_tasks(given: Any, include_path: Any) -> ChosenTasks:
    """Find out which tasks `--tasks` means: names, several in one string with commas between them, or a list of such.

    Raises:
        UserError: There is no such task; all unknown names are told, with known ones that look like them.
    """
    from lm_eval.tasks import TaskManager

    names = _split(given)
    paths = [name for name in names if name.endswith(".yaml") or (len(names) == 1 and Path(name).is_dir())]
    known = TaskManager(include_path=include_path, include_defaults=False)
    matches = {name: known.match_tasks([name]) for name in names}
    if matches[names[0]]:  # a task goes before a folder of its name
        paths = [path for path in paths if path != names[0]]
    missing = [name for name in names if not matches[name] and name not in paths]
    # No task of lm-eval's own begins so: there is no need to look at them all.
    built_in = any(not name.lower().startswith("personamem") for name in missing)
    if built_in:
        known = TaskManager(include_path=include_path)
        matches |= {name: known.match_tasks([name]) for name in missing}
    missing = [name for name in missing if not matches[name]]
    missing += [path for path in paths if not Path(path).is_dir() and not glob.glob(path)]  # noqa: PTH207 (as lm-eval)
    if missing:
        raise _unknown(missing, known.all_tasks)
    index = known.task_index
    leaves = {name: _leaves(name, index) for chosen in matches.values() for name in _without_tags(chosen, index)}
    output_types = {
        leaf: (index[leaf].cfg or {}).get("output_type") if leaf in index else None
        for own in leaves.values()
        for leaf in own
    }
    elsewhere = bool(paths) or any(leaf not in index for leaf in output_types)
    return ChosenTasks([*_not_covered(leaves), *paths], output_types, built_in or elsewhere)


def task_of_split(split: str) -> str:
    """Return the task that asks a split, with the metadata that it needs, as a command line has them."""
    if split in SPLITS:
        return f"personamem_{split}"
    return f"personamem_{SPLITS[0]} --metadata {shlex.quote(json.dumps({'split': split}))}"


def check_one_split(tasks: Iterable[str], split: object) -> None:
    """Refuse tasks that would ask the same: those that differ only in their file's split, which another replaces.

    Raises:
        UserError: Two do.
    """
    seen: dict[str, str] = {}
    for task in tasks:
        setting = re.sub("|".join(f"_{own}" for own in SPLITS), "", task, count=1)
        if setting in seen:
            raise UserError(
                f"--metadata split={split}: {seen[setting]} and {task} would ask the same questions",
                f"name one of them: --tasks {seen[setting]}",
            )
        seen[setting] = task


def _split(given: Any) -> list[str]:
    texts = given if isinstance(given, list) else [given]
    for text in texts:
        if not isinstance(text, str):
            raise UserError(f"tasks: {text!r} is not the name of a task", "give names, such as personamem_32k")
    names = [name.strip() for text in texts for name in text.split(",")]
    chosen = list(dict.fromkeys(name for name in names if name))
    if not chosen:
        raise UserError("no task is named", "personamem eval --tasks personamem_32k …")
    return chosen


def _unknown(names: Iterable[str], known: list[str]) -> UserError:
    by_lower = {name.lower(): name for name in known}
    told = []
    for name in names:
        near = [by_lower[found] for found in get_close_matches(name.lower(), by_lower, n=3, cutoff=0.7)]
        told.append(f"{name} (near: {', '.join(near)})" if near else name)
    ours = [name for name in known if name.startswith("personamem")]
    return UserError(f"no task {', '.join(told)}", f"use one of {', '.join(ours)}, or what `lm-eval ls tasks` lists")


def _without_tags(names: Iterable[str], index: Mapping[str, Any]) -> Iterable[str]:
    for name in names:
        yield from sorted(index[name].tags) if index[name].kind.name == "TAG" else (name,)


def _leaves(name: str, index: Mapping[str, Any]) -> list[str]:
    """Return the single tasks of a task or group; one that is not indexed stands for itself."""
    entry = index.get(name)
    if entry is None or entry.kind.name not in ("GROUP", "TAG"):
        return [name]
    listed = sorted(entry.tags) if entry.kind.name == "TAG" else (entry.cfg or {}).get("task") or []
    members = [member if isinstance(member, str) else _name(member) for member in listed]
    return [leaf for member in members if member != name for leaf in _leaves(member, index)]


def _name(member: Any) -> str:
    found = member.get("task") or member.get("group") if isinstance(member, dict) else None
    return found if isinstance(found, str) else ""


def _not_covered(leaves: Mapping[str, list[str]]) -> list[str]:
    """Return the names without those whose tasks another has, too: lm-eval refuses to be given a task twice."""
    kept: dict[str, set[str]] = {}
    for name, own in leaves.items():
        tasks = set(own)
        if tasks not in kept.values() and not any(tasks < set(others) for others in leaves.values()):
            kept[name] = tasks
    return list(kept)
