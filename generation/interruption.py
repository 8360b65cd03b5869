"""Ctrl-C and SIGTERM: what was under way is put in order, and the user is told what is kept."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

CALLS_SECONDS: Final = 5.0
"""How long an interruption waits for calls under way, whose replies are paid for."""

_stopping = threading.Event()


class Interruption(KeyboardInterrupt):
    """The user, or the system, wants the program to end.

    It is a `KeyboardInterrupt` so that whoever lets that pass lets this pass too.
    """

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signum = signum


@contextmanager
def interruptible() -> Iterator[None]:
    """Let SIGINT and SIGTERM end the block with `Interruption`, and a third of them end the process at once.

    A signal that the process was started to ignore, as with `nohup`, stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    count = 0

    def stop(signum: int, frame: FrameType | None) -> None:
        nonlocal count
        count += 1
        _stopping.set()
        if count > 2:
            os._exit(128 + signum)
        raise Interruption(signum)

    before = {
        number: signal.signal(number, stop)
        for number in (signal.SIGINT, signal.SIGTERM)
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        _stopping.clear()
        for number, handler in before.items():
            signal.signal(number, handler)


def is_stopping() -> bool:
    """Say whether a signal is ending the program."""
    return _stopping.is_set()


@contextmanager
def kept_if_interrupted(what: str) -> Iterator[None]:
    """Say what is kept, and how to go on, where the block is interrupted: what follows `interrupted: `."""
    try:
        yield
    except KeyboardInterrupt as stopped:
        stopped.add_note(what)
        raise


def kept(stopped: BaseException) -> str:
    """Return what the innermost `kept_if_interrupted` said; nothing if there was none."""
    notes: list[str] = getattr(stopped, "__notes__", [])
    return notes[0] if notes else ""
