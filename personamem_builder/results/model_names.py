"""What models are called: a local one by the last part of its path, since paths are long and nobody else's business."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_ADAPTER: Final = " + "
_LOCAL: Final = re.compile(r"(?:[^/\\]+/)?(?:/|~|\.{1,2}[/\\]|[A-Za-z]:[/\\])")
"""How a path begins; Inspect has the kind of model before it, as in `hf//home/me/model`."""


def ends_of(model: str) -> list[str]:
    """Return what a model may be called, the shortest first: the ends of its path, if it is one, and the whole name.

    Of a model with adapters (`BASE + ADAPTER`) each part is shortened.
    """
    parts = [_steps(part) for part in model.split(_ADAPTER)]
    ends = [_ADAPTER.join("/".join(steps[-count:]) for steps in parts) for count in range(1, max(map(len, parts)) + 1)]
    return list(dict.fromkeys([*ends, model]))


def _steps(name: str) -> list[str]:
    """Return the parts of a path; a name that is none is one part."""
    if not _LOCAL.match(name):
        return [name]
    return [step for step in re.split(r"[/\\]+", name) if step not in ("", ".", "..")] or [name]


def short_names(models: Iterable[str]) -> dict[str, str]:
    """Return for each model the shortest of its ends that no other model ends with; names are never the same twice."""
    ends = {model: ends_of(model) for model in models}
    names = {}
    for model, own in ends.items():
        others = {end for other, theirs in ends.items() if other != model for end in theirs}
        names[model] = next((end for end in own if end not in others), model)
    return names
