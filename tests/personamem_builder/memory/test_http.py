"""`HttpMemory` against a server that does as it is told, and against the reference server in `examples/`."""

from __future__ import annotations

import gzip
import json
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from loopback_memory import LoopbackMemory, Raw

from generation.errors import UserError
from generation.http import MAX_REPLY_BYTES as LIMIT
from personamem_builder.dataset.check import read_questions
from personamem_builder.dataset.contexts import iter_contexts
from personamem_builder.memory.http import HttpMemory
from personamem_builder.memory.json_server import MemoryFault
from personamem_builder.memory.registry import find_system
from personamem_builder.memory.runner import run_memory
from personamem_builder.memory.system import Memory, Session
from personamem_builder.table_files import contexts_path

ROOT = Path(__file__).parents[3]

SESSION = Session(
    number=3,
    date="2024-05-01",
    messages=(
        {"role": "system", "content": "About the user. Age: 30."},
        {"role": "user", "content": "I adopted a greyhound called Pixel."},
        {"role": "assistant", "content": "Congratulations!"},
    ),
    first_index=40,
)


def agreeable(name: str, sent: dict[str, Any]) -> dict[str, Any]:
    """Reply as a server should that knows one thing."""
    return (
        {"memories": [{"text": "I have a dog.", "date": "2024-05-01", "message_indices": [41]}]}
        if name == "search"
        else {}
    )


def raw(content: str | bytes, status: int = 200, content_type: str = "application/json", **more: Any) -> Raw:
    return Raw(status, content.encode() if isinstance(content, str) else content, content_type, **more)


# ---- what is sent


def test_what_a_server_is_sent() -> None:
    with LoopbackMemory(agreeable) as server:
        memory = HttpMemory(server.url)
        memory.reset()
        memory.add_session(SESSION)
        assert memory.search("Which pet do I have?", 5) == [Memory("I have a dog.", "2024-05-01", (41,))]
    assert [name for name, _ in server.requests] == ["reset", "sessions", "search"]
    (_, reset), (_, sessions), (_, search) = server.requests
    context = reset["context"]
    assert context
    assert reset == {"version": 1, "context": context}
    assert sessions == {
        "version": 1,
        "context": context,
        "session": {
            "number": 3,
            "date": "2024-05-01",
            "first_index": 40,
            "messages": [dict(message) for message in SESSION.messages],
        },
    }
    assert search == {"version": 1, "context": context, "query": "Which pet do I have?", "k": 5}


def test_each_reset_begins_a_context_of_its_own() -> None:
    with LoopbackMemory(agreeable) as server:
        memory = HttpMemory(server.url)
        for _ in range(3):
            memory.reset()
            memory.add_session(SESSION)
    contexts = [sent["context"] for sent in server.sent_to("sessions")]
    assert len(set(contexts)) == 3
    assert contexts == [sent["context"] for sent in server.sent_to("reset")]


def test_a_path_in_the_address_is_kept() -> None:
    with LoopbackMemory(agreeable) as server:
        memory = HttpMemory(f"{server.url}/v2/")
        memory.reset()
        assert memory.search("Hi", 1)


def test_texts_arrive_as_they_are() -> None:
    text = 'Zürich 日本 🦊 "quoted"\n<b>\u2028 and half a pair: \ud83d'
    with LoopbackMemory(agreeable) as server:
        memory = HttpMemory(server.url)
        memory.add_session(SESSION._replace(messages=({"role": "user", "content": text},)))
        memory.search(text, 1)
    assert server.sent_to("sessions")[0]["session"]["messages"][0]["content"] == text
    assert server.sent_to("search")[0]["query"] == text


# ---- what a server may say


