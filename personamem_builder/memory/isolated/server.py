"""A server of one memory system, for the Python of that system's own environment: the standard library and an adapter.

    python server.py ADAPTER.py --settings '{"model": "…", "base_url": "…"}'

It prints its address and speaks the requests of `docs/memory_http.md`. An adapter is a module with a class `Adapter`:
`Adapter(settings, folder)`, `reset()`, `add_session(session)` and `search(query, k)`, sessions and memories as in these
requests; `folder` is a new one for its files. Calls come one at a time; `close()`, if it has that, is called in the
end, and may come while another call is under way.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

VERSION = 1
GRACE = 15.0
"""Seconds that a system gets to end."""


class Memories:
    """An adapter, the context that it is at, and what its language model was asked since the last reply."""

    def __init__(self, adapter: Any, usage: Counter[str]) -> None:
        self._adapter = adapter
        self._usage = usage
        self._context = ""
        self._taken_in: set[int] = set()
        self._lock = threading.Lock()

    def reply(self, path: str, request: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Return the status of a reply, and what it holds."""
        with self._lock:
            if request.get("version") != VERSION:
                return 400, {"error": f"this server speaks version {VERSION}"}
            if path == "/reset":
                self._context, self._taken_in = request["context"], set()
                self._adapter.reset()
                return 200, self._with_usage({"answers": False, "parallel": False})
            if request["context"] != self._context:
                return 404, {"error": "there is no such context: another was reset after it"}
            if path == "/sessions":
                session = request["session"]
                if session["first_index"] not in self._taken_in:
                    self._adapter.add_session(session)
                    self._taken_in.add(session["first_index"])
                return 200, self._with_usage({})
            if path == "/search":
                query = request["query"]  # most systems refuse one without a character
                found = self._adapter.search(query, request["k"]) if query.strip() else []
                return 200, self._with_usage({"memories": found})
        return 404, {"error": f"there is no {path}"}

    def _with_usage(self, reply: dict[str, Any]) -> dict[str, Any]:
        used = dict(self._usage)
        self._usage.clear()
        return {**reply, "usage": used} if used else reply


def handler_of(memories: Memories) -> type[BaseHTTPRequestHandler]:
    """Return what answers requests."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            try:
                request = whole_characters(json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0)))))
                status, reply = memories.reply(self.path, request)
            except Exception as error:  # whatever the system does, the server goes on
                traceback.print_exc()
                status, reply = 500, {"error": f"{type(error).__name__}: {error}"}
            content = json.dumps({"version": VERSION, **reply}).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing of single requests."""

    return Handler


def whole_characters(value: Any) -> Any:
    """Return JSON without halves of surrogate pairs, which no file and no other server can hold."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [whole_characters(one) for one in value]
    return {key: whole_characters(one) for key, one in value.items()} if isinstance(value, dict) else value


def load_adapter(path: Path) -> Any:
    """Return the class `Adapter` of a file."""
    spec = importlib.util.spec_from_file_location("personamem_adapter", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Adapter


def count_openai_calls(usage: Counter[str]) -> None:
    """Have the library openai, if it is there, count the chats that it asks for."""
    try:
        chats = importlib.import_module("openai.resources.chat.completions")
    except ImportError:
        return

    def note(reply: Any) -> Any:
        used = getattr(reply, "usage", None)
        usage.update(
            llm_calls=1,
            prompt_tokens=getattr(used, "prompt_tokens", 0) or 0,
            reply_tokens=getattr(used, "completion_tokens", 0) or 0,
        )
        return reply

    create, create_async = chats.Completions.create, chats.AsyncCompletions.create

    def counted(self: Any, *args: Any, **more: Any) -> Any:
        return note(create(self, *args, **more))

    async def counted_async(self: Any, *args: Any, **more: Any) -> Any:
        return note(await create_async(self, *args, **more))

    chats.Completions.create, chats.AsyncCompletions.create = counted, counted_async


def end_with_parent(shut_down: Callable[[], None]) -> None:
    """End when the input ends: whoever started this process holds the other end of it."""
    while os.read(0, 1024):  # not through `sys.stdin`, whose lock would be held when the interpreter ends
        pass
    shut_down()
    time.sleep(GRACE)
    os._exit(0)


def serve(args: argparse.Namespace, folder: str) -> None:
    """Serve until the input ends; the adapter's files are in `folder`."""
    server: ThreadingHTTPServer | None = None

    def shut_down() -> None:
        if server is None:  # the adapter is being made, and may wait for something for ever
            shutil.rmtree(folder, ignore_errors=True)
            os._exit(0)
        server.shutdown()

    threading.Thread(target=end_with_parent, args=(shut_down,), daemon=True).start()
    usage: Counter[str] = Counter()
    address = os.dup(1)  # what a system prints goes to the log
    os.dup2(2, 1)
    os.chdir(folder)
    count_openai_calls(usage)
    adapter = load_adapter(args.adapter)(args.settings, folder)
    try:
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler_of(Memories(adapter, usage)))
        os.write(address, f"http://127.0.0.1:{server.server_port}\n".encode())
        server.serve_forever(poll_interval=0.1)
    finally:
        if hasattr(adapter, "close"):
            adapter.close()


def main() -> None:
    """Read the arguments and serve."""
    parser = argparse.ArgumentParser()
    parser.add_argument("adapter", type=Path)
    parser.add_argument("--settings", type=json.loads, default={})
    args = parser.parse_args()
    sys.path[:] = [folder for folder in sys.path if Path(folder or ".").resolve() != Path(__file__).resolve().parent]
    with tempfile.TemporaryDirectory(prefix="personamem-memory-", ignore_cleanup_errors=True) as folder:
        serve(args, folder)
    os._exit(0)  # whatever is still under way


if __name__ == "__main__":
    main()
