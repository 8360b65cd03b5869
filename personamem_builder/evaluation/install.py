"""Putting the task files into the installed lm_eval, for its plain command line."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from generation.errors import UserError
from generation.resources import data_dir, install_hint

_FOLDER: Final = "personamem"
_MARK: Final = "_installed_by_personamem"


def install_tasks() -> Path:
    """Copy the task files into `lm_eval/tasks/personamem`, replacing an earlier copy of ours, and return that folder.

    Raises:
        UserError: lm-eval is not installed, its folder cannot be written, or it has such a folder of its own.
    """
    target = _target()
    if target.exists():
        _check_ours(target)
        shutil.rmtree(target)
    try:
        shutil.copytree(data_dir("lm_eval_tasks"), target)
        (target / _MARK).touch()
    except OSError as error:
        raise UserError(
            f"{target} cannot be written: {error}", 'use lm_eval --include_path "$(personamem tasks path)"'
        ) from error
    return target


def uninstall_tasks() -> Path | None:
    """Remove what `install_tasks` made, and return the folder; None if there was none.

    Raises:
        UserError: lm-eval is not installed, or the folder is not ours.
    """
    target = _target()
    if not target.exists():
        return None
    _check_ours(target)
    shutil.rmtree(target)
    return target


def _target() -> Path:
    spec = find_spec("lm_eval")
    if spec is None or not spec.submodule_search_locations:
        raise UserError("lm-eval is not installed", install_hint("eval"))
    return Path(next(iter(spec.submodule_search_locations))) / "tasks" / _FOLDER


def _check_ours(target: Path) -> None:
    if not (target / _MARK).exists():
        raise UserError(f"{target} was not made by personamem tasks install", "look at it and remove it by hand")
