"""Environments of memory systems: what is installed in each, and where it lies in the cache."""

from __future__ import annotations

import functools
import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from generation.errors import UserError
from generation.files import replacing

_HERE: Final = Path(__file__).parent
_READY: Final = "ready.json"
_SHOWN_LINES: Final = 5


class IsolatedSpec(NamedTuple):
    """A memory system with an environment of its own.

    Attributes:
        adapter: The file that speaks to it.
        requires: What is installed, pinned.
        local_embedder: What embeddings on this machine need beside it.
    """

    name: str
    adapter: Path
    requires: tuple[str, ...]
    local_embedder: tuple[str, ...]

    @property
    def version(self) -> str:
        """What tells its results from those of another version: its pins, and the digest of the adapter."""
        return f"{', '.join(self.requires)}; {hashlib.sha256(self.adapter.read_bytes()).hexdigest()[:12]}"


@functools.cache
def isolated_systems() -> Mapping[str, IsolatedSpec]:
    """Return the systems by name."""
    given: dict[str, dict[str, Any]] = yaml.safe_load((_HERE / "systems.yaml").read_text(encoding="utf-8"))
    return {
        name: IsolatedSpec(
            name, _HERE / "adapters" / one["adapter"], tuple(one["requires"]), tuple(one["local_embedder"])
        )
        for name, one in given.items()
    }


def set_up(name: str, *, local_embedder: bool = False) -> Path:
    """Make the environment of a system, unless it is there, and return its Python.

    It is made by `uv` where that is installed, else by `venv` and `pip`, with the Python of this process. Other pins,
    or another Python, are another environment.

    Raises:
        UserError: There is no such system, or it cannot be installed.
    """
    from filelock import FileLock

    spec = _spec(name)
    requires = [*spec.requires, *(spec.local_embedder if local_embedder else ())]
    folder = _folder(spec, requires)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not (folder / _READY).is_file():
            shutil.rmtree(folder, ignore_errors=True)
            _install(name, folder, requires)
            with replacing(folder / _READY) as part:
                part.write_text(json.dumps({"name": name, "requires": requires}, indent=2) + "\n", encoding="utf-8")
    return _python(folder)


def python_of(name: str) -> Path | None:
    """Return the Python of a system's environment, that with an embedder first; None where it was not set up."""
    spec = _spec(name)
    for requires in ([*spec.requires, *spec.local_embedder], [*spec.requires]):
        folder = _folder(spec, requires)
        if (folder / _READY).is_file():
            return _python(folder)
    return None


def _spec(name: str) -> IsolatedSpec:
    spec = isolated_systems().get(name)
    if spec is None:
        raise UserError(
            f"there is no memory system {name!r} that is set up", f"use one of {', '.join(isolated_systems())}"
        )
    return spec


def _folder(spec: IsolatedSpec, requires: list[str]) -> Path:
    from personamem_builder.dataset.locate import cache_folder

    key = json.dumps([sorted(requires), sys.version_info[:2], sys.platform])
    return cache_folder() / "memory-systems" / f"{spec.name}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"


def _python(folder: Path) -> Path:
    return folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def _install(name: str, folder: Path, requires: list[str]) -> None:
    uv = shutil.which("uv")
    python = str(_python(folder))
    make = [uv, "venv", "--python", sys.executable, str(folder)] if uv else [sys.executable, "-m", "venv", str(folder)]
    add = [uv, "pip", "install", "--python", python] if uv else [python, "-m", "pip", "install", "--quiet"]
    for command in (make, [*add, *requires] if requires else []):
        if not command:
            continue
        ended = subprocess.run(command, capture_output=True, text=True, errors="replace")
        if ended.returncode:
            shutil.rmtree(folder, ignore_errors=True)
            said = [line for line in ended.stderr.strip().splitlines() if line and not line.startswith("WARNING")]
            raise UserError(
                f"the environment of {name} cannot be made: {' | '.join(said[-_SHOWN_LINES:])}",
                "see whether this machine reaches a package index; PIP_INDEX_URL or UV_INDEX_URL name another",
            )
