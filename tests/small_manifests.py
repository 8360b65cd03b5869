"""Manifests of datasets whose files nobody reads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

DIGEST = "0" * 64


def small_manifest(splits: Sequence[str] = ("32k",), **changes: Any) -> dict[str, Any]:
    """Return the smallest manifest that is one.

    Args:
        splits: Names of its splits.
        **changes: Keys to set.
    """
    entry = {
        "questions": 1,
        "shared_contexts": 1,
        "personas": 1,
        "max_context_length_in_tokens": 10,
        "digests": {"benchmark": DIGEST, "shared_contexts": DIGEST},
    }
    names = [f"data/{kind}_{split}.parquet" for split in splits for kind in ("questions", "shared_contexts")]
    manifest = {
        "format": "personamem",
        "schema_version": 1,
        "version": "1.0.0",
        "digest": DIGEST,
        "source": {"name": "a test", "url": ""},
        "license": "mit",
        "config_fingerprint": "f",
        "tokenizer": "o200k_base",
        "splits": {split: entry for split in splits},
        "files": {name: {"bytes": 1, "sha256": DIGEST} for name in names},
    }
    return manifest | changes


def manifest_folder(folder: Path, **changes: Any) -> Path:
    """Make a folder that says of itself that it is a dataset, which is all that finding one looks at."""
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text(json.dumps(small_manifest(**changes)))
    return folder
