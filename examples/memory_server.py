"""A memory system behind HTTP, in small: it finds the messages that share rare words with the question.

    python examples/memory_server.py --port 8765
    personamem memory run --system http --set url=http://127.0.0.1:8765 --data personamem --split 32k

It needs the standard library only, and shows every part of the API that `docs/memory_http.md` describes: put your own
system in the place of `KeywordMemory`, or write such a server in another language.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
import threading
from collections import Counter, OrderedDict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

VERSION = 1
CONTEXTS_KEPT = 256
"""So many users are remembered at once: a run with `--workers` shows several at a time."""


class KeywordMemory:
    """The memory of one user: all messages, and in how many of them each word stands."""

    def __init__(self) -> None:
        self.memories: list[dict[str, Any]] = []
        self.words: list[set[str]] = []
        self.spread: Counter[str] = Counter()

    def add_session(self, session: dict[str, Any]) -> None:
        """Take in the next conversation."""
        for index, message in enumerate(session["messages"], session["first_index"]):
            if message["role"] == "system":
                continue  # the user's profile: every prompt holds it anyway
            words = words_of(message["content"])
            self.memories.append({"text": message["content"], "date": session["date"], "message_indices": [index]})
            self.words.append(words)
            self.spread.update(words)

    def search(self, query: str, k: int) -> list[dict[str, Any]]:
        """Return the messages with the rarest words of the query, the best first; this changes nothing."""
        asked = words_of(query)
        scores = [sum(math.log(1 + len(self.words) / self.spread[word]) for word in asked & own) for own in self.words]
        best = sorted(range(len(scores)), key=lambda i: (-scores[i], -i))  # of equal ones the later: users change
        return [self.memories[i] for i in best[:k] if scores[i] > 0]


def words_of(text: str) -> set[str]:
    """Return the words of a text."""
    return set(re.findall(r"\w{3,}", text.lower()))


class Refused(Exception):
    """A request that cannot be met, with the HTTP status that says so."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Contexts:
    """The memories by context, each with the sessions that it has taken in."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[KeywordMemory, set[int]]] = OrderedDict()
        self._lock = threading.Lock()

    def reply(self, path: str, request: dict[str, Any]) -> dict[str, Any]:
        """Do what a request asks for, and return what its reply holds beside the version."""
        if request.get("version") != VERSION:
            raise Refused(400, f"this server speaks version {VERSION}")
        with self._lock:
            if path == "/reset":
                self._kept[request["context"]] = (KeywordMemory(), set())
                while len(self._kept) > CONTEXTS_KEPT:
                    self._kept.popitem(last=False)
                return {"answers": False, "parallel": True}
            if request["context"] not in self._kept:
                raise Refused(404, "there is no such context: it was never reset, or is forgotten")
            memory, taken_in = self._kept[request["context"]]
            if path == "/sessions":
                session = request["session"]
                if session["first_index"] not in taken_in:  # one that comes again is not taken in twice
                    memory.add_session(session)
                    taken_in.add(session["first_index"])
                return {}
            if path == "/search":
                return {"memories": memory.search(request["query"], request["k"])}
        raise Refused(404, f"there is no {path}")


class Handler(BaseHTTPRequestHandler):
    """Reads requests and writes replies, both JSON."""

    contexts: ClassVar[Contexts] = Contexts()

    def do_POST(self) -> None:
        """Answer a request."""
        try:
            request = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
            status, reply = 200, self.contexts.reply(self.path, request)
        except Refused as refused:
            status, reply = refused.status, {"error": str(refused)}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            status, reply = 400, {"error": f"the request is not as it should be: {type(error).__name__}: {error}"}
        content = json.dumps({"version": VERSION, **reply}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing of single requests."""


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description="A keyword memory behind HTTP.")
    parser.add_argument("--port", type=int, default=8765, help="0 for any that is free")
    server = ThreadingHTTPServer(("127.0.0.1", parser.parse_args().port), Handler)
    sys.stdout.write(f"http://127.0.0.1:{server.server_port}\n")
    sys.stdout.flush()
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()


if __name__ == "__main__":
    main()
