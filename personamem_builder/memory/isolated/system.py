"""A memory system in a process of its own: started when it is made, ended when it is let go."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import IO, ClassVar, Final, Literal, get_args

from generation.errors import UserError
from personamem_builder.memory.http import HttpMemory
from personamem_builder.memory.isolated.environments import IsolatedSpec, isolated_systems, python_of
from personamem_builder.memory.json_server import MemoryFault
from personamem_builder.memory.retrieval import check_unit
from personamem_builder.memory.system import Memory, Session

Unit = Literal["session", "turn"]
_UNITS: Final[tuple[Unit, ...]] = get_args(Unit)
_SERVER: Final = Path(__file__).with_name("server.py")
_SHOWN: Final = 300
_SECONDS_TO_END: Final = 20.0


class IsolatedSystem:
    """A system of `isolated_systems()` behind our own server, in the environment that `memory setup` made for it.

    Args:
        model: The language model that it asks.
        base_url: Where that is served, in OpenAI's protocol; by default `OPENAI_BASE_URL`, then OpenAI itself. The key
            is read from `OPENAI_API_KEY`.
        embedder: The embedding model: a folder, or its name on the Hub; with `embedder_url` the name by which the
            server knows it.
        embedder_url: Where the embedding model is served, in OpenAI's protocol; on this machine by default, which needs
            `memory setup NAME --local-embedder`.
        max_tokens: Of a reply of the language model.
        unit: What it is given at a time, where it can be chosen: a `session` or a `turn`.
        timeout: Seconds that one request to it may take.

    Raises:
        UserError: It was not set up, or its process does not come up.
    """

    spec: ClassVar[IsolatedSpec]
    takes_in_once = True

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        embedder: str = "sentence-transformers/all-MiniLM-L6-v2",
        embedder_url: str | None = None,
        max_tokens: int = 2000,
        unit: Unit = "session",
        timeout: float = 600.0,
    ) -> None:
        python = python_of(self.spec.name)
        if python is None:
            raise UserError(
                f"the memory system {self.spec.name} has no environment yet",
                f"personamem memory setup {self.spec.name}",
            )
        settings = {
            "model": model,
            "base_url": base_url,
            "embedder": embedder,
            "embedder_url": embedder_url,
            "max_tokens": max_tokens,
            "unit": check_unit(unit, _UNITS),
        }
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (open as long as the process)
        self._process = subprocess.Popen(
            [str(python), str(_SERVER), str(self.spec.adapter), "--settings", json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        self._end = weakref.finalize(self, _end, self._process)
        self._server = HttpMemory(self._address(timeout), timeout=timeout)

    def _address(self, timeout: float) -> str:
        """Return where the server listens, once it does."""
        lines: SimpleQueue[bytes] = SimpleQueue()
        stdout: IO[bytes] | None = self._process.stdout
        assert stdout is not None
        Thread(target=lambda: lines.put(stdout.readline()), daemon=True).start()
        try:
            line = lines.get(timeout=timeout)
        except Empty:
            line = b""
        if not line.startswith(b"http://"):
            self._end()
            raise UserError(
                f"the memory system {self.spec.name} does not start: {self._last_words()}",
                "see docs/memory.md for what it needs",
            )
        return line.decode().strip()

    def _last_words(self) -> str:
        self._log.seek(0)
        said = [line for line in self._log.read().decode("utf-8", "replace").splitlines() if line.strip()]
        return (said[-1] if said else "it says nothing")[:_SHOWN]

    def reset(self) -> None:
        """Begin the history of another user.

        Raises:
            MemoryFault: It fails, or its process has ended.
        """
        self._alive()
        self._server.reset()

    def add_session(self, session: Session) -> None:
        """Show it the next conversation."""
        self._alive()
        self._server.add_session(session)

    def search(self, query: str, k: int) -> Sequence[Memory]:
        """Ask it for up to `k` memories."""
        self._alive()
        return self._server.search(query, k)

    def usage(self) -> Mapping[str, float]:
        """Return the calls of its language model and their tokens, as far as it asks through the library openai."""
        return self._server.usage()

    def _alive(self) -> None:
        if self._process.poll() is not None:
            raise MemoryFault(f"the process of {self.spec.name} has ended: {self._last_words()}", "run it again")


def isolated_class(name: str) -> type[IsolatedSystem] | None:
    """Return the class of a system of `isolated_systems()`; None where there is none of that name.

    Nor for mem0, where it is installed here, or was not set up: it then runs in this process.
    """
    spec = isolated_systems().get(name)
    if spec is None or (name == "mem0" and (_is_installed(name) or python_of(name) is None)):
        return None
    return type("IsolatedSystem", (IsolatedSystem,), {"spec": spec, "version": f"1, {spec.version}", "__doc__": name})


def _is_installed(module: str) -> bool:
    return module in sys.modules or find_spec(module) is not None


def _end(process: subprocess.Popen[bytes]) -> None:
    """Have it end itself, which takes its files and what it has started with it; kill it where it does not."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    try:
        process.wait(_SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stdout.close()
