"""The `config.json` of a run: what the run is made from."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from generation.errors import UserError
from generation.files import replacing
from generation.reading import as_model, read_json
from generation.record_files import named_write_errors
from generation.records import PERIODS, Visible

FORMAT_VERSION: Final = 6
"""Raised when the same configuration and banks give other records than before."""

CONFIG: Final = "config.json"

_RESTORE: Final = "restore it, or give another --out and run again"


class _Fingerprint(BaseModel):
    """What `config.json` must hold for a run to be read; what else shaped the run is there too."""

    model_config = ConfigDict(strict=True)

    seed: int
    personas: int = Field(ge=1)
    first_persona: int = Field(default=0, ge=0)
    persona_source: str | None
    persona_visible: Visible
    topics: list[str]
    periods: int = Field(ge=1, le=len(PERIODS))
    questions_per_topic: dict[str, int]
    fillers: int = Field(ge=0)
    backend: str | dict[str, str]
    llm: dict[str, Any] = {}
    banks: dict[str, str] = {}


def read_config(folder: Path) -> dict[str, Any]:
    """Return what `config.json` holds, in the words of this version.

    Raises:
        UserError: It is absent or no JSON mapping.
    """
    path = folder / CONFIG
    if not path_exists(path):
        raise UserError(f"{folder} is not a run", "make one: personamem generate CONFIG --out FOLDER")
    found = read_json(path, _RESTORE)
    if not isinstance(found, dict):
        raise UserError(f"{path} is damaged: it holds no mapping", _RESTORE)
    return _in_words_of_today(found)


def read_fingerprint(folder: Path) -> dict[str, Any]:
    """Return what the run in a folder is made from.

    Raises:
        UserError: `config.json` is absent, or holds something else.
    """
    found = read_config(folder)
    as_model(found, _Fingerprint, str(folder / CONFIG), _RESTORE)
    return found


def write_config(folder: Path, fingerprint: dict[str, Any]) -> None:
    """Write `config.json`, whole or not at all."""
    path = folder / CONFIG
    with named_write_errors(path), replacing(path) as part:
        part.write_text(json.dumps(fingerprint, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def users_of(fingerprint: dict[str, Any]) -> range:
    """Return the numbers of the users of a run."""
    first = fingerprint.get("first_persona", 0)
    return range(first, first + fingerprint["personas"])


def numbers_shown(users: range) -> str:
    """Return the numbers of users as people write them: `0-4`."""
    return f"{users.start}-{users.stop - 1}"


def differences(found: dict[str, Any], wanted: dict[str, Any], path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the keys that differ, with what each side has; of mappings the keys inside."""
    for key in {**found, **wanted}:
        there, now = found.get(key, "absent"), wanted.get(key, "absent")
        if isinstance(there, dict) and isinstance(now, dict):
            yield from differences(there, now, f"{path}{key}.")
        elif there != now:
            yield f"{path}{key}", there, now


def refuse_other(folder: Path, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Refuse a folder that holds the run of another configuration than the one wanted.

    Raises:
        UserError: It does; the keys that differ are named.
    """
    shown = "; ".join(
        f"{key}: {_short(there)} there, {_short(now)} now" for key, there, now in differences(found, wanted)
    )
    if shown:
        raise UserError(
            f"{folder} holds a run of another configuration: {shown}",
            f"give another --out, or remove the folder to make it anew (rm -r {folder})",
        )


def path_exists(path: Path) -> bool:
    """Say whether there is such a file or folder; one whose name is too long is none: making it will tell."""
    try:
        return path.exists()
    except OSError:
        return False


def _in_words_of_today(config: dict[str, Any]) -> dict[str, Any]:
    """Return a `config.json` as this version writes it.

    Up to format 5 `demographics` were without the occupation; otherwise the same configuration gave the same records.
    """
    version = config.get("format_version")
    if not isinstance(version, int) or version >= FORMAT_VERSION:
        return config
    visible = config.get("persona_visible")
    return {
        **config,
        "persona_visible": "no_occupation" if visible == "demographics" else visible,
        "format_version": FORMAT_VERSION if version == FORMAT_VERSION - 1 else version,
    }


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}..."
