"""What runs in the processes of a Ray cluster, and how what comes of it travels."""

from __future__ import annotations

import gc
import hashlib
import importlib
import os
import pickle
import platform
import signal
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from generation.errors import UserError
from generation.ray_spool import Sent, Spool
from generation.redaction import hide_keys

if TYPE_CHECKING:
    from ray import ObjectRef


class Setup(NamedTuple):
    """What a process needs before its first task."""

    start: Callable[..., None]
    arguments: tuple[Any, ...]
    current: Path
    visible: Sequence[Path]
    spool: Spool
    code: dict[str, str]


class Worker:
    """The actor in each process."""

    def __init__(self) -> None:
        ignore_interrupts()
        self._spool = Spool(None)

    def begin(self, setup: list[ObjectRef[bytes]]) -> bytes:
        """Get ready; the outcome is which machine this is. Ray would resolve a reference that is not in a list."""
        import ray

        return outcome(self._begin, ray.get(setup[0]))

    def _begin(self, data: bytes) -> str:
        import ray

        node = platform.node()
        try:
            setup: Setup = pickle.loads(data)
        except ModuleNotFoundError as error:
            raise UserError(
                f"the machine {node} of the cluster has no module {error.name}",
                "install personamem, with the extras of this command, on all machines",
            ) from error
        for name, digest in setup.code.items():
            if code_digest(name) != digest:
                raise UserError(
                    f"the machine {node} of the cluster has other code of {name} than this one",
                    "install the same version of personamem on all machines",
                )
        for folder in setup.visible:
            if not folder.is_dir():
                raise UserError(
                    f"the machine {node} of the cluster does not see {folder}",
                    "put the run on a file system that all machines of the cluster share, at the same path",
                )
        with suppress(OSError):  # else paths are absolute, or there are none
            os.chdir(setup.current)
        self._spool = setup.spool
        setup.start(*setup.arguments)
        gc.freeze()
        return ray.get_runtime_context().get_node_id()  # type: ignore[no-any-return]

    def run(self, call: Sent) -> Sent:
        """Make a call; returns its outcome."""
        data = outcome(self._run, call)
        try:
            return self._spool.put(data)
        except UserError as error:
            return pickle.dumps((None, error, ""))

    def _run(self, call: Sent) -> Any:
        function, arguments, named = pickle.loads(self._spool.get(call))
        return function(*arguments, **named)


def ignore_interrupts() -> None:
    """Prepare a process of the cluster: Ctrl-C is its driver's, and no key is in what it prints."""
    with suppress(ValueError):  # in a thread
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    hide_keys()


class _RemoteError(Exception):
    """Where in a process of the cluster an error was raised; its cause, as in other pools of processes."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


def outcome(function: Callable[..., Any], *arguments: Any, **named: Any) -> bytes:
    """Call a function, and return what it returned or raised; Ray would wrap errors in ones of its own."""
    try:
        return pickle.dumps((function(*arguments, **named), None, ""))
    except Exception as error:
        return pickle.dumps((None, error, traceback.format_exc()))


def unpacked(data: bytes) -> Any:
    """Return, or raise, what `outcome` was about."""
    value, error, where = pickle.loads(data)
    if error is not None:
        raise error from _RemoteError(where)
    return value


def code_digest(package: str) -> str:
    """Return a digest of the modules of a package: other code may make other bytes."""
    digest = hashlib.sha256()
    for folder in map(Path, getattr(importlib.import_module(package), "__path__", [])):
        for path in sorted(folder.rglob("*.py")):
            digest.update(f"{path.relative_to(folder).as_posix()}\0".encode() + path.read_bytes())
    return digest.hexdigest()
