"""Calls with a time limit: a memory system lives in a thread of its own, which is left behind when it hangs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any


class Hung(Exception):
    """A call did not end in time; its worker is of no further use."""


class Worker:
    """A thread that makes one call after the other.

    All calls to a system, its making included, are made from one thread: some libraries insist on that. Python cannot
    end a thread, so one that hangs is left behind; it does not keep the program from ending.
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()
        self._results: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
        threading.Thread(target=self._work, daemon=True).start()

    def call(self, function: Callable[[], Any], timeout: float) -> Any:
        """Return what a call returns, or raise what it raises.

        Raises:
            Hung: It did not end within `timeout` seconds.
        """
        self._calls.put(function)
        try:
            result, error = self._results.get(timeout=timeout)
        except Empty:
            raise Hung(f"it did not end in {timeout:g} s") from None
        if error is not None:
            raise error
        return result

    def close(self) -> None:
        """End the thread once its last call has ended."""
        self._calls.put(None)

    def _work(self) -> None:
        while (function := self._calls.get()) is not None:
            try:
                self._results.put((function(), None))
            except BaseException as error:  # whatever a system does, SystemExit too, is no reason to end the run
                self._results.put((None, error))
