"""An audit: all checks of some splits, held against gates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from generation.parallel import WorkerPool, Workers, ordered_results
from generation.progress import track
from personamem_builder.audit.checks import Checker, checking_pool, checks_of, make
from personamem_builder.audit.gates import Gates, Judged, failed, judge
from personamem_builder.audit.history.memoriser import Memory, learn
from personamem_builder.audit.inputs import read_splits
from personamem_builder.audit.model import ConditionCredits, model_findings
from personamem_builder.audit.records import AuditedSplit, Finding
from personamem_builder.audit.sample import SAMPLE
from personamem_builder.manifest import is_dataset_folder, read_manifest


class Audit(NamedTuple):
    """What an audit found.

    Attributes:
        source: What was audited, as it was named.
        digest: Content digest of a dataset folder; empty for anything else.
        judged: All findings of all splits, with their verdicts.
        splits: What was audited.
        probes: For each split the credit of each question by each trained probe, the question held out.
        probed: For each split the questions that these credits belong to: the split, or a sample of it.
    """

    source: str
    digest: str
    judged: Sequence[Judged]
    splits: Sequence[AuditedSplit]
    probes: Mapping[str, Mapping[str, Sequence[float]]]
    probed: Mapping[str, AuditedSplit] = MappingProxyType({})

    def sampled(self, split: AuditedSplit) -> int | None:
        """Return on how many questions of a split probes were trained and tested; None for all of them."""
        probed = self.probed.get(split.name, split)
        return len(probed.rows) if len(probed.rows) < len(split.rows) else None

    @property
    def failed(self) -> list[Judged]:
        """The findings that miss their limit."""
        return failed(self.judged)


def audit(
    path: Path,
    names: Sequence[str],
    gates: Gates,
    conditions: Mapping[str, ConditionCredits] | None = None,
    other_seeds: Sequence[Path] = (),
    workers: Workers = 1,
) -> Audit:
    """Audit a dataset folder, a run, a release or a file of questions, see `inputs.read_splits`.

    Args:
        path: Of any of these.
        names: The splits; all of them by default.
        gates: The limits.
        conditions: What a model answered, for each split that it was asked about.
        other_seeds: Runs or dataset folders that `history.memoriser` learns from.
        workers: How many processes make checks, or the Ray cluster that does; what is found is the same.

    Raises:
        UserError: There is nothing to audit, no such split, or nothing to learn from in what has another seed; or
            there is no such cluster.
    """
    splits = read_splits(path, names)
    digest = read_manifest(path)["digest"] if is_dataset_folder(path) else ""
    memory = learn(other_seeds) if other_seeds else None
    with checking_pool(workers, path, memory) as pool:
        found = _audit(splits, gates, conditions, _checker(splits, memory), pool)
    return found._replace(source=path.resolve().name, digest=digest)


def audit_splits(
    splits: Sequence[AuditedSplit],
    gates: Gates,
    conditions: Mapping[str, ConditionCredits] | None = None,
    memory: Memory | None = None,
    most_probed: int = SAMPLE,
) -> Audit:
    """Audit splits, wherever they come from, in this process.

    Args:
        splits: The splits.
        gates: As for `audit`.
        conditions: As for `audit`.
        memory: What was learned from other seeds.
        most_probed: Of so many questions of a split at most probes are trained and tested, see `sample`.
    """
    return _audit(splits, gates, conditions, _checker(splits, memory, most_probed), None)


def _checker(splits: Sequence[AuditedSplit], memory: Memory | None, most_probed: int = SAMPLE) -> Checker:
    return Checker({split.name: split for split in splits}.__getitem__, memory, most_probed)


def _audit(
    splits: Sequence[AuditedSplit],
    gates: Gates,
    conditions: Mapping[str, ConditionCredits] | None,
    checker: Checker,
    pool: WorkerPool | None,
) -> Audit:
    probes: dict[str, Mapping[str, Sequence[float]]] = {}
    probed: dict[str, AuditedSplit] = {}
    findings: list[Finding] = []
    workers = pool.workers if pool else 1
    tasks = {split.name: checks_of(split.name, workers) for split in splits}
    every = chain.from_iterable(tasks.values())
    results = map(checker.make, every) if pool is None else ordered_results(pool.executor, 2 * workers, make, every)
    for split in splits:
        made: dict[str, list[Any]] = {}
        own = tasks[split.name]
        done = track(islice(results, len(own)), f"auditing {split.name}", len(own))
        for check, result in zip(own, done, strict=True):
            made.setdefault(check.name, []).append(result)
        found, probes[split.name], probed[split.name] = checker.findings(split, made)
        findings += found
        if conditions and split.name in conditions:
            findings += model_findings(split, conditions[split.name])
    return Audit("", "", judge(findings, gates), splits, probes, probed)
