"""lm-eval's results of a run, computed anew from the answers of its parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Final

from lm_eval.api.group import Group

from generation.resources import data_dir
from generation.yaml_reading import read_yaml
from personamem_builder.evaluation.predictions import usage_of_tasks
from personamem_builder.evaluation.task_results import task_results
from personamem_builder.schema import Prediction

Rows = Sequence[Prediction]
"""The answers to a task, in the order of its questions."""

_OF_PARTS: Final = ("shard", "shard_plan")
_SUMS: Final = ("memory_tainted", "memory_failed")


def merged_results(parts: Sequence[Mapping[str, Any]], tasks: Mapping[str, Rows]) -> dict[str, Any]:
    """Return the results of a run that was asked in parts, as lm-eval would have them of the whole run.

    What is no result of answers is that of the first part, but for the start, which is the earliest, and the seconds,
    which are those of all parts together. Groups other than ours are left out.

    Args:
        parts: What the results files hold; they are of one run.
        tasks: The answers of all parts by task.
    """
    whole = dict(parts[0])
    iterations = whole["config"]["bootstrap_iters"]
    whole["results"] = {task: task_results(whole["results"][task], rows, iterations) for task, rows in tasks.items()}
    whole["n-samples"] = {
        task: {**whole["n-samples"][task], "effective": whole["results"][task]["sample_len"]} for task in tasks
    }
    whole["configs"] = {
        task: {**config, "metadata": _metadata([part["configs"][task]["metadata"] for part in parts])}
        for task, config in whole["configs"].items()
    }
    groups = {name: group for name in whole.pop("groups", {}) if (group := _group(name, whole))}
    whole["results"] |= groups
    if groups:
        whole["groups"] = groups
    whole.pop("usage", None)
    if usage := usage_of_tasks([row for rows in tasks.values() for row in rows]):
        whole["usage"] = usage
    seconds = [float(part["total_evaluation_time_seconds"]) for part in parts]
    return whole | {
        "date": min(part["date"] for part in parts),
        "total_evaluation_time_seconds": str(sum(seconds)),
        "task_hashes": {},
        "parts": len(parts),
    }


def _metadata(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what a task says of itself: what a memory was worth is a mean over the questions of all parts."""
    whole = {name: value for name, value in parts[0].items() if name not in _OF_PARTS}
    for name in _SUMS:
        if name in whole:
            whole[name] = sum(part[name] for part in parts)
    for name in ("memory_store", "memory_digest"):  # each part may have run the system for its own users
        if name in whole and any(part[name] != whole[name] for part in parts):
            del whole[name]
    if "memory_measures" in whole:
        whole["memory_measures"] = _measures([one for part in parts for one in part["memory_measures"]])
    return whole


def _measures(lines: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    merged = []
    for name, unit in dict.fromkeys((line["measure"], line["unit"]) for line in lines):
        own = [line for line in lines if line["measure"] == name]
        n = sum(line["n"] for line in own)
        merged.append(
            {"measure": name, "unit": unit, "value": sum(line["value"] * line["n"] for line in own) / n, "n": n}
        )
    return merged


class _NamedGroup(Group):
    """A group that knows its tasks by their names alone."""

    def get_all_tasks(self, recursive: bool = True) -> list[Any]:
        return [SimpleNamespace(task_name=name) for name in self._children]


def _group(name: str, whole: Mapping[str, Any]) -> Any:
    path = data_dir("lm_eval_tasks") / f"{name}.yaml"
    if not name.isidentifier() or not path.is_file():
        return None
    group = _NamedGroup.from_config(read_yaml(path))
    group._children = dict.fromkeys(whole["group_subtasks"][name])
    return group.aggregate(whole["results"])
