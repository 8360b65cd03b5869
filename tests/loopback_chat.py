"""A chat API on 127.0.0.1 that speaks the protocols of OpenAI and of Anthropic and keeps what it was sent."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any, ClassVar

from loopback import Loopback

Message = dict[str, str]


@dataclass(frozen=True)
class Raw:
    """A reply as it goes over the wire.

    Attributes:
        body: Data as JSON, bytes as they are; None for a connection that breaks.
        status: Of HTTP.
        headers: Beside length and type.
        delay: Seconds before it; they end early when the server is closed.
    """

    body: Any
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0


Answer = Callable[[list[Message]], "str | HTTPStatus | Raw | None"]


@dataclass(frozen=True)
class ChatRequest:
    """What a client sent, and the port of the connection that it came over; header names are in lower case."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]
    port: int = 0

    @property
    def messages(self) -> list[Message]:
        """The conversation in OpenAI's form, whichever protocol it came in."""
        system = [{"role": "system", "content": self.body["system"]}] if "system" in self.body else []
        return system + [{**m, "content": _text(m["content"])} for m in self.body["messages"]]


def _text(content: str | list[dict[str, str]]) -> str:
    return content if isinstance(content, str) else "".join(block["text"] for block in content)


class LoopbackChat(Loopback):
    """The server, running between `with` and the end of the block.

    Paths that end in `/chat/completions` are answered as OpenAI does, those in `/messages` as Anthropic does.

    Args:
        answer: What to say: a text, None for an answer without content, a status to refuse the request with, or what
            goes over the wire. Or a function from the messages to one of these.

    Attributes:
        requests: All requests so far, in order of arrival.
    """

    def __init__(self, answer: Answer | str | HTTPStatus | Raw | None) -> None:
        self.answer: Answer = answer if callable(answer) else lambda _: answer
        self.requests: list[ChatRequest] = []
        self.closing = threading.Event()
        super().__init__(type("Handler", (_Handler,), {"chat": self}))

    def __exit__(self, *exception: object) -> None:
        self.closing.set()
        super().__exit__(*exception)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # connections stay open
    disable_nagle_algorithm = True  # else an answer in two parts waits for the client to confirm the first
    chat: ClassVar[LoopbackChat]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = ChatRequest(self.path, headers, body, self.client_address[1])
        self.chat.requests.append(request)
        answer = self.chat.answer(request.messages)
        if isinstance(answer, Raw):
            self.chat.closing.wait(answer.delay)
            if answer.body is None:
                self.close_connection = True
            else:
                self.send(answer.status, answer.body, answer.headers)
        elif isinstance(answer, HTTPStatus):
            self.send(answer, {"error": {"message": answer.phrase}})
        elif self.path.endswith("/chat/completions"):
            choice = {"index": 0, "message": {"role": "assistant", "content": answer}, "finish_reason": "stop"}
            self.send(HTTPStatus.OK, {"object": "chat.completion", "choices": [choice]})
        elif self.path.endswith("/messages"):
            thinking = {"type": "thinking", "thinking": "Perhaps <final_answer>(d)?", "signature": "x"}
            content = [] if answer is None else [thinking, {"type": "text", "text": answer}]
            self.send(HTTPStatus.OK, {"type": "message", "role": "assistant", "content": content})
        else:
            self.send(HTTPStatus.NOT_FOUND, {"error": {"message": f"no such path: {self.path}"}})

    def send(self, status: int, body: Any, headers: Mapping[str, str] | None = None) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {
            "Content-Type": "application/json",
            "Content-Length": str(len(data)),
            **(headers or {}),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        try:
            self.wfile.write(data)
        except ConnectionError:
            self.close_connection = True  # the client has had enough

    def log_message(self, format: str, *args: object) -> None:
        """Keep test output quiet."""
