"""What the built-in systems that find text share: the units they keep, and their errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, cast, get_args

from generation.errors import UserError
from personamem_builder.memory.sessions import spoken
from personamem_builder.memory.system import Memory, Session

if TYPE_CHECKING:
    import numpy.typing as npt

Unit = Literal["message", "session"]
_UNITS: Final = get_args(Unit)


def check_unit(unit: str) -> Unit:
    """Return a unit, or raise if there is no such."""
    if unit in _UNITS:
        return cast(Unit, unit)
    raise UserError(f"unit={unit}: there is no such unit", f"use one of {', '.join(_UNITS)}")


def units_of(session: Session, unit: Unit) -> list[Memory]:
    """Return what a session is kept as: its messages, or itself; not the user's profile, which is always shown."""
    said = [
        (i, message) for i, message in enumerate(session.messages, session.first_index) if message["role"] != "system"
    ]
    if unit == "message":
        return [Memory(spoken(message), session.date, (i,)) for i, message in said]
    if not said:
        return []
    return [Memory("\n\n".join(spoken(message) for _, message in said), session.date, tuple(i for i, _ in said))]


def best_units(units: Sequence[Memory], scores: npt.NDArray[Any], k: int) -> list[Memory]:
    """Return the `k` units with the highest score; of equal ones the later, since users change."""
    import numpy as np

    order = np.lexsort((-np.arange(len(scores)), -scores))
    return [units[i] for i in order[:k]]