def test_only_a_server_that_says_so_answers_questions_itself() -> None:
    def reply(name: str, sent: dict[str, Any]) -> dict[str, Any]:
        return {"reset": {"answers": True}, "answer": {"index": 2}}[name]

    with LoopbackMemory(agreeable) as server:
        memory = HttpMemory(server.url)
        memory.reset()
        assert memory.answer is None
    with LoopbackMemory(reply) as server:
        memory = HttpMemory(server.url)
        assert memory.answer is None
        memory.reset()
        assert memory.answer is not None
        assert memory.answer("Which?", ["a", "b", "c", "d"]) == 2
        with pytest.raises(MemoryFault, match="no option 2 among 2"):
            memory.answer("Which?", ["a", "b"])
    assert server.sent_to("answer")[0]["options"] == ["a", "b", "c", "d"]
    assert server.sent_to("answer")[0]["question"] == "Which?"


def test_usage_is_summed() -> None:
    with LoopbackMemory(lambda name, sent: {"usage": {"llm_calls": 1, "cost": 0.25}}) as server:
        memory = HttpMemory(server.url)
        assert memory.usage() == {}
        memory.add_session(SESSION)
        memory.add_session(SESSION)
    assert memory.usage() == {"llm_calls": 2, "cost": 0.5}


def test_keys_of_later_versions_are_let_be() -> None:
    with LoopbackMemory(lambda name, sent: {"memories": [{"text": "x", "score": 0.5}], "took": 3}) as server:
        assert HttpMemory(server.url).search("Hi", 1) == [Memory("x")]


# ---- what goes wrong


BOMB = gzip.compress(b'{"version": 1, "memories": [{"text": "' + b"x" * LIMIT)

FAULTS: dict[str, tuple[dict[str, Any] | Raw, str]] = {
    "HTML": (
        raw("<!doctype html><p>Sign in", content_type="text/html"),
        "not JSON but text/html: '<!doctype html><p>Sign",
    ),
    "nothing": (raw(""), "not JSON but application/json: nothing"),
    "no UTF-8": (raw(b'{"version": 1, "memories": "\xff"}'), "not JSON"),
    "a list": (raw("[]"), "the whole"),
    "brackets without end": (raw("[" * 200_000), "not JSON"),
    "lists without end": (raw("[" + "[]," * 1_000_000 + "[]]"), "not JSON"),
    "no memories": ({}, "memories: Field required"),
    "a text for memories": ({"memories": "a dog"}, "memories: Input should be a valid list"),
    "texts for memories": ({"memories": ["a dog"]}, r"memories\.0"),
    "no text": ({"memories": [{"text": "x"}, {"text": None}]}, r"memories\.1\.text"),
    "a number for a date": ({"memories": [{"text": "x", "date": 2024}]}, r"memories\.0\.date"),
    "a place before the first": ({"memories": [{"text": "x", "message_indices": [-1]}]}, "message_indices"),
    "true for a place": ({"memories": [{"text": "x", "message_indices": [True]}]}, "message_indices"),
    "a usage without end": ({"memories": [], "usage": {"cost": float("inf")}}, "usage.cost"),
    "no version": (raw('{"memories": []}'), "version: Field required"),
    "another version": (raw('{"version": 2, "memories": []}'), "speaks version 2, not 1"),
    "a reason": (raw('{"error": "no such context"}', status=404), "HTTP 404: no such context"),
    "a reason without end": (raw(json.dumps({"error": "x" * 5000}), status=500), f"HTTP 500: {'x' * 200}\n"),
    "a page for a reason": (raw("<h1>Bad gateway</h1>", status=502, content_type="text/html"), "HTTP 502: '<h1>Bad"),
    "another place": (raw("", status=307), "redirects elsewhere"),
    "another host": (raw("", status=308, headers={"Location": "http://b/c?d"}), "redirects to http://b/c "),
    "too much": ({"memories": [{"text": "x" * LIMIT}]}, "longer than the limit of 32 MiB"),
    "too much, packed": (raw(BOMB, headers={"Content-Encoding": "gzip"}), "longer than the limit of 32 MiB"),
    "less than announced": (raw('{"version": 1, "memories": []}', announced=1000), "ends early"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_reply_is_named_and_the_next_one_is_read(fault: str) -> None:
    reply, message = FAULTS[fault]
    replies = iter([reply, agreeable("search", {})])
    with LoopbackMemory(lambda name, sent: next(replies)) as server:
        memory = HttpMemory(server.url)
        with pytest.raises(MemoryFault, match=message) as raised:
            memory.search("Hi", 5)
        assert len(raised.value.message) < 600
        assert f"{server.url}/search" in raised.value.message
        assert memory.search("Hi", 5)
    assert len(server.requests) == 2, "a request was sent again"


def test_a_reply_of_just_the_limit_is_read() -> None:
    empty = len(json.dumps({"version": 1, "memories": [{"text": ""}]}))
    text = "x" * (LIMIT - empty)
    with LoopbackMemory(lambda name, sent: {"memories": [{"text": text}]}) as server:
        assert HttpMemory(server.url).search("Hi", 1) == [Memory(text)]


@pytest.fixture
def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
    return port


def test_a_packed_reply_is_read() -> None:
    packed = gzip.compress(b'{"version": 1, "memories": [{"text": "x"}]}')
    with LoopbackMemory(lambda name, sent: raw(packed, headers={"Content-Encoding": "gzip"})) as server:
        assert HttpMemory(server.url).search("Hi", 1) == [Memory("x")]


def test_no_server(free_port: int) -> None:
    with pytest.raises(MemoryFault, match=rf"http://127\.0\.0\.1:{free_port}/reset: no server is there") as raised:
        HttpMemory(f"http://127.0.0.1:{free_port}").reset()
    assert raised.value.hint


def test_a_host_that_cannot_be() -> None:
    with pytest.raises(MemoryFault, match=r"http://a\.\.b/reset"):
        HttpMemory("http://a..b").reset()


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:8765",
        "ftp://127.0.0.1",
        "http://",
        "http://127.0.0.1:x",
        "http://[::1",
        "http://a/?b",
        "http://a/b c",
    ],
)
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(UserError, match="not an address of a memory server"):
        HttpMemory(url)


