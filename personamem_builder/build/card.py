"""The dataset card: YAML for the Hub and `datasets`, a generated part for people, and what people add by hand."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import jinja2
import yaml

from generation.errors import UserError
from generation.resources import data_dir
from generation.yaml_reading import parse_yaml
from personamem_builder.build.features import features_of, type_name
from personamem_builder.build.front_matter import is_generated, metadata, to_yaml
from personamem_builder.manifest import ChangelogEntry, Feature, Features, Manifest
from personamem_builder.schema import CONTEXT_SCHEMA, QUESTION_SCHEMA, SPLITS
from personamem_builder.stats.figures import from_json
from personamem_builder.stats.tables import tables_of
from personamem_builder.stats.write import svg_of
from personamem_builder.table_files import CONFIGS, ConfigName

CARD: Final = "README.md"

_BEGIN: Final = (
    "<!-- personamem:begin This part is generated: what is changed in it is lost when the card is made anew. -->"
)
_END: Final = "<!-- personamem:end What is written below is kept when the card is made anew. -->"
_BLOCK: Final = re.compile(r"^<!-- personamem:begin\b.*?^<!-- personamem:end\b[^\n]*", re.DOTALL | re.MULTILINE)
_MARKER: Final = re.compile(r"^<!-- personamem:(?:begin|end)\b", re.MULTILINE)
_UNMARKED: Final = "This folder was written by `personamem` and holds the same content as plain Parquet."
"""A line of the cards that we wrote before they had marks."""

_MOST_FAILED: Final = 20
_MOST_VERSIONS: Final = 10
_MOST_CHANGES: Final = 12
"""What the card shows of long lists; the whole of them is in other files."""

_PICTURES: Final = "figures"

_FLOORS: Final = ("surface.", "probe.")
"""Checks that answer without the history."""


class Card(NamedTuple):
    """A card, taken apart: its front matter, and what was written by hand above and below the generated part."""

    metadata: dict[str, Any]
    before: str
    after: str


def render_card(manifest: Manifest, audit: Mapping[str, Any] | None = None, previous: str | None = None) -> str:
    """Render the `README.md` of a dataset, given the JSON of its audit (see `audit.render`).

    What was added by hand to the text or the YAML of `previous`, an older card, is kept.

    Raises:
        UserError: The older card is damaged, or the YAML would not read back as it was.
    """
    kept = split_card(previous or "")
    front_matter = to_yaml(metadata(manifest, kept.metadata))
    parts = [f"---\n{front_matter}---", kept.before, f"{_BEGIN}\n\n{_block(manifest, audit)}\n\n{_END}", kept.after]
    return "\n\n".join(part for part in parts if part) + "\n"


def card_pictures(manifest: Manifest) -> dict[str, str]:
    """Return the pictures that a card shows, by their path in the dataset folder; an older manifest has none."""
    return {f"{_PICTURES}/{split}.svg": svg_of(from_json(own)) for split, own in manifest.get("figures", {}).items()}


def write_pictures(folder: Path, manifest: Manifest) -> None:
    """Write the pictures that a card shows into its dataset folder."""
    for name, text in card_pictures(manifest).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def split_card(text: str) -> Card:
    """Take the text of a card apart.

    Raises:
        UserError: Its front matter is no YAML mapping, or one of the marks around the generated part is missing.
    """
    text = text.replace("\r\n", "\n")
    data: Any = {}
    body = text
    if match := re.match(r"---[ ]*\n(.*?)^---[ ]*(?:\n|\Z)", text, re.DOTALL | re.MULTILINE):
        data = parse_yaml(match[1], "the card's front matter", f"mend the {CARD}") or {}
        if not isinstance(data, dict):
            raise UserError("the card's front matter is not a YAML mapping", f"mend the {CARD}")
        body = text[match.end() :]
    before, after = _written_by_hand(body)
    return Card(data, before.strip("\n"), after.strip("\n"))


def statements(manifest: Manifest) -> dict[str, Any]:
    """Return what a dataset says of its use, limits and origins, see `hub_card/statements.yaml`."""
    told = _read_yaml("statements.yaml")
    own = told["generated" if is_generated(manifest) else "imported"]
    return {
        **told["common"],
        **own,
        "limits": [*manifest.get("notes", ()), *own["limits"], *told["common"]["limits"]],
    }


def columns(manifest: Manifest) -> dict[ConfigName, list[tuple[Feature, str]]]:
    """Return the columns of both tables, each with its meaning; the manifest of an older folder does not name them."""
    meanings = _read_yaml("columns.yaml")
    known: Features = {"benchmark": features_of(QUESTION_SCHEMA), "shared_contexts": features_of(CONTEXT_SCHEMA)}
    features = manifest.get("features", known)
    return {
        config: [(feature, meanings[config].get(feature["name"], "")) for feature in features[config]]
        for config in CONFIGS
    }


def _written_by_hand(body: str) -> tuple[str, str]:
    block = _BLOCK.search(body)
    if block is None:
        if _MARKER.search(body):
            raise UserError(
                f"one of the two marks around the generated part of the {CARD} is missing", f"mend the {CARD}"
            )
        return ("", "") if _UNMARKED in body else ("", body)
    before, after = body[: block.start()], body[block.end() :]
    if _MARKER.search(before + after):
        raise UserError(f"the {CARD} has several generated parts", f"mend the {CARD}")
    return before, after


def _read_yaml(name: str) -> Any:
    return yaml.safe_load((data_dir("hub_card") / name).read_text(encoding="utf-8"))


def _block(manifest: Manifest, audit: Mapping[str, Any] | None) -> str:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(data_dir("hub_card")),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )
    repo_id = manifest.get("repo_id", "")
    splits = list(manifest["splits"])
    text = environment.get_template("README.md.j2").render(
        manifest=manifest,
        repo_id=repo_id,
        tag=f"v{manifest['version']}",
        name=repo_id or "personamem",
        place=f"{repo_id}@v{manifest['version']}" if repo_id else "PATH",
        generated=is_generated(manifest),
        split=splits[0],
        task_split=next((split for split in splits if split in SPLITS), None),
        columns={
            config: [(feature["name"], type_name(feature), meaning) for feature, meaning in features]
            for config, features in columns(manifest).items()
        },
        told=statements(manifest),
        settings=list(_settings(manifest.get("generation", {}))),
        audited=None if audit is None else _audited(audit),
        tables=tables_of([from_json(own) for own in manifest.get("figures", {}).values()]),
        pictures=list(card_pictures(manifest)),
        changelog=_changelog(manifest.get("changelog", ())),
    )
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n")


def _settings(generation: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in generation.items():
        if isinstance(value, Mapping):
            value = ", ".join(f"{name} {inner}" for name, inner in value.items())
        elif isinstance(value, Sequence) and not isinstance(value, str):
            value = ", ".join(map(str, value))
        yield key.replace("_", " "), str(value)


def _changelog(changelog: Sequence[ChangelogEntry]) -> list[dict[str, Any]]:
    return [
        {
            "tag": f"v{entry['version']}",
            "changes": entry["changes"][:_MOST_CHANGES],
            "more": max(0, len(entry["changes"]) - _MOST_CHANGES),
        }
        for entry in changelog[:_MOST_VERSIONS]
    ]


def _audited(audit: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the card shows of an audit: accuracies over all questions, by check and split, and what failed."""
    accuracies: dict[str, dict[str, str]] = {}
    floors: dict[str, tuple[float, str]] = {}
    for split in audit["splits"]:
        for finding in split["findings"]:
            check = finding["check"]
            if finding["slice"] == "all" and finding["chance"] is not None and finding["value"] is not None:
                accuracies.setdefault(check, {})[split["split"]] = _accuracy(finding)
                if check.startswith(_FLOORS):
                    known = floors.get(split["split"], (0.0, ""))
                    floors[split["split"]] = max(known, (finding["value"], check), key=lambda floor: floor[0])
    failed = [
        f"{split['split']}: {finding['check']}, {finding['slice']} ({finding['limit']})"
        for split in audit["splits"]
        for finding in split["findings"]
        if finding["verdict"] == "FAIL"
    ]
    return {
        "splits": [split["split"] for split in audit["splits"]],
        "accuracies": accuracies,
        "sampled": {
            split["split"]: (f"{split['questions']:,}", f"{split['sampled']:,}")
            for split in audit["splits"]
            if "sampled" in split
        },
        "floors": {split: (f"{100 * value:.1f}", check) for split, (value, check) in floors.items()},
        "limits": sum(bool(finding["verdict"]) for split in audit["splits"] for finding in split["findings"]),
        "failed": len(failed),
        "shown": failed[:_MOST_FAILED],
    }


def _accuracy(finding: Mapping[str, Any]) -> str:
    value = f"{100 * finding['value']:.1f}"
    if finding["low"] is None:
        return value
    return f"{value} [{100 * finding['low']:.1f}, {100 * finding['high']:.1f}]"
