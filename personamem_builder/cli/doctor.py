"""`personamem doctor`."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import click

from generation.errors import UserError
from generation.resources import checkout, install_hint
from personamem_builder.cli.help import Command
from personamem_builder.cli.options import json_option, print_json

_PURPOSES: Final = {
    "eval": "evaluate models behind an API, and shortcuts",
    "hf": "evaluate and generate with local models",
    "audit": "audit a benchmark, and refine a run",
    "plots": "plots as PNG, pictures of timelines",
    "prices": "prices of hosted models, for --estimate",
    "ray": "work on a Ray cluster",
    "vllm": "evaluate local models with vLLM",
    "inspect": "evaluate with Inspect, and read its logs",
    "croissant": "check croissant.json with mlcroissant",
    "memory": "the memory system bm25",
    "dense": "the memory system dense",
    "mem0": "the memory system mem0",
    "persona-bench": "PERSONA-Bench",
    "docs": "build the documentation",
    "dev": "work on personamem itself",
}
"""What each extra of the distribution is for."""

_LIBRARIES: Final = ("lm-eval", "datasets", "torch", "transformers", "vllm", "huggingface_hub")


@click.command(cls=Command, examples=["personamem doctor", "personamem doctor --json"])
@json_option()
def doctor(as_json: bool) -> None:
    """Show what is installed, which dataset commands would use, what is cached, and how much disk is free.

    Whatever is missing, the exit status is 0: nothing here is needed by every command.
    """
    found = {
        "personamem": _installed(),
        "extras": _extras(),
        "data": _data(),
        "caches": list(_caches()),
        "disks": list(_disks()),
    }
    if as_json:
        print_json(found)
    else:
        click.echo("\n\n".join(_paragraphs(found)))


def _installed() -> dict[str, Any]:
    from personamem_builder.installation import version_of

    folder = checkout()
    return {
        "version": version_of("personamem"),
        "checkout": str(folder) if folder else None,
        "python": platform.python_version(),
        "libraries": {name: version_of(name) for name in _LIBRARIES},
    }


def _extras() -> list[dict[str, Any]]:
    from personamem_builder.installation import extras

    order = list(_PURPOSES)
    return [
        {
            "name": extra.name,
            "purpose": _PURPOSES.get(extra.name, ""),
            "missing": list(extra.missing),
            "install": install_hint(extra.name) if extra.missing else None,
        }
        for extra in sorted(extras(), key=lambda extra: order.index(extra.name) if extra.name in order else len(order))
    ]


def _data() -> dict[str, Any]:
    """Say which dataset a command would use that is given none, in words too."""
    from personamem_builder.dataset.locate import DEFAULT_FOLDER, ENVIRONMENT, find_folder
    from personamem_builder.manifest import read_manifest

    named = os.environ.get(ENVIRONMENT) or None
    # As a command looks: a folder that the variable names, or a place on the Hub; the default folder only without it.
    folder = find_folder(named)
    if folder is None:
        if named is None:
            says = f"none: {ENVIRONMENT} is not set, and ./{DEFAULT_FOLDER} is not a dataset folder"
        elif named.count("/") == 1 and not named.startswith((".", "/", "~")):
            says = f"{named} on the Hub, by {ENVIRONMENT}"
        else:
            says = f"none: {ENVIRONMENT} is {named}, which is not a dataset folder"
        return {"environment": named, "folder": None, "splits": {}, "says": says}
    says, splits = f"{folder}, by {ENVIRONMENT if named else f'default (./{DEFAULT_FOLDER})'}", {}
    try:
        splits = {name: entry["questions"] for name, entry in read_manifest(folder)["splits"].items()}
    except UserError as error:
        says += f": {error.message}"
    return {"environment": named, "folder": str(folder), "splits": splits, "says": says}


def _caches() -> Iterator[dict[str, Any]]:
    """Yield the folders that this and the libraries beneath keep things in, with their sizes in bytes."""
    from huggingface_hub import constants

    from generation.tokenizer import cache_dir

    home = Path(constants.HF_HOME) / "personamem"
    places = {"datasets and memories made here": home, "the tokenizer's vocabulary": cache_dir()}
    with suppress(OSError):
        for folder in sorted(Path(constants.HF_HUB_CACHE).glob("datasets--*")):
            if any(folder.glob("snapshots/*/manifest.json")) or folder.name.endswith(_OFFICIAL):
                places["/".join(folder.name.split("--")[1:]) + " of the Hub"] = folder
    for what, folder in places.items():
        yield {"what": what, "folder": str(folder), "bytes": _size(folder)}


_OFFICIAL: Final = ("--PersonaMem", "--PersonaMem-v1")


def _size(folder: Path) -> int:
    """Return the bytes of all files in a folder; links are not followed, and what cannot be read counts nothing."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.lstat(Path(parent, name)).st_size
    return total


def _disks() -> Iterator[dict[str, Any]]:
    """Yield the free and all bytes where people work, and where caches lie."""
    from huggingface_hub import constants

    for what, folder in {"the current folder": Path(), "the Hub's cache": Path(constants.HF_HOME)}.items():
        with suppress(OSError):
            usage = shutil.disk_usage(next(path for path in (folder, *folder.parents) if path.is_dir()))
            yield {"what": what, "folder": str(folder), "free": usage.free, "total": usage.total}


def _paragraphs(found: Mapping[str, Any]) -> Iterator[str]:
    installed = found["personamem"]
    where = f"checkout {installed['checkout']}" if installed["checkout"] else "an installed package"
    own = f"personamem {installed['version'] or '(not installed)'}, {where}, Python {installed['python']}"
    others = [f"{name} {version or 'not installed'}" for name, version in installed["libraries"].items()]
    yield f"{own}\n" + "\n".join(_lines(others))
    yield _extras_text(found["extras"])
    data = found["data"]
    splits = ", ".join(f"{name} ({count:,} questions)" for name, count in data["splits"].items())
    yield f"Dataset, where a command is given none:\n  {data['says']}" + (f"\n  splits: {splits}" if splits else "")
    yield "Cached:\n" + "\n".join(
        f"  {_amount(cache['bytes']):>9}  {cache['what']}: {cache['folder']}" for cache in found["caches"]
    )
    yield "Free disk:\n" + "\n".join(f"  {_amount(disk['free']):>9}  {disk['what']}" for disk in found["disks"])


def _extras_text(extras: Sequence[Mapping[str, Any]]) -> str:
    if not extras:
        return "Extras: unknown, since personamem is not installed: pip install -e ."
    lines = ["Extras:"]
    for extra in extras:
        state = "ready" if not extra["missing"] else "missing"
        lines.append(f"  {extra['name']:14} {state:8} {extra['purpose']}")
        if extra["missing"]:
            lines += (f"{'':17}{line.strip()}" for line in _lines([f"needs {', '.join(extra['missing'])}"]))
    if any(extra["missing"] for extra in extras):
        lines.append(f"To add one: {install_hint('NAME')}")
    return "\n".join(lines)


def _lines(parts: Sequence[str]) -> list[str]:
    from textwrap import wrap

    return wrap(", ".join(parts), 60, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)


def _amount(size: int) -> str:
    value, unit = float(size), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
