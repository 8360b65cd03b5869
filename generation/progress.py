"""Progress of long work, on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sized
from typing import Final, TypeVar

Item = TypeVar("Item")

_QUIET_SECONDS: Final = 2.0
_LINE_SECONDS: Final = 10.0


def track(items: Iterable[Item], what: str, total: int | None = None) -> Iterator[Item]:
    """Yield items, showing progress once the work has lasted two seconds.

    A terminal gets a bar with the time left; anything else a plain line every ten seconds.

    Args:
        items: What is worked through.
        what: What the work is, e.g. `counting tokens`.
        total: How many items there are; needed where `items` has no length.
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
        for item in items:
            yield item
            progress.advance(task)


def _lines(items: Iterator[Item], what: str, done: int, total: int) -> Iterator[Item]:
    last = time.monotonic()
    for done, item in enumerate(items, start=done + 1):  # noqa: B020 (continues the count)
        yield item
        if time.monotonic() - last > _LINE_SECONDS:
            last = time.monotonic()
            sys.stderr.write(f"{what}: {done} of {total}\n")
