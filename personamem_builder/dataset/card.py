"""The dataset card: YAML for the Hub and `datasets`, then text for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jinja2
import yaml

from generation.resources import data_dir
from personamem_builder.dataset.folder import contexts_path, questions_path


def render_card(manifest: Mapping[str, Any], notes: Sequence[str], audit: Mapping[str, Any] | None = None) -> str:
    """Render the `README.md` of a dataset folder.

    Args:
        manifest: The folder's manifest.
        notes: Known oddities of the data, one sentence each.
        audit: The JSON of an audit, see `audit.render`.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(data_dir("hub_card")),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        autoescape=False,
    )
    front_matter = yaml.safe_dump(_metadata(manifest), sort_keys=False, allow_unicode=True)
    return environment.get_template("README.md.j2").render(
        front_matter=front_matter,
        manifest=manifest,
        notes=notes,
        audited=None if audit is None else _audited(audit),
    )


def _audited(audit: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the card shows of an audit: accuracies over all questions, by check and split, and what failed."""
    accuracies: dict[str, dict[str, str]] = {}
    for split in audit["splits"]:
        for finding in split["findings"]:
            if finding["slice"] == "all" and finding["chance"] is not None and finding["value"] is not None:
                accuracies.setdefault(finding["check"], {})[split["split"]] = _accuracy(finding)
    return {
        "splits": [split["split"] for split in audit["splits"]],
        "accuracies": accuracies,
        "limits": sum(bool(finding["verdict"]) for split in audit["splits"] for finding in split["findings"]),
        "failed": [
            f"{split['split']}: {finding['check']}, {finding['slice']} ({finding['limit']})"
            for split in audit["splits"]
            for finding in split["findings"]
            if finding["verdict"] == "FAIL"
        ],
    }


def _accuracy(finding: Mapping[str, Any]) -> str:
    value = f"{100 * finding['value']:.1f}"
    if finding["low"] is None:
        return value
    return f"{value} [{100 * finding['low']:.1f}, {100 * finding['high']:.1f}]"


def _metadata(manifest: Mapping[str, Any]) -> dict[str, Any]:
    questions = sum(split["questions"] for split in manifest["splits"].values())
    return {
        "pretty_name": "PersonaMem",
        "license": manifest["license"],
        "language": ["en"],
        "size_categories": ["n<1K" if questions < 1000 else "1K<n<10K"],
        "task_categories": ["multiple-choice", "question-answering"],
        "tags": ["personalization", "long-context", "memory", "lm-eval"],
        "configs": [
            _config(manifest, "benchmark", questions_path, default=True),
            _config(manifest, "shared_contexts", contexts_path),
        ],
    }


def _config(manifest: Mapping[str, Any], name: str, path: Any, *, default: bool = False) -> dict[str, Any]:
    digests = " ".join(f"{split}:{entry['digests'][name]}" for split, entry in manifest["splits"].items())
    return {
        "config_name": name,
        **({"default": True} if default else {}),
        # `datasets` keys its cache by this text, not by the data: without the digests it would serve old rows.
        "version": manifest["version"],
        "description": f"sha256 {digests}",
        "data_files": [{"split": split, "path": path(split)} for split in manifest["splits"]],
    }
