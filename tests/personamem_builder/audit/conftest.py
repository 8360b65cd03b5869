"""What the tests of audits share: the audit of the official split 32k, which takes some seconds."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from personamem_builder.audit.audit import Audit, audit
from personamem_builder.audit.gates import read_gates


@pytest.fixture(scope="session")
def official_audit(made_once: Callable[..., Path], release_dir: Path) -> Audit:
    """The audit of the official split 32k against the release standard; the split has no contexts afterwards."""

    def make(folder: Path) -> None:
        found = audit(release_dir, ["32k"], read_gates())
        splits = [dataclasses.replace(split, contexts=None) for split in found.splits]
        (folder / "audit.pickle").write_bytes(pickle.dumps(found._replace(splits=splits)))

    found: Any = pickle.loads((made_once("official_audit", make) / "audit.pickle").read_bytes())
    return found
