"""Progress of long work, on stderr."""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import Final, TextIO, TypeVar

from generation.wrapped_stream import WrappedStream

Item = TypeVar("Item")

_QUIET_SECONDS: Final = 2.0
_LINE_SECONDS: Final = 10.0
_SILENT_SECONDS: Final = {True: 8.0, False: 50.0}
"""How long a command may say nothing, on a terminal and elsewhere: less than the 10 and 60 that are promised."""
_LOOK_SECONDS: Final = 0.5


class _LastShown:
    """When something was last shown, and how many bars are on the screen; of the whole process."""

    at = float("-inf")
    bars = 0


def track(items: Iterable[Item], what: str, total: int | None = None) -> Iterator[Item]:
    """Yield items, showing progress once the work has lasted two seconds; without a length they need a total.

    A terminal gets a bar with the time left; anything else a plain line every ten seconds.
    """
    start = time.monotonic()
    if total is None:
        assert isinstance(items, Sized), "give the total of items without a length"
        total = len(items)
    iterator = iter(items)
    done = 0
    for item in iterator:
        yield item
        done += 1
        if time.monotonic() - start > _QUIET_SECONDS:
            break
    show = _bar if sys.stderr.isatty() else _lines
    yield from show(iterator, what, done, total)


def _bar(items: Iterator[Item], what: str, done: int, total: int) -> Iterator[Item]:
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, completed=done, total=total)
        _LastShown.bars += 1
        try:
            for item in items:
                yield item
                progress.advance(task)
        finally:
            _LastShown.bars -= 1
            _LastShown.at = time.monotonic()


def _lines(items: Iterator[Item], what: str, done: int, total: int) -> Iterator[Item]:
    last = time.monotonic()
    for done, item in enumerate(items, start=done + 1):  # noqa: B020 (continues the count)
        yield item
        if time.monotonic() - last > _LINE_SECONDS:
            last = _LastShown.at = time.monotonic()
            sys.stderr.write(f"{what}: {done} of {total}\n")


def bars_as_lines() -> None:
    """Make the progress bars of all libraries, where stderr is no terminal, a line every ten seconds."""
    stream: TextIO | None = vars(sys)["stderr"]  # None where it was closed
    if stream is not None and not stream.isatty():
        sys.stderr = BarsAsLines(stream)


class BarsAsLines(WrappedStream):
    """A text stream for files and pipes that passes on all but bars, of which it makes a line now and then.

    A bar, as tqdm writes it, is a text that begins with a carriage return, to stand where the last one stood. One that
    is done within ten seconds leaves nothing.
    """

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(stream)
        self._clock = clock
        self._bar = ""
        self._last_line = 0.0
        self._was_shown = False

    def write(self, text: str, /) -> int:
        """Take a text, or the new state of a bar."""
        with self._lock:
            state = _MOVES.sub("", text)
            if state.startswith("\r") and not state.startswith("\r\n"):
                if not self._bar:
                    self._last_line, self._was_shown = self._clock(), False
                self._bar = state.strip() or self._bar
                if self._clock() - self._last_line > _LINE_SECONDS:
                    self._show()
                return len(text)
            if self._bar and self._was_shown:
                self._show()
            ends_bar, self._bar = bool(self._bar) and not state.strip(), ""
            if not ends_bar:
                self._stream.write(text)
        return len(text)

    def _show(self) -> None:
        self._stream.write(f"{self._bar}\n")
        self._last_line, self._was_shown = self._clock(), True


_MOVES: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
"""What moves the cursor of a terminal, or sets a colour."""


class Waiting:
    """Says on stderr that an endpoint is being waited for, whenever nothing else was shown for a while.

    Args:
        whom: What is waited for, e.g. a host.
        clock: Tells the seconds.
        more: Tells how far the work is; an empty text for nothing to tell.
    """

    def __init__(
        self, whom: str, clock: Callable[[], float] = time.monotonic, more: Callable[[], str] = lambda: ""
    ) -> None:
        self._whom, self._clock, self._more = whom, clock, more
        self._lock = threading.Lock()
        self._under_way = 0
        self._retries = 0
        self._next = float("-inf")
        self._since = clock()
        self._thread: threading.Thread | None = None

    @contextmanager
    def call(self) -> Iterator[None]:
        """Count a call, with all its tries, as under way until the end of the block."""
        with self._lock:
            if not self._under_way:
                self._since = self._clock()
            self._under_way += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                self._under_way -= 1

    def retry(self, seconds: float) -> None:
        """Note that a call is tried again after so many seconds."""
        with self._lock:
            self._retries += 1
            now = self._clock()
            self._next = min(self._next, now + seconds) if self._next > now else now + seconds

    def line(self) -> str:
        """Return what there is to say."""
        with self._lock:
            now = self._clock()
            parts = [f"waiting for {self._whom}", f"{_counted(self._under_way, 'request')} under way"]
            if self._retries:
                parts.append(_counted(self._retries, "retry", "retries"))
            if self._next > now:
                parts.append(f"next in {self._next - now:.0f} s")
        return ", ".join([*parts, *filter(None, [self._more()])])

    def is_due(self) -> bool:
        """Say whether nothing was shown for so long that a line is due."""
        with self._lock:
            silent_since = max(_LastShown.at, self._since)
            allowed = _SILENT_SECONDS[sys.stderr.isatty()]
            return bool(self._under_way) and not _LastShown.bars and self._clock() - silent_since >= allowed

    def _watch(self) -> None:
        while True:
            time.sleep(_LOOK_SECONDS)
            if self.is_due():
                _LastShown.at = self._clock()
                sys.stderr.write(f"{self.line()}\n")
                sys.stderr.flush()
            with self._lock:
                if not self._under_way:
                    self._thread = None
                    return


def _counted(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"
