"""One request: whole and bounded, or an error that says why and quotes nothing that was sent."""

from __future__ import annotations

import gzip
import resource
import socket
import sys
import threading
import time
import traceback
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from loopback_llm import LoopbackLLM, Reply, script

from generation import http
from generation.http import (
    Address,
    HttpError,
    PrivateHeaders,
    Redirected,
    ReplyTooLong,
    Response,
    TimedOut,
    Unreachable,
    address_of,
    is_header_value,
    post,
)

KEY = "sk-SeCrEt-0123456789abcdef"
BODY = b'{"model": "m", "messages": []}'


def send(url: str, timeout: float = 10) -> Response:
    address = address_of(url)
    assert address is not None
    return post(address, BODY, PrivateHeaders({"Authorization": f"Bearer {KEY}"}), timeout)


@contextmanager
def served(reply: Reply) -> Iterator[str]:
    with LoopbackLLM(script(reply)) as server:
        yield f"{server.base_url}/chat/completions"


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)


def test_a_reply_comes_with_status_headers_and_content() -> None:
    with served(Reply(status=418, body=b"short and stout", headers={"X-Pot": "tea"})) as url:
        reply = send(url)
    assert (reply.status, reply.headers["x-pot"], reply.content) == (418, "tea", b"short and stout")


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", gzip.compress(b"hello", mtime=0)),
        ("GZIP", gzip.compress(b"hello", mtime=0)),
        ("gzip", gzip.compress(b"hel", mtime=0) + gzip.compress(b"lo", mtime=0)),
        ("deflate", zlib.compress(b"hello")),
        ("identity", b"hello"),
    ],
    ids=["gzip", "capitals", "two in a row", "deflate", "identity"],
)
def test_compressed_replies_are_read(encoding: str, body: bytes) -> None:
    with served(Reply(body=body, headers={"Content-Encoding": encoding}, pieces=3)) as url:
        assert send(url).content == b"hello"


@pytest.mark.parametrize(
    ("encoding", "body", "said"),
    [
        ("gzip", gzip.compress(b"hello", mtime=0)[:-9], "ends early"),
        ("gzip", b"", "ends early"),
        ("gzip", b"hello", "no gzip"),
        ("br", b"hello", "'br', which was not asked for"),
        ("gzip, gzip", gzip.compress(b"hello", mtime=0), "not asked for"),
    ],
    ids=["cut", "empty", "plain", "brotli", "twice"],
)
def test_badly_compressed_replies_are_errors(encoding: str, body: bytes, said: str) -> None:
    with served(Reply(body=body, headers={"Content-Encoding": encoding})) as url, pytest.raises(HttpError, match=said):
        send(url)


def test_the_limit_holds_to_the_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    assert http.MAX_REPLY_BYTES == 2**25
    most = 2**20
    monkeypatch.setattr(http, "MAX_REPLY_BYTES", most)
    with served(Reply(body=b"x" * most)) as url:
        assert len(send(url).content) == most
    with served(Reply(body=b"x" * (most + 1))) as url, pytest.raises(ReplyTooLong, match="limit of 1 MiB"):
        send(url)
    packed = Reply(body=gzip.compress(b"x" * most, 1), headers={"Content-Encoding": "gzip"})
    with served(packed) as url:
        assert len(send(url).content) == most


