"""Which runs have a table together, what they are called in it, and which of them are compared."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from personamem_builder.memory.controls import Oracle
from personamem_builder.results.runs import Run
from personamem_builder.schema import SPLITS


@dataclass(frozen=True)
class RunGroup:
    """Runs that have a table together.

    Attributes:
        task: The task, without the end that says that there was no context.
        runs: The runs.
        partners: All runs on the same data and subset, whole or partial: a context gain may be taken against any of
            them.
        limit: Number of questions, where the runs are partial ones.
        shares_task: Whether there are runs of this task on other data.
    """

    task: str
    runs: Sequence[Run]
    partners: Sequence[Run]
    limit: int | None
    shares_task: bool

    def label(self, run: Run) -> str:
        """Return the model's name, with what tells it from other runs of that name on the same task."""
        kind = (run.task, run.model, run.shown.key)
        others = [o for o in self.partners if (o.task, o.model, o.shown.key) == kind and o is not run]
        parts = [run.backend] if any(other.backend != run.backend for other in others) else []
        same_backend = [set(other.model_args) for other in others if other.backend == run.backend]
        if same_backend:
            shared = set(run.model_args).intersection(*same_backend)
            parts += [f"{name}={value}" for name, value in run.model_args if (name, value) not in shared]
        return (f"{run.model} ({', '.join(parts)})" if parts else run.model) + memory_mark(run)

    def oracle(self, run: Run) -> Run | None:
        """Find the run of the same model that was shown the evidence alone."""
        same = (
            other for other in self.partners if other.shown.memory == Oracle.name and other.model_key == run.model_key
        )
        return next((other for other in same if other is not run), None)

    def without_context(self, run: Run) -> tuple[Run | None, list[str]]:
        """Find the run to take a run's context gain against, and say where it is not a perfect one."""
        candidates = [
            other
            for other in self.partners
            if run.has_context
            and not other.has_context
            and (other.model, other.base_task) == (run.model, run.base_task)
        ]
        same = [other for other in candidates if (other.backend, other.model_args) == (run.backend, run.model_args)]
        if not candidates:
            return None, []
        label = self.label(run)
        if not same and len(candidates) > 1:
            return None, [f"{label}: no context gain, as no run without context has the same model arguments."]
        notes = []
        if not same:
            notes.append(f"{label}: its run without context has other model arguments.")
        # A whole run is the better partner of a whole run, a partial one of a partial one.
        bare = max(
            same or candidates, key=lambda other: (len(run.answers.keys() & other.answers.keys()), -len(other.answers))
        )
        shared = len(run.answers.keys() & bare.answers.keys())
        if shared < max(len(run.answers), len(bare.answers)):
            notes.append(
                f"{label}: context gain over the {shared} questions that both runs answered"
                f" ({len(run.answers)} with context, {len(bare.answers)} without)."
            )
        return (bare if shared else None), notes


def group_runs(runs: Sequence[Run]) -> list[RunGroup]:
    """Find the runs that have a table together, shortest split first.

    Returns:
        A group for each task, data digest, subset, and set of questions of partial runs.
    """
    wholes: dict[tuple[str, str, str], list[Run]] = {}
    for run in runs:
        key = (run.base_task, run.data_digest or "", run.subset.sha256 if run.subset else "")
        wholes.setdefault(key, []).append(run)
    digests = Counter(task for task, _ in {(task, digest) for task, digest, _ in wholes})
    groups = []
    for key in sorted(wholes, key=lambda key: (_split_rank(key[0]), *key)):
        parts: dict[frozenset[str], list[Run]] = {}
        for run in wholes[key]:
            parts.setdefault(frozenset() if run.is_whole else run.asked, []).append(run)
        for questions in sorted(parts, key=lambda ids: (len(ids), sorted(ids))):
            limit = len(questions) or None
            groups.append(RunGroup(key[0], parts[questions], wholes[key], limit, shares_task=digests[key[0]] > 1))
    return groups


def _split_rank(task: str) -> tuple[int, int]:
    """Put the splits of the paper first, shortest first, then those of a number of sessions."""
    blocks = re.search(r"_(\d+)blocks", task)
    rank = next((rank for rank, split in enumerate(SPLITS) if f"_{split}" in task), len(SPLITS))
    return rank, int(blocks[1]) if blocks else 0


def all_names(run: Run) -> list[str]:
    """Return all that may be said for a run's model, with its memory; what tables say comes first."""
    return [name + memory_mark(run) for name in run.names]


def memory_mark(run: Run) -> str:
    """Return what stands behind a model's name: the memory, where it is not the whole history."""
    if not run.shown.label:
        return ""
    return f" [{run.shown.label}{', TAINTED' if run.shown.tainted else ''}]"
