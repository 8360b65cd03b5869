"""The dataset card: YAML for the Hub and `datasets`, then text for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jinja2
import yaml

from generation.resources import data_dir
from personamem_builder.dataset.folder import contexts_path, questions_path


def render_card(manifest: Mapping[str, Any], notes: Sequence[str]) -> str:
    """Render the `README.md` of a dataset folder.

    Args:
        manifest: The folder's manifest.
        notes: Known oddities of the data, one sentence each.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(data_dir("hub_card")),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        autoescape=False,
    )
    front_matter = yaml.safe_dump(_metadata(manifest), sort_keys=False, allow_unicode=True)
    return environment.get_template("README.md.j2").render(front_matter=front_matter, manifest=manifest, notes=notes)


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
