"""The one error type that is meant for people."""

from __future__ import annotations


class UserError(Exception):
    """Something the user can put right; the command line prints it without a traceback.

    Attributes:
        message: What is wrong, with the file, the row and the value where there are any.
        hint: What to do about it; may be empty.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message
