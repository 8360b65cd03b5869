"""Several histories at a time, each walked in a process of its own by a memory system of its own."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from generation.parallel import kill, spool_folder
from generation.ray_cluster import RayCluster, connected
from generation.ray_pool import LostTask, RayPool, cluster_cpus
from personamem_builder.memory.registry import find_system
from personamem_builder.memory.store import QuestionRecord, SessionRecord
from personamem_builder.memory.walk import ContextWalk
from personamem_builder.schema import ContextRow, QuestionRow

CRASHED: Final = "crashed: the process of this history ended before the history did"
"""The error of questions whose memory system took its process down, or that the system killed for its memory."""

_LEAVE_SECONDS: Final = 10.0
"""How long a process stays that is done, but whose memory system runs threads which do not end."""


class MakePool(Protocol):
    """Makes an executor, see `generation.parallel.process_pool`."""

    def __call__(self, workers: int, start: Any, *arguments: Any) -> Executor:
        """Make one with so many processes, each of which calls `start(*arguments)` first."""


@contextmanager
def cluster_pools(cluster: RayCluster, folder: Path, spool_in: Path) -> Iterator[tuple[int, MakePool]]:
    """Give how many histories a cluster can walk at a time, one for each of its CPUs, and what makes their processes.

    Args:
        cluster: The cluster.
        folder: The dataset folder, which all machines have to see.
        spool_in: The folder in which histories and results lie on their way.

    Raises:
        UserError: There is no such cluster, or the disk refuses.
    """
    with spool_folder(spool_in) as spool, connected(cluster):

        def make_pool(workers: int, start: Any, *arguments: Any) -> Executor:
            # A system that takes its process down would do so again, and be paid again; for the end of its machine it
            # cannot be blamed.
            visible, place = [folder], Path(spool)
            return RayPool(start, *arguments, visible=visible, spool=place, processes=workers, retries=0)

        yield max(1, cluster_cpus()), make_pool


class HistoryTask(NamedTuple):
    """All that a process needs to walk a history.

    Attributes:
        system: Name of the system.
        settings: Its settings.
        k: The most memories to ask for.
        timeout: Seconds that one session, or one question, may take.
        context: The history.
        rows: Its questions.
        sessions: The newest record of each session that an earlier run kept.
        questions: The same of each question.
        snapshot: The state of the system after so many sessions, where it was kept.
    """

    system: str
    settings: Mapping[str, Any]
    k: int
    timeout: float
    context: ContextRow
    rows: Sequence[QuestionRow]
    sessions: Sequence[SessionRecord]
    questions: Sequence[QuestionRecord]
    snapshot: tuple[int, bytes] | None


class HistoryResult(NamedTuple):
    """The new records of a history, in the order in which they came about."""

    sessions: list[SessionRecord]
    questions: list[QuestionRecord]


def walk_histories(
    workers: int, make_pool: MakePool, tasks: Iterable[HistoryTask]
) -> Iterator[tuple[str, HistoryResult]]:
    """Walk histories, so many at a time, and yield the context id and the result of each as it is finished.

    Each has an executor of one process: where a process ends by itself, no other history is lost with it. Those under
    way when the caller stops are ended.
    """
    left = iter(tasks)
    under_way: dict[Future[HistoryResult], tuple[Executor, HistoryTask]] = {}
    try:
        while True:
            for task in islice(left, workers - len(under_way)):
                pool = make_pool(1, _nothing)
                under_way[pool.submit(_walk, task)] = pool, task
            if not under_way:
                return
            for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                pool, task = under_way.pop(future)
                pool.shutdown(wait=False)
                yield task.context["shared_context_id"], _result(future, task)
    finally:
        for pool, _ in under_way.values():
            kill(pool)


def _nothing() -> None:
    """Prepare nothing: a process has one task, which says what it needs."""


def _result(future: Future[HistoryResult], task: HistoryTask) -> HistoryResult:
    try:
        return future.result()
    except (BrokenExecutor, LostTask):
        records = _HistoryRecords(task)
        lost = [row for row in task.rows if not records.is_answered(row["question_id"])]
        return HistoryResult([], [_crashed(row) for row in lost])


def _crashed(row: QuestionRow) -> QuestionRecord:
    return {
        "question_id": row["question_id"],
        "persona_id": row["persona_id"],
        "shared_context_id": row["shared_context_id"],
        "end": row["end_index_in_shared_context"],
        "memories": [],
        "tokens": 0,
        "seconds": 0.0,
        "error": CRASHED,
        "faults": [],
        "taint": [],
        "usage": {},
    }


def _walk(task: HistoryTask) -> HistoryResult:
    """Walk a history; in a process of its own."""
    records = _HistoryRecords(task)
    walk = ContextWalk(find_system(task.system, task.settings), task.k, task.timeout, records)
    walk.context(task.context, task.rows)
    walk.close()
    if multiprocessing.parent_process() is not None:
        leave = threading.Timer(_LEAVE_SECONDS, os._exit, [0])
        leave.daemon = True
        leave.start()
    return records.new


class _HistoryRecords:
    """The records of one history, in memory."""

    def __init__(self, task: HistoryTask) -> None:
        self._sessions = {record["first_index"]: record for record in task.sessions}
        self._questions = {record["question_id"]: record for record in task.questions}
        self._snapshot = task.snapshot
        self.new = HistoryResult([], [])

    @property
    def sessions(self) -> list[SessionRecord]:
        return list(self._sessions.values())

    def is_answered(self, question_id: str) -> bool:
        return question_id in self._questions and not self._questions[question_id]["error"]

    def add_session(self, line: SessionRecord) -> None:
        self._sessions[line["first_index"]] = line
        self.new.sessions.append(line)

    def add_question(self, line: QuestionRecord) -> None:
        self._questions[line["question_id"]] = line
        self.new.questions.append(line)

    def snapshot(self, context_id: str, sessions: int) -> bytes | None:
        return self._snapshot[1] if self._snapshot and self._snapshot[0] == sessions else None

    def save_snapshot(self, context_id: str, sessions: int, content: bytes) -> None:
        """Keep nothing: a history that is interrupted is begun anew."""

    def drop_snapshot(self) -> None:
        self._snapshot = None
