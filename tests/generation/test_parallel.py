"""Work in several processes: results in order, few tasks under way, nothing left behind."""

from __future__ import annotations

import operator
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generation.errors import UserError
from generation.parallel import ordered_results, process_pool

ROOT = Path(__file__).parents[2]
Python = Callable[..., "subprocess.CompletedProcess[str]"]


def results(function: Callable[[Any], Any], tasks: Any, ahead: int = 4, workers: int = 3) -> Iterator[Any]:
    """Yield the results of threads, which start faster than processes and are as unordered."""
    with ThreadPoolExecutor(workers) as pool:
        yield from ordered_results(cast(Any, pool), ahead, function, tasks)


# --- order, and how far ahead


@settings(max_examples=50)
@given(st.lists(st.integers(0, 3)), st.integers(1, 9))
def test_results_come_in_the_order_of_the_tasks(delays: list[int], ahead: int) -> None:
    tasks = list(enumerate(delays))

    def work(task: tuple[int, int]) -> int:
        time.sleep(task[1] / 2_000)
        return task[0]

    assert list(results(work, tasks, ahead)) == list(range(len(tasks)))


@pytest.mark.parametrize("ahead", [1, 2, 5])
def test_only_so_many_tasks_are_taken_from_a_stream(ahead: int) -> None:
    taken = []

    def stream() -> Iterator[int]:
        for i in range(1_000):
            taken.append(i)
            yield i

    found = results(operator.neg, stream(), ahead)
    for i in range(20):
        assert next(found) == -i
        assert len(taken) - i <= ahead, "a task is taken only when there is room for it"
    found.close()  # type: ignore[attr-defined]


def test_tasks_run_at_the_same_time() -> None:
    together = threading.Barrier(3, timeout=20)
    assert len(list(results(lambda _: together.wait(), range(3)))) == 3


def test_no_tasks_give_no_results() -> None:
    assert list(results(operator.neg, [])) == []


def test_the_first_error_comes_through_after_the_results_before_it() -> None:
    def work(task: int) -> int:
        if task >= 3:
            raise UserError(f"task {task}", "a hint")
        return task

    found = results(work, range(10))
    assert [next(found) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(UserError) as raised:
        next(found)
    assert (raised.value.message, raised.value.hint) == ("task 3", "a hint")


def test_an_error_of_the_stream_comes_through() -> None:
    def stream() -> Iterator[int]:
        yield 1
        raise UserError("the file is damaged")

    with pytest.raises(UserError, match="the file is damaged"):
        list(results(operator.neg, stream()))


# --- processes


def test_each_process_is_started_with_the_arguments(tmp_path: Path) -> None:
    """The start of these changes into a folder, where the tasks then are."""
    with process_pool(2, os.chdir, tmp_path) as pool:
        names = [f"{i}" for i in range(20)]
        assert list(ordered_results(pool, 4, os.path.abspath, names)) == [str(tmp_path / name) for name in names]
    assert Path.cwd() != tmp_path, "this process is as it was"


def test_a_process_starts_afresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not forked: what was loaded here, and runs threads, is not there."""
    monkeypatch.setattr(os, "sep", "changed")
    with process_pool(1, operator.truth, 0) as pool:
        assert pool.submit(os.path.join, "a", "b").result() == "a/b"
        assert pool.submit(os.getpid).result() != os.getpid()


def test_an_error_for_people_keeps_its_hint_across_processes(tmp_path: Path) -> None:
    """The file cannot be read: an error that is raised in a worker."""
    from generation.store import RunStore

    with process_pool(1, operator.truth, 0) as pool:
        future = pool.submit(RunStore(tmp_path / "absent").fingerprint)
        with pytest.raises(UserError) as raised:
            future.result()
    assert raised.value.message == f"{tmp_path / 'absent'} is not a run"
    assert raised.value.hint.startswith("make one: ")


KILLED = """
import os, signal, sys, time
from generation.parallel import process_pool

if __name__ == "__main__":
    pool = process_pool(2, os.getpid)
    workers = {pool.submit(os.getpid).result()}
    pool.submit(time.sleep, 60)
    workers |= set(pool._processes)
    print(*workers, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_workers_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    done = subprocess.run(
        [sys.executable, str(script)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    workers = list(map(int, done.stdout.split()))
    assert workers
    end = time.monotonic() + 20
    while alive := [pid for pid in workers if _runs(pid)]:
        assert time.monotonic() < end, alive
        time.sleep(0.05)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
