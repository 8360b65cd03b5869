"""Work in several processes, with results in the order of the tasks."""

from __future__ import annotations

import gc
import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")
S = TypeVar("S")


def process_pool(workers: int, start: Callable[..., None], *arguments: Any) -> ProcessPoolExecutor:
    """Return a pool of processes, which begin at once; each calls `start` first.

    Args:
        workers: How many processes.
        start: A function of a module, which keeps what the tasks need.
        *arguments: What it is called with; sent to each process once.
    """
    # Not `fork`: libraries that run threads, such as tiktoken, must not be forked.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, context, _start, (start, arguments))
    for _ in range(workers):  # it starts a process for a task: while they import, the caller may do something else
        pool.submit(os.getpid)
    return pool


def _start(start: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    start(*arguments)
    gc.freeze()  # what a worker holds from now on it holds to its end: not to be looked through again and again
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process when the parent is gone: one that was killed cannot tell its workers to stop."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def ordered_results(pool: Executor, ahead: int, function: Callable[[T], S], tasks: Iterable[T]) -> Iterator[S]:
    """Yield the result of each task, in order; few tasks and results are in memory at a time.

    Args:
        pool: Where they are worked off.
        ahead: How many tasks may be under way.
        function: What to do with a task; must be picklable where they are processes.
        tasks: May be a stream.
    """
    futures: deque[Future[S]] = deque()
    for task in tasks:
        futures.append(pool.submit(function, task))
        if len(futures) >= ahead:
            yield futures.popleft().result()
    while futures:
        yield futures.popleft().result()
