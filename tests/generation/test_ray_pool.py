"""Work on a Ray cluster of two nodes: as in several processes, and whatever becomes of the nodes."""

from __future__ import annotations

import operator
import os
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import CancelledError
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from ray_clusters import begin_slow_task, begin_task, fill, ray_cluster, start_in, started

from generation import ray_pool
from generation.errors import UserError
from generation.parallel import ordered_results, worker_pool
from generation.ray_cluster import RayCluster, connected
from generation.ray_pool import LostTask, RayPool
from generation.ray_spool import LARGE
from generation.store import RunStore

pytestmark = [pytest.mark.ray, pytest.mark.xdist_group("ray")]
ray = pytest.importorskip("ray", reason="needs Ray: make test-ray")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with ray_cluster() as cluster, connected(RayCluster(cluster.address)):
        yield cluster


def test_results_come_in_the_order_of_the_tasks_and_each_process_is_started_once(cluster: Any, tmp_path: Path) -> None:
    with RayPool(start_in, tmp_path) as pool:
        tasks = range(50)
        assert list(ordered_results(pool, 8, operator.neg, tasks)) == [-i for i in tasks]
        assert pool.submit(started).result() == [tmp_path]
        assert pool.submit(os.getcwd).result() == str(Path.cwd())
    assert len(list(tmp_path.iterdir())) == pool.workers == 1
    with pytest.raises(RuntimeError, match="shut down"):
        pool.submit(os.getpid)


def test_an_error_of_a_task_is_raised_as_it_is(cluster: Any, tmp_path: Path) -> None:
    absent = tmp_path / "absent"
    with RayPool(operator.truth, 0) as pool:
        with pytest.raises(UserError) as raised:
            pool.submit(RunStore(absent).fingerprint).result()
        assert type(raised.value) is UserError
        assert (raised.value.message, raised.value.hint[:13]) == (f"{absent} is not a run", "make one: per")
        with pytest.raises(ZeroDivisionError) as divided:
            pool.submit(operator.truediv, 1, 0).result()
        assert "in outcome" in str(divided.value.__cause__), "the traceback of the other process is shown"
        assert pool.submit(abs, -1).result() == 1


def test_tasks_of_a_node_that_dies_are_begun_again_on_another(cluster: Any, tmp_path: Path) -> None:
    node = cluster.add_node(num_cpus=1)
    with RayPool(operator.truth, 0) as pool:
        assert pool.workers == 2
        found = ordered_results(pool, 16, partial(begin_task, tmp_path), range(100))
        results = []
        killed = False
        for result in found:
            results.append(result)
            if not killed and any(node.node_id in path.name for path in tmp_path.iterdir()):
                cluster.remove_node(node, allow_graceful=False)
                killed = True
    assert killed
    assert results == list(range(100))
    begun = Counter(int(path.name.partition("-")[0]) for path in tmp_path.iterdir())
    assert set(begun) == set(range(100))
    again = [number for number, times in begun.items() if times > 1]
    assert len(again) <= 2, "only what the lost process had"
    for number in again:
        assert any(node.node_id in path.name for path in tmp_path.glob(f"{number}-*"))


def test_a_node_that_comes_later_gets_tasks(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_pool, "_LOOK_SECONDS", 0.5)
    with RayPool(operator.truth, 0) as pool:
        assert pool.submit(abs, -1).result() == 1
        node = cluster.add_node(num_cpus=1)
        numbers = iter(range(100_000))
        end = time.monotonic() + 60
        while not any(node.node_id in path.name for path in tmp_path.iterdir()):
            assert time.monotonic() < end
            list(ordered_results(pool, 8, partial(begin_task, tmp_path), [next(numbers) for _ in range(8)]))
    cluster.remove_node(node)


def test_a_task_that_kills_its_process_each_time_is_an_error(cluster: Any) -> None:
    with RayPool(operator.truth, 0) as pool:
        future = pool.submit(os._exit, 1)
        with pytest.raises(
            UserError, match=r"^a task was begun 4 times, and each time its process or machine was lost"
        ):
            future.result(60)
        assert pool.submit(abs, -1).result(60) == 1, "the others go on"


def test_nodes_that_die_while_processes_begin_cost_no_task(cluster: Any, tmp_path: Path) -> None:
    nodes = [cluster.add_node(num_cpus=1) for _ in range(4)]
    with RayPool(time.sleep, 2, at_once=10) as pool:
        assert pool.workers >= 5
        for node in nodes:
            cluster.remove_node(node, allow_graceful=False)
        assert list(ordered_results(pool, 10, operator.neg, range(10))) == [-i for i in range(10)]


