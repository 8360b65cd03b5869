"""Work in several processes or threads, with results in the order of the tasks."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from multiprocessing.context import SpawnContext, SpawnProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple, TypeVar

from generation.errors import UserError
from generation.interruption import CALLS_SECONDS, is_stopping
from generation.ray_cluster import RayCluster, connected
from generation.ray_pool import RayPool
from generation.redaction import hide_keys

T = TypeVar("T")
S = TypeVar("S")

MAX_WORKERS: Final = 256
"""Most processes that a command starts on this machine."""

Workers = int | RayCluster
"""Processes of this machine, or those of a cluster."""


class _Process(SpawnProcess):
    """A process that Ctrl-C in a terminal does not reach, not even while it starts: its parent ends it."""

    def start(self) -> None:
        if sys.platform == "win32":
            super().start()
            return
        # The process inherits what is blocked; a signal that comes meanwhile reaches this one afterwards.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            super().start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Context(SpawnContext):
    # Not `fork`: libraries that run threads, such as tiktoken, must not be forked.
    Process = _Process


class _Pool(ProcessPoolExecutor):
    """A pool that begins nothing more once it is shut down."""

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        super().shutdown(wait, cancel_futures=cancel_futures or is_stopping())


class WorkerPool(NamedTuple):
    """Processes that were started alike; `workers` of them work at a time."""

    executor: Executor
    workers: int


@contextmanager
def worker_pool(
    workers: Workers,
    start: Callable[..., None],
    *arguments: Any,
    visible: Sequence[Path] = (),
    spool_in: Path | None = None,
) -> Iterator[WorkerPool | None]:
    """Give a pool while the block lasts, or None where this process is to work alone: it has then been started.

    Args:
        workers: How many processes, or which cluster.
        start: A function of a module, called in each process before its tasks.
        arguments: Its arguments.
        visible: Folders that tasks read, which all machines of a cluster have to see.
        spool_in: The folder in which large results lie on their way from a cluster.

    Raises:
        UserError: There is no such cluster, one of its machines does not see a folder, or the disk refuses.
    """
    if workers == 1:
        start(*arguments)
        yield None
        return
    with ExitStack() as stack:
        if isinstance(workers, RayCluster):
            spool = spool_in and Path(stack.enter_context(spool_folder(spool_in)))
            stack.enter_context(connected(workers))
            cluster = RayPool(start, *arguments, visible=visible, spool=spool)
            pool = WorkerPool(cluster, cluster.workers)
        else:
            pool = WorkerPool(process_pool(workers, start, *arguments), workers)
        stack.callback(pool.executor.shutdown, cancel_futures=True)
        yield pool


def spool_folder(folder: Path) -> TemporaryDirectory[str]:
    """Return a folder in another for what is on its way to or from a cluster.

    Raises:
        UserError: The disk refuses.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return TemporaryDirectory(dir=folder, prefix=".ray-", ignore_cleanup_errors=True)
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error.strerror}") from error


def process_pool(workers: int, start: Callable[..., None], *arguments: Any) -> ProcessPoolExecutor:
    """Return a pool of processes, which begin at once; each calls `start`, a function of a module, before its tasks."""
    pool = _Pool(workers, _Context(), _start, (start, arguments))
    for _ in range(workers):  # it starts a process for a task: while they import, the caller may do something else
        pool.submit(os.getpid)
    return pool


def kill(pool: Executor) -> None:
    """Shut a pool down without waiting for what it is at: processes of `process_pool` are ended."""
    for process in list((getattr(pool, "_processes", None) or {}).values()):
        process.kill()
    pool.shutdown(wait=False, cancel_futures=True)


def _start(start: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    hide_keys()
    start(*arguments)
    gc.freeze()  # what a worker holds from now on it holds to its end: not to be looked through again and again
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process when the parent is gone: one that was killed cannot tell its workers to stop."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


@contextmanager
def calls_under_way(threads: int) -> Iterator[ThreadPoolExecutor]:
    """Give a pool of threads for calls that are paid for.

    Those that are under way when the block ends are waited for, so that their replies are kept; where the user
    interrupts it, for a few seconds only.
    """
    pool = _CallPool(threads)
    try:
        yield pool
    finally:
        pool.shutdown(wait=not is_stopping(), cancel_futures=True)
        if is_stopping():
            wait(list(pool.under_way), CALLS_SECONDS)


class _CallPool(ThreadPoolExecutor):
    """Knows its calls that have not ended."""

    def __init__(self, threads: int) -> None:
        super().__init__(threads)
        self.under_way: set[Future[Any]] = set()

    def submit(self, function: Callable[..., S], /, *arguments: Any, **named: Any) -> Future[S]:
        future = super().submit(function, *arguments, **named)
        self.under_way.add(future)
        future.add_done_callback(self.under_way.discard)
        return future


def ordered_results(pool: Executor, ahead: int, function: Callable[[T], S], tasks: Iterable[T]) -> Iterator[S]:
    """Yield the result of each task, in order; at most `ahead` of them are in memory at a time."""
    futures: deque[Future[S]] = deque()
    for task in tasks:
        futures.append(pool.submit(function, task))
        if len(futures) >= ahead:
            yield futures.popleft().result()
    while futures:
        yield futures.popleft().result()
