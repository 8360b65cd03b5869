"""The questions of the official release, for tests of the audit."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from personamem_builder.audit.inputs import read_splits
from personamem_builder.audit.records import AuditedSplit

_FOLDER = Path(__file__).parents[2] / "shared" / "data" / "personamem_v1"


@cache
def official_questions(split: str) -> AuditedSplit:
    """Return the questions of an official split, without contexts; skip the test where the file is absent."""
    for name in (f"questions_{split}.csv", f"questions_{split}_options_only.csv.gz"):
        if (_FOLDER / name).is_file():
            return read_splits(_FOLDER / name)[0]
    pytest.skip(f"the official {split} questions are not beside this checkout (shared/data/personamem_v1)")