def test_processes_that_never_begin_are_an_error(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_pool, "_PAUSE_SECONDS", 0.01)
    with RayPool(os._exit, 1) as pool:
        with pytest.raises(UserError, match=r"^no process of the cluster could begin: ") as raised:
            pool.submit(abs, -1).result(90)
        assert "has to be installed on all its machines" in raised.value.hint


def test_tasks_that_wait_share_processes_and_are_so_many_at_a_time(cluster: Any) -> None:
    with RayPool(operator.truth, 0, at_once=6) as pool:
        assert pool.workers <= 2, "a node that has just gone may still count"
        pool.submit(abs, -1).result()
        begun = time.monotonic()
        assert list(ordered_results(pool, 12, time.sleep, [0.5] * 12)) == [None] * 12
        took = time.monotonic() - begun
    assert took >= 1.0, "six at a time"
    assert took < 5.5, "not one after another"


def test_a_task_may_be_begun_once_only_in_a_process_of_its_own(cluster: Any) -> None:
    with RayPool(operator.truth, 0, processes=1, retries=0) as pool:
        assert pool.workers == 1
        with pytest.raises(LostTask, match=r"^a task was begun, and its process or machine was lost: "):
            pool.submit(os._exit, 1).result(60)
        assert pool.submit(abs, -1).result(60) == 1


def test_a_task_whose_machine_dies_is_begun_again_all_the_same(cluster: Any, tmp_path: Path) -> None:
    with RayPool(operator.truth, 0, processes=1) as others:  # it has the only CPU
        others.submit(abs, -1).result(60)
        node = cluster.add_node(num_cpus=1)
        with RayPool(operator.truth, 0, processes=1, retries=0) as pool:
            future = pool.submit(begin_slow_task, tmp_path)
            end = time.monotonic() + 60
            while not list(tmp_path.iterdir()):
                assert time.monotonic() < end
                time.sleep(0.1)
            cluster.remove_node(node, allow_graceful=False)
            others.shutdown()
            assert future.result(60) == 2, "the second time"


def test_large_arguments_and_results_go_through_files(cluster: Any, tmp_path: Path) -> None:
    sizes = [1, LARGE // 2, LARGE, 3_000_000]
    with worker_pool(RayCluster(), operator.truth, 0, spool_in=tmp_path / "made") as pool:
        assert pool is not None
        [spool] = (tmp_path / "made").iterdir()
        futures = [pool.executor.submit(fill, size) for size in sizes]
        assert [len(future.result()) for future in futures] == sizes
        assert [pool.executor.submit(len, bytes(size)).result() for size in sizes] == sizes
        assert list(spool.iterdir()) == []
        spool.rmdir()
        with pytest.raises(UserError, match=f"{spool.name} cannot be written by .*: No such file"):
            pool.executor.submit(fill, LARGE).result()
    assert list((tmp_path / "made").iterdir()) == []


def test_a_machine_that_does_not_see_the_files_is_named(cluster: Any, tmp_path: Path) -> None:
    with RayPool(operator.truth, 0, visible=[tmp_path, tmp_path / "absent"]) as pool:
        with pytest.raises(UserError, match=r"^the machine .+ does not see .+/absent") as raised:
            pool.submit(abs, -1).result()
        assert "a file system that all machines of the cluster share" in raised.value.hint


def test_a_machine_with_other_code_is_named(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_pool, "code_digest", lambda package: "another")
    with (
        RayPool(operator.truth, 0) as pool,
        pytest.raises(UserError, match=r"^the machine .+ has other code of generation"),
    ):
        pool.submit(abs, -1).result()


def test_a_start_that_fails_fails_the_tasks(cluster: Any) -> None:
    with RayPool(operator.truediv, 1, 0) as pool, pytest.raises(ZeroDivisionError):
        pool.submit(abs, -1).result()


def test_what_was_not_begun_can_be_cancelled(cluster: Any) -> None:
    pool = RayPool(operator.truth, 0)
    pool.submit(abs, -1).result()
    futures = [pool.submit(time.sleep, 0.2) for _ in range(20)]
    futures[0].result()
    pool.shutdown(cancel_futures=True)
    assert all(future.done() for future in futures)
    with pytest.raises(CancelledError):
        futures[-1].result()
