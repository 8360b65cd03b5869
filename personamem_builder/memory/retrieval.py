"""What the built-in systems that find text share: the units they keep, and their errors."""

from __future__ import annotations

from typing import Final, Literal, cast, get_args

from generation.errors import UserError
from generation.resources import install_hint
from personamem_builder.memory.history import spoken
from personamem_builder.memory.system import Memory, Session

Unit = Literal["message", "session"]
_UNITS: Final = get_args(Unit)


def check_unit(unit: str) -> Unit:
    """Return a unit.

    Raises:
        UserError: There is no such unit.
    """
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


def missing_extra(system: str, error: ModuleNotFoundError, extra: str) -> UserError:
    """Return the error for a system whose library is not installed."""
    return UserError(f"the memory system {system} needs {error.name}, which is not installed", install_hint(extra))