def test_no_time() -> None:
    with pytest.raises(UserError, match="timeout=0"):
        HttpMemory("http://127.0.0.1", timeout=0)


Serve = Callable[[socket.socket], None]


def drip(connection: socket.socket) -> None:
    """Send a reply that never ends, bit by bit, so that no single read waits long."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n")
    for _ in range(100):
        connection.sendall(b" ")
        time.sleep(0.05)


def say_nothing(connection: socket.socket) -> None:
    time.sleep(1.5)


@pytest.mark.parametrize("serve", [say_nothing, drip])
def test_a_server_that_takes_too_long(serve: Serve) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            connection, _ = listener.accept()
            with connection:
                try:
                    serve(connection)
                except OSError:
                    return

        threading.Thread(target=accept, daemon=True).start()
        started = time.monotonic()
        with pytest.raises(MemoryFault, match=r"/search: no reply in 0\.3 s"):
            HttpMemory(f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=0.3).search("Hi", 1)
        assert time.monotonic() - started < 1.2


def test_a_reply_without_end_is_not_read_to_its_end() -> None:
    sent = 0

    with socket.create_server(("127.0.0.1", 0)) as listener:

        def flood() -> None:
            nonlocal sent
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
                try:
                    while sent < 4 * LIMIT:
                        sent += connection.send(b" " * 2**16)
                except OSError:
                    return

        threading.Thread(target=flood, daemon=True).start()
        with pytest.raises(MemoryFault, match="longer than the limit of 32 MiB"):
            HttpMemory(f"http://127.0.0.1:{listener.getsockname()[1]}").search("Hi", 1)
    assert sent < 2 * LIMIT


def test_something_that_speaks_no_http() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(2**16)
                connection.sendall(b"220 mail.example.org ESMTP\r\n")

        threading.Thread(target=accept, daemon=True).start()
        with pytest.raises(MemoryFault, match="connection broke"):
            HttpMemory(f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=5).search("Hi", 1)


# ---- the reference server


@pytest.fixture(scope="module")
def reference() -> Iterator[str]:
    """The address of `examples/memory_server.py`, running in a process of its own."""
    command = [sys.executable, ROOT / "examples" / "memory_server.py", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.kill()


def said(*texts: str, first_index: int = 0, number: int = 0, date: str = "") -> Session:
    return Session(number, date, tuple({"role": "user", "content": text} for text in texts), first_index)


def test_the_reference_server_finds_what_it_was_shown(reference: str) -> None:
    memory = HttpMemory(reference)
    memory.reset()
    assert memory.search("Which dog?", 5) == []
    memory.add_session(SESSION)
    memory.add_session(said("I sold my piano.", "It rained.", first_index=43, number=4))
    assert memory.search("What of the greyhound, and the age?", 5) == [
        Memory("I adopted a greyhound called Pixel.", "2024-05-01", (41,))
    ]
    assert memory.search("piano", 5) == [Memory("I sold my piano.", "", (43,))]
    assert memory.search("piano greyhound rained", 2) == memory.search("piano greyhound rained", 5)[:2]
    assert memory.answer is None
    memory.reset()
    assert memory.search("piano", 5) == []


def test_the_reference_server_takes_in_a_session_once(reference: str) -> None:
    memory = HttpMemory(reference)
    memory.reset()
    for _ in range(2):
        memory.add_session(said("I sold the piano.", first_index=7))
    memory.add_session(said("I bought another piano.", first_index=8))  # the rest of the same session
    assert [found.message_indices for found in memory.search("piano", 5)] == [(8,), (7,)]


def test_users_of_the_reference_server_do_not_mix(reference: str) -> None:
    one, other = HttpMemory(reference), HttpMemory(reference)
    one.reset()
    other.reset()
    one.add_session(said("I sold the piano."))
    other.add_session(said("I tuned the piano."))
    assert [found.text for found in one.search("piano", 5)] == ["I sold the piano."]
    assert [found.text for found in other.search("piano", 5)] == ["I tuned the piano."]


def test_the_reference_server_says_what_is_wrong(reference: str) -> None:
    memory = HttpMemory(reference)
    with pytest.raises(MemoryFault, match="HTTP 404: there is no such context"):
        memory.search("piano", 5)
    lost = HttpMemory(f"{reference}/v2")
    with pytest.raises(MemoryFault, match=f"HTTP {HTTPStatus.NOT_FOUND}"):
        lost.reset()
    memory.reset()
    with pytest.raises(MemoryFault, match="HTTP 400: the request is not as it should be: TypeError"):
        memory.search("piano", "five")  # type: ignore[arg-type]


# ---- through the runner


@pytest.mark.slow
def test_a_split_through_the_reference_server(reference: str, generated: Path, tmp_path: Path) -> None:
    one, other = (
        run_memory(generated, "32k", find_system("http", {"url": reference, "label": label}), 5, out=tmp_path / label)
        for label in ("one", "other")
    )
    assert one.questions
    assert one.digest == other.digest
    assert not any(line["error"] for line in [*one.sessions, *one.questions.values()])
    for line in one.questions.values():
        assert line["memories"]
        assert not line["faults"], "a memory is said to stand for messages that it does not hold"
        assert not line["taint"]
        assert all(index < line["end"] for _, _, indices in line["memories"] for index in indices)


def test_a_server_that_is_not_there_ends_the_run_at_once(free_port: int, generated: Path, tmp_path: Path) -> None:
    spec = find_system("http", {"url": f"http://127.0.0.1:{free_port}"})
    with pytest.raises(UserError, match="no server is there"):
        run_memory(generated, "32k", spec, out=tmp_path / "out")


def test_a_server_that_fails_now_and_then_costs_what_it_fails_at(generated: Path, tmp_path: Path) -> None:
    def reply(name: str, sent: dict[str, Any]) -> dict[str, Any] | Raw:
        if name == "search" and len(server.sent_to("search")) % 3 == 0:
            return raw('{"error": "out of memory"}', status=500)
        if name == "sessions" and sent["session"]["number"] == 1:
            return raw("<h1>Sorry</h1>", content_type="text/html")
        return agreeable(name, sent) if name != "search" else {"memories": [{"text": "The user has a dog."}]}

    with LoopbackMemory(reply) as server:
        store = run_memory(generated, "32k", find_system("http", {"url": server.url}), out=tmp_path / "out")
    failed = [line for line in store.questions.values() if line["error"]]
    assert len(failed) == len(store.questions) // 3
    assert all(line["error"].endswith("/search: HTTP 500: out of memory") for line in failed)
    assert all(line["memories"] for line in store.questions.values() if not line["error"])
    assert {line["number"] for line in store.sessions if line["error"]} == {1}


def test_a_server_that_answers_itself(generated: Path, tmp_path: Path) -> None:
    replies = {"reset": {"answers": True}, "sessions": {}, "search": {"memories": []}, "answer": {"index": 3}}
    with LoopbackMemory(lambda name, sent: replies[name]) as server:
        store = run_memory(generated, "32k", find_system("http", {"url": server.url}), out=tmp_path / "out")
    assert {line["answer"] for line in store.questions.values()} == {3}
    assert len(server.sent_to("answer")) == len(store.questions)


def test_nothing_but_the_history_and_the_questions_is_sent(generated: Path, tmp_path: Path) -> None:
    with LoopbackMemory(lambda name, sent: {"memories": []}) as server:
        run_memory(generated, "32k", find_system("http", {"url": server.url}), out=tmp_path / "out")
    rows = read_questions(generated, "32k").to_pylist()
    contexts = {context["shared_context_id"]: context for context in iter_contexts(generated / contexts_path("32k"))}
    assert {name for name, _ in server.requests} == {"reset", "sessions", "search"}
    assert sorted(sent["query"] for sent in server.sent_to("search")) == sorted(
        row["user_question_or_message"] for row in rows
    )
    written = json.dumps([sent for name, sent in server.requests if name != "search"])
    for row in rows:
        assert row["question_id"] not in written
        assert row["shared_context_id"] not in written
        assert row["question_type"] not in written
    said = {message["content"] for context in contexts.values() for message in context["messages"]}
    shown = [sent["session"] for sent in server.sent_to("sessions")]
    assert {message["content"] for session in shown for message in session["messages"]} <= said
    assert all(session.keys() == {"number", "date", "first_index", "messages"} for session in shown)


# ---- the documentation


def test_the_class_in_the_documentation_is_a_memory_system(
    generated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [code] = re.findall(r"```python\n(.+?)```", (ROOT / "docs" / "memory.md").read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "my_memory.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    store = run_memory(generated, "32k", find_system("my_memory:LastWords"), 3, out=tmp_path / "out")
    assert not any(line["error"] or line["faults"] or line["taint"] for line in store.questions.values())
    assert any(line["memories"] for line in store.questions.values())


def test_the_requests_in_the_documentation_are_those_that_are_sent() -> None:
    text = (ROOT / "docs" / "memory_http.md").read_text(encoding="utf-8")
    examples = [json.loads(block) for block in re.findall(r"```json\n(.+?)```", text, re.DOTALL)]
    requests, replies = examples[::2], examples[1::2]
    names = ("reset", "sessions", "search", "answer")
    with LoopbackMemory(lambda name, sent: {**replies[names.index(name)], "answers": True}) as server:
        memory = HttpMemory(server.url)
        memory.reset()
        memory.add_session(SESSION)
        assert memory.search("Which pet do I have?", 5) == [
            Memory("I adopted a greyhound called Pixel.", "2024-05-01", (41,)),
            Memory("The user has a dog."),
        ]
        assert memory.answer is not None
        assert memory.answer("Which pet do I have?", ["…"] * 4) == 2
    assert [name for name, _ in server.requests] == list(names)
    assert [{**sent, "context": "5f0c…"} for _, sent in server.requests] == requests
