"""Running a memory system over a split: each context is taken in once, and questions are asked where they stand."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final

from generation.errors import UserError
from generation.parallel import Workers, process_pool
from generation.progress import track
from generation.ray_cluster import RayCluster
from personamem_builder.dataset.check import read_questions
from personamem_builder.dataset.contexts import iter_contexts
from personamem_builder.dataset.folder import context_files
from personamem_builder.manifest import read_manifest
from personamem_builder.memory.parallel import HistoryResult, HistoryTask, MakePool, cluster_pools, walk_histories
from personamem_builder.memory.registry import SystemSpec
from personamem_builder.memory.store import (
    MemoryStore,
    QuestionRecord,
    SessionRecord,
    about_run,
    opened_store,
    store_folder,
)
from personamem_builder.memory.walk import ContextWalk
from personamem_builder.schema import ContextRow, QuestionRow

DEFAULT_K: Final = 10
DEFAULT_TIMEOUT: Final = 600.0
MAX_K: Final = 1_000_000
MAX_TIMEOUT: Final = 1e6


def run_memory(
    folder: Path,
    split: str,
    spec: SystemSpec,
    k: int = DEFAULT_K,
    *,
    out: Path | None = None,
    contexts: Collection[str] | None = None,
    timeout: float = DEFAULT_TIMEOUT,
    workers: Workers = 1,
    make_pool: MakePool = process_pool,
) -> MemoryStore:
    """Have a memory system take in the contexts of a split and find what bears on each question.

    A context is walked once, session by session. At each point where questions stand, these are asked, then the walk
    goes on: what a system has not been shown cannot be asked of it. A session inside which a question stands is taken
    in piece by piece, see `cut_sessions`; in data made by this package questions stand at the ends of sessions.

    What was found before is not asked again; what the system failed at is, with all that came after it in that history.
    A run that was interrupted goes on after the last finished session; a system that cannot make snapshots is shown the
    earlier sessions of that context again.

    A system that fails at a session or a question, that hangs, or that returns what cannot be used, does not end the
    run: its failure is kept in place of its memories.

    With several workers so many histories are walked at a time, each in a process of its own with a system of its own.
    A process that ends by itself costs its history alone. What is stored is the same but for seconds, and in the same
    order; a history is kept once it is finished. A system that cannot be several (`SystemSpec.is_parallel`) walks one
    history after the other.

    Args:
        folder: A dataset folder.
        split: One of its splits.
        spec: The system.
        k: The most memories to ask for.
        out: Where the results go. By default into the cache, see `store_folder`.
        contexts: Only these shared contexts; by default all that have questions.
        timeout: Seconds that one session, or one question, may take.
        workers: How many histories are walked at a time; or the Ray cluster that walks one on each CPU.
        make_pool: Makes the executor of one process in which a history is walked, from arguments as those of
            `generation.parallel.process_pool`.

    Returns:
        The results, those of earlier runs on other contexts included.

    Raises:
        UserError: k is no positive number, the system cannot be made or reset, or the results cannot be written.
    """
    check_k(k)
    digest = read_manifest(folder)["digest"]
    asked: dict[str, list[QuestionRow]] = defaultdict(list)
    for row in read_questions(folder, split).to_pylist():
        if contexts is None or row["shared_context_id"] in contexts:
            asked[row["shared_context_id"]].append(row)
    with opened_store(out or store_folder(spec, k, split, digest), about_run(spec, k, split, digest)) as store:
        failed = {session["shared_context_id"] for session in store.sessions if session["error"]}
        open_ = {
            context_id: rows
            for context_id, rows in asked.items()
            if not all(store.is_answered(row["question_id"]) for row in rows)
            or context_id in failed
            or store.is_set_aside(context_id)
        }
        if open_:
            wanted = iter_contexts(*context_files(folder, split), wanted=open_)
            with ExitStack() as stack:
                walk = None  # one after the other, in this process
                if isinstance(workers, RayCluster):
                    if spec.is_parallel:
                        pools = stack.enter_context(cluster_pools(workers, folder, store.folder))
                        walk = partial(walk_histories, *pools)
                elif workers > 1 and spec.is_parallel:
                    walk = partial(walk_histories, workers, make_pool)
                walked = (
                    _walk_together(wanted, open_, spec, k, timeout, store, walk)
                    if walk
                    else _walk_in_turn(wanted, open_, spec, k, timeout, store)
                )
                for _ in track(walked, f"memory {spec.name}", len(open_)):
                    pass
    return store


def _walk_in_turn(
    contexts: Iterable[ContextRow],
    asked: Mapping[str, Sequence[QuestionRow]],
    spec: SystemSpec,
    k: int,
    timeout: float,
    store: MemoryStore,
) -> Iterator[str]:
    """Walk one context after the other in this process; yield the id of each."""
    walk: ContextWalk | None = None
    for context in contexts:
        context_id = context["shared_context_id"]
        if not store.take_back(context_id):  # several workers may have finished it in an earlier run
            walk = walk or ContextWalk(spec, k, timeout, store)
            walk.context(context, asked[context_id])
        yield context_id
    if walk is not None:
        walk.close()


def _walk_together(
    contexts: Iterable[ContextRow],
    asked: Mapping[str, Sequence[QuestionRow]],
    spec: SystemSpec,
    k: int,
    timeout: float,
    store: MemoryStore,
    walk: Callable[[Iterable[HistoryTask]], Iterator[tuple[str, HistoryResult]]],
) -> Iterator[str]:
    """Walk several contexts at a time; yield the id of each that is finished.

    What is finished is set aside, and joins the results once all contexts before it have.
    """
    in_order: deque[str] = deque()
    kept = _by_context(store)

    def tasks() -> Iterator[HistoryTask]:
        for context in contexts:
            context_id = context["shared_context_id"]
            in_order.append(context_id)
            if not store.is_set_aside(context_id):
                sessions, questions = kept.get(context_id, ([], []))
                yield HistoryTask(
                    system=spec.name,
                    settings=spec.settings,
                    k=k,
                    timeout=timeout,
                    context=context,
                    rows=asked[context_id],
                    sessions=sessions,
                    questions=questions,
                    snapshot=store.snapshot_of(context_id),
                )

    for context_id, result in walk(tasks()):
        store.set_aside(context_id, *result)
        while in_order and store.take_back(in_order[0]):
            yield in_order.popleft()
    while in_order and store.take_back(in_order[0]):
        yield in_order.popleft()


def _by_context(store: MemoryStore) -> dict[str, tuple[list[SessionRecord], list[QuestionRecord]]]:
    kept: dict[str, tuple[list[SessionRecord], list[QuestionRecord]]] = {}
    for session in store.sessions:
        kept.setdefault(session["shared_context_id"], ([], []))[0].append(session)
    for question in store.questions.values():
        kept.setdefault(question["shared_context_id"], ([], []))[1].append(question)
    return kept


def read_split(folder: Path, split: str) -> tuple[list[QuestionRow], list[ContextRow]]:
    """Return the questions and the shared contexts of a split."""
    rows: list[QuestionRow] = read_questions(folder, split).to_pylist()
    contexts: list[Any] = list(iter_contexts(*context_files(folder, split)))
    return rows, contexts


def check_k(k: Any) -> int:
    """Return k.

    Raises:
        UserError: It is no whole number from 1 to `MAX_K`.
    """
    if not isinstance(k, int) or isinstance(k, bool) or k < 1:
        raise UserError(f"k={k!r}: a memory system is asked for one memory or more", "give a whole number, such as 10")
    if k > MAX_K:
        raise UserError(f"k={k}: a memory system is asked for {MAX_K:,} memories at most", "such as 10")
    return k
