"""The `eval.yaml` by which the Hub knows a dataset as a benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from personamem_builder.dataset.front_matter import to_yaml


def eval_yaml(manifest: Mapping[str, Any]) -> str:
    """Return the text of the file: one task for each split, under the name of its lm-eval task.

    Args:
        manifest: The manifest of the release.
    """
    return to_yaml(
        {
            "name": "PersonaMem",
            "description": (
                "Does a chat model, given a long history of sessions with one user, answer as that user is now? "
                "Four candidate responses, accuracy."
            ),
            "evaluation_framework": "lm-evaluation-harness",
            "tasks": [
                {"id": f"personamem_{split}", "config": "benchmark", "split": split} for split in manifest["splits"]
            ],
        }
    )
