"""What is installed: versions, and which extras of this distribution can be used. No library is imported for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution, version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_OURS = "personamem"


@dataclass(frozen=True)
class Extra:
    """An extra of the distribution.

    Attributes:
        name: As in `pip install personamem[NAME]`.
        missing: What it needs and is not installed, or is too old: `torch>=2.5`, `click>=9 (8.1 is installed)`.
    """

    name: str
    missing: tuple[str, ...]


def version_of(name: str) -> str | None:
    """Return the version of an installed distribution, by the name of it on the index; None where it is not there."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def extras() -> list[Extra]:
    """Return the extras of the installed distribution, in the order of its metadata; none where it is not installed."""
    try:
        metadata = distribution(_OURS).metadata
    except PackageNotFoundError:
        return []
    return [Extra(name, tuple(dict.fromkeys(_missing(name)))) for name in metadata.get_all("Provides-Extra") or ()]


def _missing(extra: str) -> Iterator[str]:
    for requirement in _requirements(extra):
        if requirement.name == _OURS:
            for other in sorted(requirement.extras):
                yield from _missing(other)
            continue
        found = version_of(requirement.name)
        wanted = f"{requirement.name}{requirement.specifier}"
        if found is None:
            yield wanted
        elif not requirement.specifier.contains(found, prereleases=True):
            yield f"{wanted} ({found} is installed)"


def _requirements(extra: str) -> Iterator[Requirement]:
    """Yield what an extra needs beside the distribution itself."""
    from packaging.requirements import Requirement

    for line in distribution(_OURS).requires or ():
        requirement = Requirement(line)
        marker = requirement.marker
        if marker is not None and not marker.evaluate({"extra": ""}) and marker.evaluate({"extra": extra}):
            yield requirement
