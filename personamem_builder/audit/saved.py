"""The JSON form of an audit, which every dataset folder keeps. Reading it needs nothing of what an audit needs."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from generation.reading import as_model, read_json
from personamem_builder.audit.records import Verdict


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False)


class SavedFinding(_Part):
    """A finding, with what came of its limit."""

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


class SavedSplit(_Part):
    """The findings of a split."""

    split: str
    questions: int
    personas: int
    sampled: int | None = None
    detectable: dict[str, dict[str, float | None]] = {}
    findings: list[SavedFinding]


class SavedAudit(_Part):
    """The JSON form that `audit.render` defines, as far as its page and releases need it."""

    format: Literal["personamem-audit"]
    schema_version: Literal[1]
    source: str
    digest: str
    passed: bool
    splits: list[SavedSplit]


def read_audit(path: Path, hint: str) -> SavedAudit:
    """Read an `audit.json`; the hint says how to mend it.

    Raises:
        UserError: It cannot be read, or is no audit.
    """
    return as_model(read_json(path, hint), SavedAudit, str(path), hint)
