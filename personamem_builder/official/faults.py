"""Faults of input files: collected first, reported together."""

from __future__ import annotations

from dataclasses import dataclass, field

from generation.errors import UserError

_SHOWN = 20
_VALUE_LENGTH = 80


@dataclass
class Faults:
    """The faults found so far; `raise_if_any` turns them into one error."""

    lines: list[str] = field(default_factory=list)

    def add(self, file: str, problem: str, *, row: int | None = None, column: str = "", value: object = None) -> None:
        """Note one fault; rows and lines count from 1 (in a CSV, that is the header), and long values are cut."""
        where = ", ".join(part for part in (f"row {row}" if row else "", f"column {column}" if column else "") if part)
        found = "" if value is None else f"{_short(value)}: "
        self.lines.append(f"{file}{' ' if where else ''}{where}: {found}{problem}")

    def raise_if_any(self) -> None:
        """Raise one error with all faults.

        Raises:
            UserError: There is at least one.
        """
        if not self.lines:
            return
        more = len(self.lines) - _SHOWN
        listed = "\n".join(f"  {line}" for line in self.lines[:_SHOWN]) + (f"\n  … and {more} more" if more > 0 else "")
        count = "1 fault" if len(self.lines) == 1 else f"{len(self.lines)} faults"
        raise UserError(f"{count} in the release, nothing was written\n{listed}", "mend or download the files again")


def is_text(value: str) -> bool:
    """Say whether a string can be written as UTF-8: half of a surrogate pair, which JSON can name, cannot."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _short(value: object) -> str:
    try:
        text = repr(value)
    except RecursionError:
        text = f"a {type(value).__name__} within many others"
    return text if len(text) <= _VALUE_LENGTH else f"{text[: _VALUE_LENGTH - 1]}…"
