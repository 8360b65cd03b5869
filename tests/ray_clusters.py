"""Ray clusters of several nodes on this machine, for tests."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from unittest.mock import patch

_TESTS = Path(__file__).parent


@contextmanager
def ray_cluster() -> Iterator[Any]:
    """A cluster with one node, to which a test may add others; this process is not connected to it.

    What it writes is in its folder `logs`.
    """
    from ray.cluster_utils import Cluster

    logs = Path(mkdtemp(prefix="ray-", dir="/tmp"))  # a short name: sockets are in it
    logs.joinpath("ray").mkdir()
    # A cluster has the environment that it was started in, which is not that of a command.
    path = os.pathsep.join([str(_TESTS.parent), str(_TESTS)])
    try:
        with patch.dict(os.environ, RAY_USAGE_STATS_ENABLED="0", RAY_TMPDIR=str(logs), PYTHONPATH=path):
            cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
            cluster.logs = logs
            try:
                yield cluster
            finally:
                cluster.shutdown()
    finally:
        shutil.rmtree(logs, ignore_errors=True)


def begin_task(folder: Path, number: int) -> int:
    """A task that leaves a file which says on which node, and in which process, it was begun."""
    import ray

    node = ray.get_runtime_context().get_node_id()
    folder.joinpath(f"{number}-{node}-{os.getpid()}").touch()
    time.sleep(0.05)
    return number


def begin_slow_task(folder: Path) -> int:
    """A task that takes long the first time; returns how often it was begun."""
    times = len(list(folder.iterdir())) + 1
    folder.joinpath(str(times)).touch()
    if times == 1:
        time.sleep(60)
    return times


def fill(size: int) -> bytes:
    """Return so many bytes."""
    return b"x" * size


_started: list[Path] = []


def start_in(folder: Path) -> None:
    """A start that leaves a trace."""
    _started.append(folder)
    folder.joinpath(f"started-{os.getpid()}").touch()


def started() -> list[Path]:
    """What this process was started with."""
    return _started
