from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

import pytest

from generation.errors import UserError
from personamem_builder.view.server import address, make_server
from personamem_builder.view.site import Site


class Reply(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    body: bytes


class Client:
    def __init__(self, port: int) -> None:
        self.port = port

    def ask(self, path: str = "/", method: str = "GET", body: bytes | None = None, **headers: str) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.putrequest(method, path, skip_host=True)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        for name, value in {"Host": f"127.0.0.1:{self.port}", "Content-Length": str(len(body or b""))}.items():
            if name not in named:
                connection.putheader(name, value)
        for name, value in named.items():
            if value:
                connection.putheader(name, value)
        connection.endheaders(body)
        reply = connection.getresponse()
        found = Reply(reply.status, reply.headers, reply.read())
        connection.close()
        return found


@pytest.fixture(scope="module")
def site(generated) -> Site:
    return Site(generated)


@pytest.fixture(scope="module")
def client(site) -> Iterator[Client]:
    with make_server(site) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        assert address(server) == f"http://127.0.0.1:{server.server_port}/"
        yield Client(server.server_port)
        server.shutdown()
        thread.join()


def test_it_serves_the_files_of_the_site(client, site):
    for name in [*site.names(), "data/0/context-0.js"]:
        reply = client.ask(f"/{name}")
        assert (reply.status, reply.body) == (200, site.content(name)), name
    assert client.ask("/").body == client.ask("/index.html?x=1").body == site.content("index.html")
    kinds = {name: client.ask(name).headers["Content-Type"] for name in ("/", "/style.css", "/data/index.js")}
    assert kinds == {
        "/": "text/html; charset=utf-8",
        "/style.css": "text/css; charset=utf-8",
        "/data/index.js": "text/javascript; charset=utf-8",
    }


def test_every_reply_forbids_what_is_not_of_this_server(client):
    for path in ("/", "/data/index.js", "/nothing"):
        headers = client.ask(path).headers
        rules = dict(rule.strip().split(" ", 1) for rule in headers["Content-Security-Policy"].split(";"))
        assert rules["default-src"] == "'none'"
        assert rules["script-src"] == rules["style-src"] == "'self'"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "[::1]:{port}", ""]
)
def test_other_hosts_are_refused(client, host):
    reply = client.ask("/data/index.js", Host=host.format(port=client.port))
    assert reply.status == 403
    assert b"personamem(" not in reply.body


def test_its_own_names_are_answered(client):
    assert client.ask(Host=f"localhost:{client.port}").status == 200
    assert client.ask(Host=f"LOCALHOST:{client.port}").status == 200


def test_parts_of_the_page_are_not_given_to_other_sites(client):
    for site_ in ("cross-site", "same-site"):
        assert client.ask("/data/index.js", Sec_Fetch_Site=site_, Sec_Fetch_Mode="no-cors").status == 403
        assert client.ask("/", Sec_Fetch_Site=site_, Sec_Fetch_Mode="navigate").status == 200
    assert client.ask("/data/index.js", Sec_Fetch_Site="same-origin", Sec_Fetch_Mode="no-cors").status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
def test_other_methods_are_refused(client, method):
    reply = client.ask("/", method, b"x=1")
    assert (reply.status, reply.headers["Allow"]) == (405, "GET, HEAD")


def test_head_has_the_headers_alone(client, site):
    reply = client.ask("/app.js", "HEAD")
    assert (reply.status, reply.body) == (200, b"")
    assert int(reply.headers["Content-Length"]) == len(site.content("app.js") or b"")


@pytest.mark.parametrize(
    "path",
    [
        "/../site.py",
        "/%2e%2e/site.py",
        "/data/../../site.py",
        "//etc/passwd",
        "/..\\site.py",
        "/site.py",
        "/%00",
        "/manifest.json",
    ],
)
def test_nothing_else_can_be_reached(client, path):
    assert client.ask(path).status == 404


def test_it_listens_to_this_computer_only(client):
    with socket.socket() as other:
        other.settimeout(5)
        # All of 127.0.0.0/8 is this computer: a server on every address would answer here.
        assert other.connect_ex(("127.0.0.2", client.port)) != 0


def test_a_port_that_is_taken_is_refused(site, client):
    with pytest.raises(UserError, match=f"port {client.port} of 127.0.0.1 cannot be used"):
        make_server(site, client.port)


def test_a_dataset_that_changes_under_it_is_said_so(generated, tmp_path, capfd):
    import shutil

    folder = tmp_path / "copy"
    shutil.copytree(generated, folder)
    with make_server(Site(folder)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        shutil.rmtree(folder)
        reply = Client(server.server_port).ask("/data/0/context-0.js")
        server.shutdown()
        thread.join()
    assert (reply.status, b"start again" in reply.body) == (500, True)
    assert "shared_contexts_32k" in capfd.readouterr().err


def request(port: int, path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode()


def body_of(connection: socket.socket) -> bytes:
    parts = []
    while part := connection.recv(1 << 16):
        parts.append(part)
    head, _, body = b"".join(parts).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    return body


@pytest.mark.parametrize("path", ["/", "/data/index.js", "/data/0/context-0.js"])
def test_two_hundred_at_once_are_all_answered(client, site, path):
    """All connections are there before the first one is served, as the server is not yet in its loop."""
    expected = site.content(path[1:] or "index.html")
    with make_server(site) as server:
        # The system may put off a connection when the queue is full: then it does not come about in this time.
        connections = [socket.create_connection(("127.0.0.1", server.server_port), timeout=0.5) for _ in range(200)]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            for connection in connections:
                connection.settimeout(30)
                connection.sendall(request(server.server_port, path))
            assert all(body_of(connection) == expected for connection in connections)
        finally:
            for connection in connections:
                connection.close()
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("head", [b"", b"G", b"GET / HTTP/1.1\r\nHost: 127"], ids=["nothing", "a letter", "half"])
def test_clients_that_never_finish_keep_nobody_waiting(client, site, head, monkeypatch):
    monkeypatch.setattr("personamem_builder.view.server._PATIENCE", 0.5)
    monkeypatch.setattr("personamem_builder.view.server._Handler.timeout", 30)  # each byte starts that clock anew
    monkeypatch.setattr("personamem_builder.view.server._MOST_CONNECTIONS", 20)
    with make_server(site) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        slow = [socket.create_connection(("127.0.0.1", server.server_port), timeout=5) for _ in range(20)]
        ended = threading.Event()

        def trickle() -> None:
            while not ended.wait(0.1):
                for connection in slow:
                    try:
                        connection.sendall(head[:1])
                    except OSError:
                        return

        trickling = threading.Thread(target=trickle)
        try:
            for connection in slow:
                connection.sendall(head)
            trickling.start()
            started = time.monotonic()
            assert Client(server.server_port).ask("/").status == 200
            assert time.monotonic() - started < 5
            for connection in slow:
                with suppress(ConnectionResetError):  # as the system says it where bytes were on their way
                    assert connection.recv(1) == b""
        finally:
            ended.set()
            trickling.join()
            for connection in slow:
                connection.close()
            server.shutdown()
            thread.join()
