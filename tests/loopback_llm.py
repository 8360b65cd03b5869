"""A language model behind OpenAI's chat protocol on 127.0.0.1, which misbehaves on demand."""

from __future__ import annotations

import itertools
import json
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any, ClassVar

from loopback import Loopback

Answer = Callable[[dict[str, Any]], "Reply"]


@dataclass(frozen=True)
class Reply:
    """What the server does with one request.

    Attributes:
        text: What the model says; None for a message without content.
        finish_reason: Why it ended.
        refusal: The field of that name.
        usage: Tokens of prompt and reply; None where the server tells none.
        status: Of HTTP; an error has no text but a body.
        body: Sent instead of an answer: data as JSON, bytes as they are.
        headers: Added to the answer; names are sent as they are here.
        delay: Seconds before the answer; they end early when the server is closed.
        pieces: In how many parts the answer is sent, with `delay` before each.
        drop: Of the answer, the bytes that are sent before the connection breaks; None for all.
    """

    text: str | None = ""
    finish_reason: str | None = "stop"
    refusal: str | None = None
    usage: tuple[Any, Any] | None = (11, 7)
    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    pieces: int = 1
    drop: int | None = None


def error(status: int, message: str, code: str | None = None, **headers: str) -> Reply:
    """An error in OpenAI's form; `retry_after="2"` is a header."""
    body = {"error": {"message": message, "type": "error", "param": None, "code": code}}
    return Reply(status=status, body=body, headers={k.replace("_", "-"): v for k, v in headers.items()})


def rate_limited(seconds: str) -> Reply:
    return error(429, "Rate limit reached", "rate_limit_exceeded", retry_after=seconds)


def cut(text: str) -> Reply:
    return Reply(text, finish_reason="length")


def script(*replies: Reply) -> Answer:
    """Give these replies in the order of the requests; one more request is the last one again."""
    left = itertools.chain(replies, itertools.repeat(replies[-1]))
    lock = threading.Lock()

    def answer(body: dict[str, Any]) -> Reply:
        with lock:
            return next(left)

    return answer


@dataclass(frozen=True)
class LLMRequest:
    """What a client sent; header names are in lower case, and the key is not among them."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]

    @property
    def prompt(self) -> str:
        """The last message."""
        return str(self.body["messages"][-1]["content"])


class LoopbackLLM(Loopback):
    """The server, running between `with` and the end of the block.

    Args:
        answer: Decides what to do from the body of a request; it is called in the thread of the request.

    Attributes:
        base_url: For `OPENAI_BASE_URL`.
        requests: All requests so far, in order of arrival.
        keys: All keys that were sent.
        most_at_once: The highest number of requests that were under way at a time.
    """

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.requests: list[LLMRequest] = []
        self.keys: set[str] = set()
        self.most_at_once = 0
        self._at_once = 0
        self._lock = threading.Lock()
        self.closing = threading.Event()
        self.connections: set[socket.socket] = set()
        super().__init__(type("Handler", (_Handler,), {"llm": self}))
        self._server.socket.listen(256)  # a connection that finds the queue full tries again only after a second
        self.base_url = f"{self.url}/v1"

    def __exit__(self, *exception: object) -> None:
        self.closing.set()
        super().__exit__(*exception)
        # Clients keep connections open; one that asks after the end is to find nobody there.
        for connection in list(self.connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def begins(self, request: LLMRequest, key: str) -> None:
        with self._lock:
            self.requests.append(request)
            self.keys.add(key)
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)

    def ends(self) -> None:
        with self._lock:
            self._at_once -= 1


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else an answer in two parts waits for the client to confirm the first
    llm: ClassVar[LoopbackLLM]

    def setup(self) -> None:
        super().setup()
        self.llm.connections.add(self.connection)

    def finish(self) -> None:
        self.llm.connections.discard(self.connection)
        super().finish()

    def do_POST(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        key = headers.pop("authorization", "").removeprefix("Bearer ")
        body = json.loads(self.rfile.read(int(headers["content-length"])))
        self.llm.begins(LLMRequest(self.path, headers, body), key)
        try:
            if self.path.endswith("/v1/chat/completions"):
                self._send(self.llm.answer(body))
            else:
                self._send(Reply(status=404, body={"error": {"message": f"no such path: {self.path}"}}))
        except ConnectionError:
            self.close_connection = True  # the client did not wait
        finally:
            self.llm.ends()

    def _send(self, reply: Reply) -> None:
        body = reply.body if reply.body is not None else _completion(reply)
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.llm.closing.wait(reply.delay)
        headers = {"Content-Type": "application/json", "Content-Length": str(len(data)), **reply.headers}
        if reply.drop == 0:
            self.close_connection = True
            return
        self.send_response_only(reply.status, _phrase(reply.status))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        size = max(1, -(-len(data) // reply.pieces))
        for start in range(0, len(data), size):
            if start:
                self.llm.closing.wait(reply.delay)
            self.wfile.write(data[start : start + size][: _left(reply, start)])
        if reply.drop is not None:
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Keep test output quiet."""


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"


def _left(reply: Reply, start: int) -> int | None:
    return None if reply.drop is None else max(0, reply.drop - start)


def _completion(reply: Reply) -> dict[str, Any]:
    message = {"role": "assistant", "content": reply.text, "refusal": reply.refusal}
    completion: dict[str, Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": "loopback",
        "choices": [{"index": 0, "message": message, "finish_reason": reply.finish_reason}],
    }
    if reply.usage is not None:
        prompt, answer = reply.usage
        completion["usage"] = {"prompt_tokens": prompt, "completion_tokens": answer}
    return completion
