"""Work in the processes of a Ray cluster, behind the interface of `concurrent.futures`."""

from __future__ import annotations

import heapq
import itertools
import pickle
import queue
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Executor, Future
from concurrent.futures import wait as wait_for
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from generation.errors import UserError
from generation.interruption import CALLS_SECONDS, is_stopping
from generation.ray_cluster import one_line
from generation.ray_spool import Sent, Spool
from generation.ray_worker import Setup, Worker, code_digest, unpacked

if TYPE_CHECKING:
    from ray import ObjectRef
    from ray.actor import ActorHandle

T = TypeVar("T")

MAX_RETRIES: Final = 3
"""How often a task is begun again whose process, or machine, was lost."""


class LostTask(UserError):
    """A task whose process, or machine, was lost as often as it was begun."""


_AHEAD: Final = 2  # tasks at a worker with one thread: the next one is there when the first is done
_LOOK_SECONDS: Final = 10.0  # between looks for machines that have come to the cluster
_PAUSE_SECONDS: Final = 0.5  # after processes that were lost before they had begun; twice as long each time


class RayPool(Executor):
    """Processes of the cluster that this one is connected to, started alike: one for each of its CPUs.

    They come and go with its machines. Tasks of a process that is lost are begun again in another one; an error that a
    task raises is its result.

    Args:
        start: A function of a module, called in each process before its tasks.
        arguments: Its arguments; they are sent to each machine once.
        at_once: Tasks that wait for something else than a CPU, such as a language model, and how many of them may be
            under way in the whole cluster; None for tasks that take a CPU each.
        visible: Folders that tasks read.
        spool: A folder that all machines share, for large arguments and results.
        processes: How many processes at most.
        retries: How often a task is begun again whose process ended, though its machine is still there.

    Attributes:
        workers: Processes that the cluster has room for when it is made.
    """

    def __init__(
        self,
        start: Callable[..., None],
        *arguments: Any,
        at_once: int | None = None,
        visible: Sequence[Path] = (),
        spool: Path | None = None,
        processes: int | None = None,
        retries: int = MAX_RETRIES,
    ) -> None:
        import ray

        self._at_once = at_once
        self._most = processes
        self._retries = retries
        self._spool = Spool(spool and spool.absolute())
        folders = [path.absolute() for path in (*visible, *([spool] if spool else []))]
        code = {name: code_digest(name) for name in (__package__, start.__module__.partition(".")[0])}
        self._setup = ray.put(pickle.dumps(Setup(start, arguments, Path.cwd(), folders, self._spool, code)))
        self.workers = max(1, self._room())
        threads = 1 if at_once is None else -(-at_once // self.workers)
        self._each = _AHEAD if at_once is None else threads
        self._kind = ray.remote(Worker).options(
            num_cpus=1 if at_once is None else 0, max_concurrency=threads, scheduling_strategy="SPREAD"
        )
        self._workers: list[_Process] = []
        self._pending: list[tuple[int, _Job]] = []
        self._under_way: set[Future[Any]] = set()
        self._numbers = itertools.count()
        self._events: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._broken: BaseException | None = None
        self._rounds = 0
        self._lost_rounds: set[int] = set()
        self._next_look = self._next_word = time.monotonic() + _LOOK_SECONDS
        self._is_over = False
        self._grow()
        self._thread = threading.Thread(target=self._dispatch, daemon=True)
        self._thread.start()

    def submit(self, function: Callable[..., T], /, *arguments: Any, **named: Any) -> Future[T]:
        """Have a function of a module called in one of the processes."""
        job = _Job(Future(), self._spool, self._spool.put(pickle.dumps((function, arguments, named))))
        with self._lock:
            if self._is_over:
                raise RuntimeError("the pool was shut down")
            heapq.heappush(self._pending, (next(self._numbers), job))
            self._under_way.add(job.future)
        job.future.add_done_callback(self._under_way.discard)
        self._events.put(_nothing)
        return job.future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes: after their tasks, or where the user interrupts, with a few seconds for paid calls."""
        import ray

        with self._lock:
            if self._is_over:
                return
            self._is_over = True
            under_way = list(self._under_way)
            if cancel_futures or is_stopping():
                for _, job in self._pending:
                    job.cancel()
                self._pending.clear()
        if is_stopping():
            wait_for(under_way, CALLS_SECONDS if self._at_once else 0)
        elif wait:
            wait_for(under_way)
        self._events.put(self._stop)
        self._thread.join(CALLS_SECONDS)
        for worker in self._workers:
            with suppress(ray.exceptions.RayError, ValueError):
                ray.kill(worker.handle)

    # What follows runs in one thread, which alone knows who does what.

    def _dispatch(self) -> None:
        try:
            while True:
                with suppress(queue.Empty):
                    self._events.get(timeout=max(0.0, self._next_look - time.monotonic()))()
                if time.monotonic() >= self._next_look:
                    self._look()
                self._hand_out()
        except _Stopped:
            return
        except BaseException as error:  # such as a cluster that is gone
            self._break(error)
            for future in list(self._under_way):
                if not future.done():
                    future.set_exception(error)

    def _look(self) -> None:
        now = time.monotonic()
        self._next_look = now + _LOOK_SECONDS
        self._grow()
        if now >= self._next_word:
            self._next_word = now + _LOOK_SECONDS
            if self._pending and not any(worker.is_ready for worker in self._workers):
                sys.stderr.write("waiting for the cluster, none of whose processes has begun yet\n")

    @staticmethod
    def _stop() -> None:
        raise _Stopped

    def _room(self) -> int:
        room = cluster_cpus()
        return min(most for most in (room, self._at_once, self._most) if most is not None)

    def _grow(self) -> None:
        """Ask for a process for each CPU that has none; one that there is no room for begins when there is."""
        self._rounds += 1
        while len(self._workers) < max(1, self._room()) and self._broken is None:
            worker = _Process(self._kind.remote(), self._rounds)
            self._workers.append(worker)
            self._when_done(worker.handle.begin.remote([self._setup]), partial(self._begun, worker))

    def _when_done(self, ref: ObjectRef[Any], then: Callable[[Future[Any]], None]) -> None:
        found: Future[Any] = ref.future()
        found.add_done_callback(lambda done: self._events.put(partial(then, done)))

    def _begun(self, worker: _Process, found: Future[Any]) -> None:
        import ray

        try:
            worker.node = unpacked(found.result())
            worker.is_ready = True
        except ray.exceptions.RayActorError as error:
            self._lost_rounds.add(worker.round)
            self._lose(worker)
            if self._is_hopeless():
                self._break(
                    UserError(
                        f"no process of the cluster could begin: {one_line(error)}",
                        "personamem, with its extra `ray`, has to be installed on all its machines",
                    )
                )
            # A machine that dies takes with it what is sent there until the cluster knows that it is gone.
            pause = min(_PAUSE_SECONDS * 2 ** len(self._lost_rounds), _LOOK_SECONDS)
            self._next_look = min(self._next_look, time.monotonic() + pause)
        except Exception as error:
            self._break(error)

    def _break(self, error: BaseException) -> None:
        """Have all tasks that are not under way yet, and those to come, fail."""
        with self._lock:
            self._broken = self._broken or error

    def _is_hopeless(self) -> bool:
        """Whether processes were lost again and again before they had begun, and none has begun or still may.

        Some may wait for a CPU for ever: after many losses they are not waited for.
        """
        if any(worker.is_ready for worker in self._workers):
            return False
        return len(self._lost_rounds) > MAX_RETRIES * (MAX_RETRIES if self._workers else 1)

    def _lose(self, worker: _Process) -> None:
        import ray

        if worker in self._workers:
            self._workers.remove(worker)
            with suppress(ray.exceptions.RayError, ValueError):
                ray.kill(worker.handle)  # one that could not be reached may be there again

    def _hand_out(self) -> None:
        while (worker := self._free()) is not None or self._broken is not None:
            worker = None if self._broken is not None else worker
            with self._lock:
                if not self._pending:
                    return
                number, job = heapq.heappop(self._pending)
            if job.losses == 0 and not job.future.set_running_or_notify_cancel():
                job.forget()
                continue
            if worker is None:
                job.fail(self._broken)
                continue
            worker.tasks += 1
            self._when_done(worker.handle.run.remote(job.call), partial(self._over, worker, number, job))

    def _free(self) -> _Process | None:
        ready = [worker for worker in self._workers if worker.is_ready and worker.tasks < self._each]
        if self._at_once is not None and sum(worker.tasks for worker in self._workers) >= self._at_once:
            return None
        return min(ready, key=lambda worker: worker.tasks, default=None)

    def _over(self, worker: _Process, number: int, job: _Job, found: Future[Any]) -> None:
        import ray

        worker.tasks -= 1
        try:
            sent = found.result()
            data = self._spool.get(sent)
            self._spool.remove(sent)
            job.finish(unpacked(data))
        except ray.exceptions.RayTaskError as error:  # such as a result that cannot be pickled
            job.fail(error)
        except ray.exceptions.RayError as error:
            job.losses += 1
            job.crashes += isinstance(error, ray.exceptions.ActorDiedError) and _is_alive(worker.node)
            self._lose(worker)
            self._grow()
            if job.losses > MAX_RETRIES or job.crashes > self._retries:
                times = f"begun {job.losses} times, and each time its" if job.losses > 1 else "begun, and its"
                job.fail(
                    LostTask(
                        f"a task was {times} process or machine was lost: {one_line(error)}",
                        "it may need more memory than a machine of the cluster has",
                    )
                )
                return
            with self._lock:
                heapq.heappush(self._pending, (number, job))
        except BaseException as error:
            job.fail(error)


def cluster_cpus() -> int:
    """Return how many CPUs the cluster has that this process is connected to."""
    import ray

    return int(ray.cluster_resources().get("CPU", 0))


def _is_alive(node: str) -> bool:
    import ray

    return any(known["NodeID"] == node and known["Alive"] for known in ray.nodes())


class _Stopped(Exception):
    """Ends the thread of a pool."""


def _nothing() -> None:
    """Wake the thread of a pool."""


class _Job:
    """A task: its call, pickled, and how often it was lost."""

    def __init__(self, future: Future[Any], spool: Spool, call: Sent) -> None:
        self.future = future
        self.call = call
        self._spool = spool
        self.losses = 0
        self.crashes = 0  # losses of a process whose machine lived on

    def finish(self, result: Any) -> None:
        self.forget()
        self.future.set_result(result)

    def fail(self, error: BaseException | None) -> None:
        self.forget()
        self.future.set_exception(error)

    def cancel(self) -> None:
        self.forget()
        if self.future.cancel():
            self.future.set_running_or_notify_cancel()
        else:  # it was begun, and lost
            self.future.set_exception(CancelledError())

    def forget(self) -> None:
        """Remove the file of the call, which nobody needs any more."""
        self._spool.remove(self.call)


class _Process:
    """A process of the cluster, as the pool knows it; `tasks` is how many it has, `round` when it was asked for."""

    def __init__(self, handle: ActorHandle[Worker], round: int) -> None:
        self.handle = handle
        self.round = round
        self.node = ""
        self.is_ready = False
        self.tasks = 0
