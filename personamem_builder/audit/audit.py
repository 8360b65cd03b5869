"""An audit: all checks of some splits, held against gates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from generation.progress import track
from personamem_builder.audit.balance import balance_findings
from personamem_builder.audit.cues import cue_findings
from personamem_builder.audit.gates import Gates, Judged, failed, judge
from personamem_builder.audit.history.history import POOLED, history_findings
from personamem_builder.audit.history.memoriser import Memory, learn
from personamem_builder.audit.inputs import read_splits
from personamem_builder.audit.integrity import integrity_findings
from personamem_builder.audit.model import ConditionCredits, model_findings
from personamem_builder.audit.probes import probe_credits, probe_findings
from personamem_builder.audit.readers import reader_findings
from personamem_builder.audit.records import ALL, AuditedSplit, Finding
from personamem_builder.audit.sample import SAMPLE, sample
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
    most_probed: int = SAMPLE,
) -> Audit:
    """Audit splits, wherever they come from.

    Args:
        splits: The splits.
        gates: As for `audit`.
        conditions: As for `audit`.
        memory: What was learned from other seeds.
        most_probed: Of so many questions of a split at most probes are trained and tested, see `sample`.
    """
    probes: dict[str, dict[str, list[float]]] = {split.name: {} for split in splits}
    probed = {split.name: sample(split, most_probed) for split in splits}
    findings: list[Finding] = []
    for split in splits:
        checks = _checks(split, probed[split.name], probes[split.name], memory)
        for found in track(checks, f"auditing {split.name}", _NUM_CHECKS):
            findings += found
        if conditions and split.name in conditions:
            findings += model_findings(split, conditions[split.name])
    return Audit("", "", judge(findings, gates), splits, probes, probed)


_NUM_CHECKS = 8


def _checks(
    split: AuditedSplit, probed: AuditedSplit, probes: dict[str, list[float]], memory: Memory | None
) -> Iterator[list[Finding]]:
    """Make the checks of a split, one group at a time; `probes` receives the credits of the trained probes."""
    yield surface_findings(split)
    probes.update(probe_credits(probed))
    yield _told(split, probed, probe_findings(probed, probes))
    yield cue_findings(split)
    yield balance_findings(split)
    yield text_findings(split)
    yield integrity_findings(split)
    yield reader_findings(split)
    yield _told(split, probed, history_findings(split, memory, probed))


def _told(split: AuditedSplit, probed: AuditedSplit, findings: Sequence[Finding]) -> list[Finding]:
    """Return findings with a note on those that were made of a sample."""
    if probed is split:
        return [*findings]
    note = f"a sample: {len(probed.rows):,} of {len(split.rows):,} questions"
    return [
        finding._replace(note="; ".join(filter(None, [finding.note, note]))) if _is_of_sample(finding) else finding
        for finding in findings
    ]


def _is_of_sample(finding: Finding) -> bool:
    return finding.slice == ALL and not finding.needs and finding.check.startswith(("probe.", POOLED))
