"""Connections to Ray clusters."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from generation.errors import UserError
from generation.interruption import Interruption

LOCAL: Final = "local"
"""The address of a cluster that is started on this machine, for one command."""

_STORE_BYTES: Final = 256 * 1024**2  # Ray itself would take a third of the memory
_LONGEST_FOLDER: Final = 24
_KNOCK_SECONDS: Final = 20.0
_SHOWN: Final = 300  # letters of what Ray says


class RayCluster(NamedTuple):
    """A Ray cluster to work on.

    Attributes:
        address: `local`, `auto` (the one that this machine belongs to) or `host:port`.
        cpus: CPUs of a local one; None for all that there are.
    """

    address: str = LOCAL
    cpus: int | None = None


@contextmanager
def connected(cluster: RayCluster) -> Iterator[None]:
    """Be connected to a cluster while the block lasts; a connection that is there already is used, and stays.

    Raises:
        UserError: There is no such cluster, or it has another version of Ray or Python.
    """
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_ENABLE_AUTO_CONNECT"] = "0"  # else a thread that comes too late would start a cluster
    import ray

    if ray.is_initialized():
        yield
        return
    settings: dict[str, Any] = {"address": cluster.address}
    folder = None
    if cluster.address == LOCAL:
        # Sockets are in it, whose paths may have 107 characters; Ray itself would leave its logs in /tmp/ray.
        folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp" if len(tempfile.gettempdir()) > _LONGEST_FOLDER else None)
        settings |= {"num_cpus": cluster.cpus, "include_dashboard": False, "_temp_dir": folder}
        settings["object_store_memory"] = _STORE_BYTES
    try:
        _connect(settings)
        yield
    finally:
        ray.shutdown()
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def _connect(settings: dict[str, Any]) -> None:
    import ray

    try:
        _knock(settings["address"])
        with _own_signals():
            ray.init(**settings, log_to_driver=False, logging_level=logging.ERROR)
        # What becomes of machines it prints all the same, and to stdout, which is for data; there is no public switch.
        ray._private.worker._worker_logs_enabled = False
    except (OSError, RuntimeError, ValueError) as error:
        raise UserError(
            f"no Ray cluster can be used at {settings['address']}: {one_line(error)}",
            "start one with `ray start --head`, or leave out the address for one on this machine",
        ) from error


def _knock(address: str) -> None:
    """Raise `OSError` where nobody answers, which Ray takes minutes to say."""
    if address == "auto":
        address = os.environ.get("RAY_ADDRESS", "")
    host, _, port = address.rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), _KNOCK_SECONDS).close()


@contextmanager
def _own_signals() -> Iterator[None]:
    """Keep what Ray does on SIGTERM, which is to leave without a word, from outlasting the block."""
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    except SystemExit:
        raise Interruption(signal.SIGTERM) from None
    finally:
        if is_main:
            signal.signal(signal.SIGTERM, before)


def one_line(error: Exception) -> str:
    """Return what Ray says of an error, which may be pages."""
    text = " ".join(str(error).split())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
