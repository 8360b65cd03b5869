"""The command line as a person runs it: within this process, or as a process where that is the point."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from small_runs import CLI

from personamem_builder.cli import main

ROOT = Path(__file__).parents[1]


class Outcome(NamedTuple):
    """How a command ended, and what it printed."""

    exit_code: int
    out: str
    err: str


Run = Callable[..., Outcome]
"""`personamem`, or a part of it."""


def personamem(*arguments: object, **env: str) -> Outcome:
    """Run `personamem ARGUMENTS…` in this process, with more variables in the environment.

    The terminal is wide, so that tables come whole, unless `COLUMNS` says otherwise.
    """
    # Streams with an encoding, as real ones are.
    out, err = (
        io.TextIOWrapper(io.BytesIO(), "utf-8", errors=errors, newline="") for errors in ("strict", "backslashreplace")
    )
    code: object = 0
    with (
        patch.object(sys, "argv", ["personamem", *map(str, arguments)]),
        patch.dict(os.environ, {"COLUMNS": "200"} | env),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as exited:
            code = exited.code
    return Outcome(code if isinstance(code, int) else int(code is not None), _text(out), _text(err))


def _text(stream: io.TextIOWrapper[io.BytesIO]) -> str:
    stream.flush()
    return stream.buffer.getvalue().decode()


def typed(command: str) -> Outcome:
    """Run what a command printed as the next one, after `next: personamem`."""
    assert command.startswith("next: personamem "), command
    return personamem(*command.removeprefix("next: personamem ").split())


def fails(outcome: Outcome, message: str, hint: str | None = None) -> None:
    """Check that a command ended with one error for people, which begins like this, and printed no data."""
    assert (outcome.exit_code, outcome.out) == (1, "")
    _, found, error = f"\n{outcome.err}".rpartition("\nerror: ")
    assert found, outcome.err
    assert error.startswith(message), error
    assert hint is None or f"\nhint: {hint}" in error, error
    assert "Traceback" not in outcome.err


class Started:
    """`personamem` in a session of its own, as a terminal gives it one."""

    def __init__(self, folder: Path, *arguments: object, **env: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", CLI, *map(str, arguments)],
            cwd=folder,
            env={k: v for k, v in os.environ.items() if not k.startswith("PERSONAMEM_")}
            | {"PYTHONPATH": str(ROOT)}
            | env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def wait_for(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + 60
        while not condition():
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < end
            time.sleep(0.005)

    def send(self, number: int, *, to_group: bool) -> None:
        (os.killpg if to_group else os.kill)(self.process.pid, number)

    def ends(self, seconds: float = 30) -> Outcome:
        out, err = self.process.communicate(timeout=seconds)
        return Outcome(self.process.returncode, out, err)

    def leaves_nobody(self) -> bool:
        end = time.monotonic() + 10
        while time.monotonic() < end:
            try:
                os.killpg(self.process.pid, 0)
            except ProcessLookupError:
                return True
            time.sleep(0.02)
        return False


@contextmanager
def started(folder: Path, *arguments: object, **env: str) -> Iterator[Started]:
    """Start `personamem ARGUMENTS…` in a folder; it is killed at the end of the block."""
    command = Started(folder, *arguments, **env)
    try:
        yield command
    finally:
        with suppress(ProcessLookupError):
            os.killpg(command.process.pid, signal.SIGKILL)
        command.process.communicate()
