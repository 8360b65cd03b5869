"""What comes with the distribution: data folders, shipped examples, and the command that adds an extra."""

from __future__ import annotations

import json
import shlex
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from generation.errors import UserError

_ROOT = Path(__file__).resolve().parent.parent


def data_dir(name: str) -> Path:
    """Return a data folder of the distribution: `templates`, `lm_eval_tasks`, `hub_card` or `examples`.

    In a wheel the folders are inside `personamem_builder/_data/`; in a checkout (and an editable install) they
    are at the top of the tree.

    Raises:
        UserError: The installation lacks the folder.
    """
    for candidate in (_ROOT / "personamem_builder" / "_data" / name, _ROOT / name):
        if candidate.is_dir():
            return candidate
    raise UserError(f"this installation of personamem has no folder {name!r}", "install personamem again")


def find_example(path: Path) -> Path:
    """Return a path, or where no file is there the example that `tiny` or `examples/tiny.yaml` names."""
    if not path.is_file() and path.parent in (Path(), Path("examples")) and path.suffix in ("", ".yaml"):
        example = data_dir("examples") / f"{path.stem}.yaml"
        if example.is_file():
            return example
    return path


def example_names() -> list[str]:
    """Return the names of the shipped examples."""
    return sorted(path.stem for path in data_dir("examples").glob("*.yaml"))


def checkout() -> Path | None:
    """Return the folder of the checkout that runs; None where an installed package does."""
    return _ROOT if (_ROOT / "pyproject.toml").is_file() else None


def install_hint(extra: str) -> str:
    """Return the command that adds extras, with commas between, to this installation, from where it came."""
    if folder := checkout():
        return f"pip install -e {shlex.quote(f'{folder}[{extra}]')}"
    return f"pip install {shlex.quote(_requirement(extra))}"


def _requirement(extra: str) -> str:
    """Return what pip is to install: the file, folder or address of before, or else the name."""
    origin = _origin()
    url = str(origin.get("url", ""))
    if version_control := origin.get("vcs_info"):
        return f"personamem[{extra}] @ {version_control['vcs']}+{url}@{version_control['commit_id']}"
    if url.startswith("file:"):
        return f"{unquote(urlsplit(url).path)}[{extra}]"
    return f"personamem[{extra}] @ {url}" if url else f"personamem[{extra}]"


def _origin() -> dict[str, Any]:
    """Return what pip wrote of where the distribution came from; nothing if that was an index."""
    try:
        text = distribution("personamem").read_text("direct_url.json")
    except PackageNotFoundError:
        return {}
    return json.loads(text) if text else {}
