"""A memory server on 127.0.0.1 that speaks the contract of the Agent Memory Leaderboard, well or badly."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler
from typing import Any, ClassVar

from loopback import Loopback


class LoopbackArena(Loopback):
    """A server that keeps each message word for word and finds those that share words with the query.

    Attributes:
        requests: The path, the headers and the content of each request.
        stumbles: How many requests fail with status 503 before they are looked at, and how many after they took effect.
        mixes: Whether it gives everybody what anybody said.
        repeats: Whether it takes in a request as often as it is sent.
        key: The key without which nobody is let in, with the header in which it is due.
        wrong: What a reply holds in place of what is due, by the last part of the path.
        sleep: Seconds before each reply.
    """

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        self.stumbles: Counter[str] = Counter()
        self.mixes = self.repeats = False
        self.key: tuple[str, str] | None = None
        self.wrong: dict[str, Any] = {}
        self.sleep = 0.0
        self.forget()
        super().__init__(type("Handler", (_Handler,), {"arena": self}))

    def forget(self) -> None:
        self.kept: list[tuple[str, dict[str, Any]]] = []
        self.taken_in: set[str] = set()

    def sent_to(self, name: str) -> list[dict[str, Any]]:
        return [content for path, _, content in self.requests if path == name]

    def reply(self, name: str, headers: dict[str, str], sent: dict[str, Any]) -> tuple[int, Any]:
        if self.key is not None and headers.get(self.key[0].lower()) != self.key[1]:
            return 401, {"error": "who are you?"}
        if self.stumbles["before"] > 0:
            self.stumbles["before"] -= 1
            return 503, {"error": "busy"}
        answer = self.add(sent) if name == "add" else {"data": self.search(sent)}
        if self.stumbles["after"] > 0:
            self.stumbles["after"] -= 1
            return 503, {"error": "busy"}
        return 200, self.wrong.get(name, answer)

    def add(self, sent: dict[str, Any]) -> dict[str, Any]:
        if self.repeats or sent["request_id"] not in self.taken_in:
            self.taken_in.add(sent["request_id"])
            self.kept += [(sent["user_id"], message) for message in sent["messages"]]
        return {"success": True, **{key: sent[key] for key in ("request_id", "user_id", "session_id")}}

    def search(self, sent: dict[str, Any]) -> list[dict[str, Any]]:
        asked = _words(sent["query"])
        found = [
            {"id": str(i), "content": message["content"], "score": 0.5, "created_at": message.get("timestamp")}
            for i, (user, message) in enumerate(self.kept)
            if (self.mixes or user == sent["user_id"]) and asked & _words(message["content"])
        ]
        found.sort(key=lambda item: -len(asked & _words(str(item["content"]))))
        return found[: sent["top_k"]]


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


class _Handler(BaseHTTPRequestHandler):
    arena: ClassVar[LoopbackArena]

    def do_POST(self) -> None:
        name = self.path.rpartition("/")[2]
        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        headers = {key.lower(): value for key, value in self.headers.items()}
        self.arena.requests.append((name, headers, sent))
        time.sleep(self.arena.sleep)
        status, reply = self.arena.reply(name, headers, sent)
        content = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        try:
            self.wfile.write(content)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Keep test output quiet."""
