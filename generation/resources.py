"""Where the data folders (`templates`, `lm_eval_tasks`, `hub_card`) lie."""

from __future__ import annotations

from pathlib import Path

from generation.errors import UserError

_ROOT = Path(__file__).resolve().parent.parent


def data_dir(name: str) -> Path:
    """Return a data folder of the distribution.

    In a wheel the folders are inside `personamem_builder/_data/`; in a checkout (and an editable install) they
    are at the top of the tree.

    Args:
        name: `templates`, `lm_eval_tasks` or `hub_card`.

    Raises:
        UserError: The installation lacks the folder.
    """
    for candidate in (_ROOT / "personamem_builder" / "_data" / name, _ROOT / name):
        if candidate.is_dir():
            return candidate
    raise UserError(
        f"this installation of personamem has no folder {name!r}",
        "reinstall: pip install --force-reinstall personamem",
    )
