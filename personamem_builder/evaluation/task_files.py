"""Our lm-eval task files, read without lm-eval: for harnesses that ask the same with the same words."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml

from generation.resources import data_dir


class _Loader(yaml.SafeLoader):
    """Takes lm-eval's `!function NAME` for its text."""


_Loader.add_constructor("!function", lambda loader, node: str(node.value))

_INCLUDE: Final = "include"


def read_task_file(task: str) -> dict[str, Any]:
    """Return what the file of a task says, with what it includes; functions are names."""
    return _read(data_dir("lm_eval_tasks") / f"{task}.yaml")


def _read(path: Path) -> dict[str, Any]:
    own: dict[str, Any] = yaml.load(path.read_text(encoding="utf-8"), _Loader)
    included = own.pop(_INCLUDE, None)
    return {**(_read(path.parent / included) if included else {}), **own}
