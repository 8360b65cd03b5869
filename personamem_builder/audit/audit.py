"""An audit: all checks of some splits, held against gates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from generation.progress import track
from personamem_builder.audit.balance import balance_findings
from personamem_builder.audit.cues import cue_findings
from personamem_builder.audit.gates import Gates, Judged, failed, judge
from personamem_builder.audit.history.history import history_findings
from personamem_builder.audit.history.memoriser import Memory, learn
from personamem_builder.audit.inputs import read_splits
from personamem_builder.audit.integrity import integrity_findings
from personamem_builder.audit.model import ConditionCredits, model_findings
from personamem_builder.audit.probes import probe_credits, probe_findings
from personamem_builder.audit.readers import reader_findings
from personamem_builder.audit.records import AuditedSplit, Finding
from personamem_builder.audit.surface import surface_findings
from personamem_builder.audit.texts import text_findings
from personamem_builder.manifest import is_dataset_folder, read_manifest


class Audit(NamedTuple):
    """What an audit found.

    Attributes:
        source: What was audited, as it was named.
        digest: Content digest of a dataset folder; empty for anything else.
        judged: All findings of all splits, with their verdicts.
        splits: What was audited.
        probes: For each split the credit of each question by each trained probe, the question held out.
    """

    source: str
    digest: str
    judged: Sequence[Judged]
    splits: Sequence[AuditedSplit]
    probes: Mapping[str, Mapping[str, Sequence[float]]]

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
) -> Audit:
    """Audit a dataset folder, a run, a release or a file of questions, see `inputs.read_splits`.

    Args:
        path: Of any of these.
        names: The splits; all of them by default.
        gates: The limits.
        conditions: What a model answered, for each split that it was asked about.
        other_seeds: Runs or dataset folders that `history.memoriser` learns from.

    Raises:
        UserError: There is nothing to audit, no such split, or nothing to learn from in what has another seed.
    """
    splits = read_splits(path, names)
    digest = read_manifest(path)["digest"] if is_dataset_folder(path) else ""
    memory = learn(other_seeds) if other_seeds else None
    return audit_splits(splits, gates, conditions, memory)._replace(source=path.resolve().name, digest=digest)


def audit_splits(
    splits: Sequence[AuditedSplit],
    gates: Gates,
    conditions: Mapping[str, ConditionCredits] | None = None,
    memory: Memory | None = None,
) -> Audit:
    """Audit splits, wherever they come from; arguments as for `audit`, and what was learned from other seeds."""
    probes: dict[str, dict[str, list[float]]] = {split.name: {} for split in splits}
    findings: list[Finding] = []
    for split in splits:
        for found in track(_checks(split, probes[split.name], memory), f"auditing {split.name}", _NUM_CHECKS):
            findings += found
        if conditions and split.name in conditions:
            findings += model_findings(split, conditions[split.name])
    return Audit("", "", judge(findings, gates), splits, probes)


_NUM_CHECKS = 8


def _checks(split: AuditedSplit, probes: dict[str, list[float]], memory: Memory | None) -> Iterator[list[Finding]]:
    """Make the checks of a split, one group at a time; `probes` receives the credits of the trained probes."""
    yield surface_findings(split)
    probes.update(probe_credits(split))
    yield probe_findings(split, probes)
    yield cue_findings(split)
    yield balance_findings(split)
    yield text_findings(split)
    yield integrity_findings(split)
    yield reader_findings(split)
    yield history_findings(split, memory)
