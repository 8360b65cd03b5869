"""The real client library of the Hub in a process of its own, as it reads `HF_ENDPOINT` when it is imported."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from loopback_hub import WRITER

_CHILD = """
import os, pickle, sys, time
answers = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)  # what libraries print is no answer
waits = []
time.sleep = waits.append  # nobody waits; how long they would have is told
while True:
    try:
        function, arguments, keywords, token = pickle.load(sys.stdin.buffer)
    except EOFError:
        break
    os.environ.pop("HF_TOKEN", None)
    if token:
        os.environ["HF_TOKEN"] = token
    try:
        answer = function(*arguments, **keywords), None
    except Exception as error:
        answer = None, error if type(error).__name__ == "UserError" else RuntimeError(repr(error))
    pickle.dump((*answer, waits), answers)
    answers.flush()
    waits.clear()
"""


class HubClient:
    """The process, running between `with` and the end of the block; it takes a second to import, so tests share it.

    Attributes:
        url: The Hub that it asks.
        folder: Where it runs.
        home: Where the library keeps its cache.
        said: The file with all that was said on stdout and stderr.
        waits: The seconds that the last call would have slept, each time that it would have.
    """

    def __init__(self, url: str, folder: Path, **env: str) -> None:
        self.folder = folder
        self.home = folder / "hf"
        self.said = folder / "said.txt"
        self.waits: list[float] = []
        self.url = url
        self._env = env

    def __enter__(self) -> Self:
        env = {k: v for k, v in os.environ.items() if not k.startswith("HF_") and "proxy" not in k.lower()}
        env |= {
            "PYTHONPATH": os.pathsep.join(sys.path),
            "HF_HOME": str(self.home),
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_UPDATE_DOWNLOAD_COUNTS": "0",
            "HF_ENDPOINT": self.url,
            **self._env,
        }
        with self.said.open("wb") as said:
            self._child = subprocess.Popen(
                [sys.executable, "-c", _CHILD],
                cwd=self.folder,
                env=env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
            )
        return self

    def __exit__(self, *_: object) -> None:
        self._child.communicate(timeout=60)

    def forget(self) -> Self:
        """Empty the cache of the library, as every test needs it."""
        shutil.rmtree(self.home, ignore_errors=True)
        return self

    def call(self, function: Callable[..., Any], *arguments: Any, token: str = WRITER, **keywords: Any) -> Any:
        """Call a function there, and return what it returns or raise what it raises."""
        assert self._child.stdin
        assert self._child.stdout
        pickle.dump((function, arguments, keywords, token), self._child.stdin)
        self._child.stdin.flush()
        answer, error, self.waits = pickle.load(self._child.stdout)
        if error:
            raise error
        return answer
