"""The command line as a person runs it, within this process."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from personamem_builder.cli import main


class Outcome(NamedTuple):
    """How a command ended, and what it printed."""

    exit_code: int
    out: str
    err: str


def personamem(*arguments: str | Path) -> Outcome:
    """Run `personamem ARGUMENTS…`."""
    out, err = io.StringIO(), io.StringIO()
    code: object = 0
    with patch.object(sys, "argv", ["personamem", *map(str, arguments)]), redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as exited:
            code = exited.code
    return Outcome(code if isinstance(code, int) else int(code is not None), out.getvalue(), err.getvalue())
