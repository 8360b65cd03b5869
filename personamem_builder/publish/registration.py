"""The `eval.yaml` by which the Hub knows a dataset as a benchmark."""

from __future__ import annotations

from personamem_builder.build.front_matter import to_yaml
from personamem_builder.manifest import Manifest


def eval_yaml(manifest: Manifest) -> str:
    """Return the text of the file: one task for each split, under the name of its lm-eval task."""
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
