"""What the built-in systems that find text share: the units they keep, and their errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, get_args

from generation.errors import UserError
from personamem_builder.memory.sessions import spoken
from personamem_builder.memory.system import Memory, Session

if TYPE_CHECKING:
    import numpy.typing as npt

Unit = Literal["message", "session"]
UNITS: Final[tuple[Unit, ...]] = get_args(Unit)

_Unit = TypeVar("_Unit", bound=str)


def check_unit(unit: str, units: Sequence[_Unit]) -> _Unit:
    """Return a unit, or raise if a system has no such."""
    for known in units:
        if unit == known:
            return known
    raise UserError(f"unit={unit}: there is no such unit", f"use one of {', '.join(units)}")


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
