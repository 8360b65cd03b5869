"""Memory systems on the 32k split: each history taken in once or for every question, and by one worker or by two.

Both sides run `bm25` with k = 10 in this process, with all libraries loaded:
  once     `run_memory`: each context is walked once, questions are asked where they stand, results are written
  rebuild  for every question a new system takes in all sessions before it and is asked once; nothing is written
Rebuilding is timed on some contexts only, and counted on all. BM25 takes no time to take in a session: with a system
that calls a language model for each, the sessions taken in are the time.

Two workers against one run a system that waits for each session, as it would for a language model; a process for each
history takes its time too. The ratio is what is left of the time.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support.measure import Target, conclude, interleave, median_ratio, print_table, release_arguments, spread

if TYPE_CHECKING:
    from personamem_builder.memory.system import Memory, Session

_QUICK_CONTEXTS = 4
_WAITED_FOR = {True: 4, False: 12}
"""Histories that one and two workers walk, quickly or not."""
_SECONDS_A_SESSION = 0.5
K = 10


def main() -> None:
    """Measure and print."""
    args = release_arguments(__doc__)
    from personamem_builder.build.from_official import import_release
    from personamem_builder.dataset.check import read_questions
    from personamem_builder.dataset.contexts import iter_contexts
    from personamem_builder.dataset.folder import context_files
    from personamem_builder.memory.sessions import cut_sessions

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "personamem"
        import_release(args.release, folder)
        rows = read_questions(folder, "32k").to_pylist()
        contexts = list(iter_contexts(*context_files(folder, "32k")))
        asked: dict[str, list[Any]] = {context["shared_context_id"]: [] for context in contexts}
        for row in rows:
            asked[row["shared_context_id"]].append(row)
        counts = {"sessions": [0, 0], "messages": [0, 0], "calls": [0, 0]}
        for context in contexts:
            questions = asked[context["shared_context_id"]]
            walk = cut_sessions(context, [row["end_index_in_shared_context"] for row in questions])
            alone = [cut_sessions(context, [row["end_index_in_shared_context"]]) for row in questions]
            for i, sides in enumerate(([walk], alone)):
                counts["sessions"][i] += sum(len({session.number for session in side}) for side in sides)
                counts["messages"][i] += sum(len(session.messages) for side in sides for session in side)
                counts["calls"][i] += sum(map(len, sides))
        some = contexts[:_QUICK_CONTEXTS]
        time_once(folder, None)  # loads what is loaded on first use
        seconds = interleave(
            {
                "once, all questions": lambda: time_once(folder, None),
                "once, some contexts": lambda: time_once(folder, {c["shared_context_id"] for c in some}),
                "rebuild, some contexts": lambda: time_rebuild(some, asked),
            },
            2 if args.quick else 7,
        )
        waited = {c["shared_context_id"] for c in contexts[: _WAITED_FOR[args.quick]]}
        waiting = interleave(
            {
                f"{workers} worker{'s' if workers > 1 else ''}": partial(time_waiting, folder, waited, workers)
                for workers in (1, 2)
            },
            1 if args.quick else 5,
        )
    print(f"release: {args.release.name}, split 32k: {len(rows):,} questions about {len(contexts):,} histories")
    print_table(
        "Taken in",
        ["", "once", "rebuild", "ratio"],
        [[name, f"{once:,}", f"{again:,}", f"{again / once:.1f}"] for name, (once, again) in counts.items()],
    )
    print_table(
        f"{len(seconds['once, all questions'])} rounds, interleaved; some contexts: {len(some)}",
        ["side", "median s", "min s", "max s"],
        [[name, *spread(v)] for name, v in seconds.items()],
    )
    print_table(
        f"{len(waiting['1 worker'])} rounds, interleaved; {len(waited)} histories, {_SECONDS_A_SESSION} s a session",
        ["side", "median s", "min s", "max s"],
        [[name, *spread(v)] for name, v in waiting.items()],
    )
    ratio = median_ratio(seconds["once, some contexts"], seconds["rebuild, some contexts"])
    targets = [
        Target(
            "sessions taken in once, of those of rebuilding", counts["sessions"][0] / counts["sessions"][1], 1 / 12, "x"
        ),
        Target("BM25 over all questions", statistics.median(seconds["once, all questions"]), 20, "s"),
        Target("time of once / rebuild, some contexts", ratio, 1, "x"),
        Target("time of two workers / one", median_ratio(waiting["2 workers"], waiting["1 worker"]), 0.6, "x"),
    ]
    conclude(args, targets, {"counts": counts, "seconds": seconds, "waiting": waiting})


def time_once(folder: Path, contexts: set[str] | None) -> float:
    """Return the seconds of a run of the runner."""
    from personamem_builder.memory.registry import find_system
    from personamem_builder.memory.runner import run_memory

    with tempfile.TemporaryDirectory() as out:
        started = time.perf_counter()
        run_memory(folder, "32k", find_system("bm25"), K, out=Path(out) / "store", contexts=contexts)
        return time.perf_counter() - started


class Waits:
    """Knows nothing, and takes as long for a session as a language model that writes down what it tells."""

    def reset(self) -> None:
        """Forget nothing."""

    def add_session(self, session: Session) -> None:
        """Wait."""
        time.sleep(_SECONDS_A_SESSION)

    def search(self, query: str, k: int) -> list[Memory]:
        """Find nothing."""
        return []


def time_waiting(folder: Path, contexts: set[str], workers: int) -> float:
    """Return the seconds that so many workers take for some contexts with `Waits`."""
    from personamem_builder.memory.registry import find_system
    from personamem_builder.memory.runner import run_memory

    spec = find_system("memory:Waits")  # this file, by the name under which another process finds it
    with tempfile.TemporaryDirectory() as out:
        started = time.perf_counter()
        run_memory(folder, "32k", spec, K, out=Path(out) / "store", contexts=contexts, workers=workers)
        return time.perf_counter() - started


def time_rebuild(contexts: list[Any], asked: dict[str, list[Any]]) -> float:
    """Return the seconds of a system rebuilt for every question of some contexts."""
    from personamem_builder.memory.bm25 import Bm25
    from personamem_builder.memory.sessions import cut_sessions

    started = time.perf_counter()
    for context in contexts:
        for row in asked[context["shared_context_id"]]:
            system = Bm25()
            for session in cut_sessions(context, [row["end_index_in_shared_context"]]):
                system.add_session(session)
            system.search(row["user_question_or_message"], K)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
