"""The page of an audit from its JSON form, which every dataset folder keeps: the audit is not made again."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from generation.reading import as_model, read_json
from personamem_builder.audit.gates import Judged, Verdict
from personamem_builder.audit.page import SplitSize, render_page
from personamem_builder.audit.records import Finding


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False)


class _Finding(_Part):
    check: str
    slice: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    clusters: int
    chance: float | None
    limit: str
    verdict: Verdict
    detectable: float | None = None
    examples: list[str] = []
    note: str = ""
    needs: str = ""

    def judged(self, split: str) -> Judged:
        told = self.model_dump(exclude={"limit", "verdict", "detectable", "examples"})
        finding = Finding(**told, split=split, examples=tuple(self.examples))
        return Judged(finding, self.limit, self.verdict, detectable=self.detectable)


class _Split(_Part):
    split: str
    questions: int
    personas: int
    sampled: int | None = None
    detectable: dict[str, dict[str, float | None]] = {}
    findings: list[_Finding]


class SavedAudit(_Part):
    """The JSON form that `audit.render` defines, as far as its page and releases need it."""

    format: Literal["personamem-audit"]
    schema_version: Literal[1]
    source: str
    digest: str
    passed: bool
    splits: list[_Split]

    def to_html(self, home: str = "") -> str:
        """Return the page of `audit.page`, which may lead back to another one, `home`."""
        return render_page(
            self.source,
            self.digest,
            [one.judged(split.split) for split in self.splits for one in split.findings],
            [SplitSize(split.split, split.questions, split.personas, split.sampled) for split in self.splits],
            {split.split: split.detectable for split in self.splits},
            home,
        )


def read_audit(path: Path, hint: str) -> SavedAudit:
    """Read an `audit.json`; the hint says how to mend it.

    Raises:
        UserError: It cannot be read, or is no audit.
    """
    return as_model(read_json(path, hint), SavedAudit, str(path), hint)