@pytest.mark.skipif(sys.platform != "linux", reason="kilobytes on Linux only")
@pytest.mark.parametrize("layers", [1, 20])
def test_a_bomb_is_not_unpacked(layers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MAX_REPLY_BYTES", 2**20)
    packer = zlib.compressobj(1, wbits=31)
    bomb = layers * (b"".join(packer.compress(b"z" * 2**20) for _ in range(128)) + packer.flush())
    with served(Reply(body=bomb, headers={"Content-Encoding": "gzip"})) as url:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(ReplyTooLong):
            send(url)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60_000


@pytest.mark.parametrize("status", [300, 301, 302, 303, 307, 308])
def test_no_redirect_is_followed(status: int) -> None:
    with LoopbackLLM(script(Reply("{}"))) as other:
        at = other.base_url.replace("127.0.0.1", "localhost")
        there = f"{at.replace('//', '//me:hidden@')}/chat/completions?key=hidden"
        with (
            served(Reply(status=status, headers={"Location": there}, body="")) as url,
            pytest.raises(Redirected) as caught,
        ):
            send(url)
        assert f"redirects to {at}/chat/completions" in str(caught.value)
        assert "hidden" not in str(caught.value)
        assert other.requests == []


@pytest.mark.parametrize("location", ["", "/elsewhere", "http://[", "ftp://x", "http://\u20ac/"])
def test_a_redirect_to_nowhere_is_an_error_as_well(location: str) -> None:
    reply = Reply(status=307, headers={"Location": location.encode().decode("latin-1")}, body="")
    with served(reply) as url, pytest.raises(Redirected, match=r"127\.0\.0\.1"):
        send(url)


# --- what breaks


@contextmanager
def raw(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """Run a server that says anything, for one connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(2**16)
                try:
                    serve(connection)
                except OSError:
                    return

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        thread.join(5)


def drip(line: bytes) -> Callable[[socket.socket], None]:
    def serve(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n")
        for _ in range(60):
            connection.sendall(line)
            time.sleep(0.05)

    return serve


@pytest.mark.parametrize(
    "serve",
    [
        lambda connection: time.sleep(0.5),
        drip(b"X-A: 1\r\n"),
        drip(b"x"),
        drip(b" "),
    ],
    ids=["silence", "headers", "one header", "spaces"],
)
def test_a_reply_that_takes_too_long_is_given_up(serve: Callable[[socket.socket], None]) -> None:
    began = time.monotonic()
    with raw(serve) as url, pytest.raises(TimedOut):
        send(url, 0.3)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"220 mail.example.org ESMTP\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X-A: 1\r\n" * 200 + b"\r\n",
        b"HTTP/1.1 99999 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX-A: " + b"y" * 70_000,
    ],
    ids=["nothing", "mail", "short", "no last chunk", "no chunk", "many headers", "no status", "long header"],
)
def test_a_broken_reply_is_an_error(said: bytes) -> None:
    with raw(lambda connection: connection.sendall(said)) as url, pytest.raises(HttpError):
        send(url, 5)


def test_a_reply_in_chunks_is_read() -> None:
    said = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    with raw(lambda connection: connection.sendall(said)) as url:
        assert send(url).content == b"hello"


def answering(listener: socket.socket, replies: list[list[bytes]], got: list[bytes]) -> None:
    """Serve as many connections as there are lists; each closes when its replies are given."""
    for said in replies:
        connection, _ = listener.accept()
        with connection:
            for reply in said:
                got.append(b"")
                while BODY not in got[-1]:
                    got[-1] += connection.recv(2**16)
                connection.sendall(reply)


def test_connections_are_kept_but_no_request_is_sent_twice() -> None:
    ok = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    got: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        thread = threading.Thread(target=answering, args=(listener, [[ok, ok, b""], [ok]], got), daemon=True)
        thread.start()
        assert [send(url).content, send(url).content] == [b"ok", b"ok"]
        with pytest.raises(HttpError, match="connection broke"):
            send(url)
        assert len(got) == 3
        assert send(url).content == b"ok"
        thread.join(5)
    assert len(got) == 4


def test_who_is_not_there_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(Unreachable, match="refused"):
        send(f"http://127.0.0.1:{port}/v1")

    def nowhere(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", nowhere)
    with pytest.raises(Unreachable, match="no such host"):
        send("http://nowhere.example/v1")


def test_no_error_holds_the_key() -> None:
    with served(Reply(drop=0)) as url, pytest.raises(HttpError) as caught:
        send(url)
    shown = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    assert KEY not in "".join(shown.format())
    assert caught.value.__cause__ is None


# --- addresses and proxies


@pytest.mark.parametrize(
    ("url", "shown", "target"),
    [
        ("https://host.example/v1/", "https://host.example/v1", "/v1/"),
        ("https://me:hidden@host.example:8443/v1?key=hidden#part", "https://host.example:8443/v1", "/v1?key=hidden"),
        ("http://[::1]:8080/v1", "http://[::1]:8080/v1", "/v1"),
        ("http://localhost", "http://localhost", ""),
    ],
)
def test_an_address_is_shown_without_credentials_and_query(url: str, shown: str, target: str) -> None:
    address = address_of(url)
    assert address is not None
    assert (address.shown, address.target, repr(address)) == (shown, target, shown)


@pytest.mark.parametrize(
    "url",
    ["", "localhost:80", "ftp://a", "https://", "http://[", "http://a:b", "http://a:99999", "http://a b", "http://a\n"],
)
def test_what_is_no_address(url: str) -> None:
    assert address_of(url) is None


@pytest.mark.parametrize("text", ["a\nb", "a\rb", "\x00", "ä", "\x7f"])
def test_what_cannot_be_a_header(text: str) -> None:
    assert not is_header_value(text)
    assert is_header_value("Bearer sk-1_2.3/=")


def test_the_proxy_of_the_environment_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    said = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    got = []

    def serve(connection: socket.socket) -> None:
        connection.sendall(said)

    with raw(serve) as url:
        monkeypatch.setenv("http_proxy", url)
        address = address_of("http://model.example/v1/chat")
        assert address is not None
        got.append(post(address, BODY, {}, 5).content)
    assert got == [b"ok"]
    monkeypatch.setenv("http_proxy", "socks5://127.0.0.1:1")
    with pytest.raises(Unreachable, match="proxy"):
        post(address, BODY, {}, 5)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with served(Reply("{}")) as url:
        assert send(url).status == 200


def test_addresses_compare_by_all_that_they_are() -> None:
    assert Address("http", "a", 80, "/") == address_of("http://a/")
