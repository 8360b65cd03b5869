"""A memory server on 127.0.0.1 that replies as it is told and keeps what it was sent."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any, ClassVar, NamedTuple

from loopback import Loopback


class Raw(NamedTuple):
    """A reply as it goes over the wire."""

    status: int = 200
    content: bytes = b""
    content_type: str = "application/json"
    announced: int | None = None
    """The `Content-Length`, where it is not the true one."""
    headers: Mapping[str, str] = {}


Reply = Callable[[str, dict[str, Any]], dict[str, Any] | Raw]


class LoopbackMemory(Loopback):
    """The server, running between `with` and the end of the block.

    Args:
        reply: From the last part of a path (`reset`, `sessions`, `search`, `answer`) and what was sent, to what the
            reply holds beside the version, or to the whole reply.

    Attributes:
        requests: The last part of the path of each request so far, and what it held.
    """

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.requests: list[tuple[str, dict[str, Any]]] = []
        super().__init__(type("Handler", (_Handler,), {"memory": self}))

    def sent_to(self, name: str) -> list[dict[str, Any]]:
        """Return what was sent to one path."""
        return [sent for path, sent in self.requests if path == name]


class _Handler(BaseHTTPRequestHandler):
    memory: ClassVar[LoopbackMemory]

    def do_POST(self) -> None:
        name = self.path.rpartition("/")[2]
        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.memory.requests.append((name, sent))
        reply = self.memory.reply(name, sent)
        if not isinstance(reply, Raw):
            reply = Raw(content=json.dumps({"version": 1, **reply}).encode())
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.content_type)
        self.send_header("Content-Length", str(len(reply.content) if reply.announced is None else reply.announced))
        for header, value in reply.headers.items():
            self.send_header(header, value)
        self.end_headers()
        try:
            self.wfile.write(reply.content)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # the client has had enough

    def log_message(self, format: str, *args: object) -> None:
        """Keep test output quiet."""
