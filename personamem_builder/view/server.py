"""The page on 127.0.0.1, for the person at this computer."""

from __future__ import annotations

import socket
import socketserver
import sys
import threading
import traceback
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from generation.errors import UserError
from personamem_builder.view.site import Site

HOST: Final = "127.0.0.1"

_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}

_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    # The data are scripts, which any page may load: not those of this server.
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def make_server(site: Site, port: int = 0) -> ThreadingHTTPServer:
    """Return a server of the page that listens on 127.0.0.1 only, at any free port for 0; `serve_forever` starts it.

    Raises:
        UserError: The port cannot be had.
    """
    try:
        return _Server(site, port)
    except (OSError, OverflowError) as error:
        raise UserError(
            f"port {port} of {HOST} cannot be used: {error}", "leave out --port to use a free one"
        ) from error


def address(server: ThreadingHTTPServer) -> str:
    """Return the address of the page."""
    return f"http://{HOST}:{server.server_port}/"


_BACKLOG: Final = 1024
"""Connections that wait to be taken: a browser, or a script, opens many at once."""

_MOST_CONNECTIONS: Final = 512
"""Connections that are served at once, each by a thread; more than these wait."""

_PATIENCE: Final = 5.0
"""Seconds in which the head of a request must be there, and after which a connection that takes nothing is closed."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = _BACKLOG
    allow_reuse_address = sys.platform != "win32"  # there it would let two programs have one port

    def __init__(self, site: Site, port: int) -> None:
        self.site = site
        self._free = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        super().__init__((HOST, port), _Handler)

    def server_bind(self) -> None:
        # That of HTTPServer asks the name service for the name of this computer, which may take seconds.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = HOST, self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread of its own, once one is free."""
        self._free.acquire()
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: object, client_address: object) -> None:
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):  # a browser that has left is no error
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Handler(BaseHTTPRequestHandler):
    """Answers the requests of one connection."""

    server: _Server
    protocol_version = "HTTP/1.1"
    server_version = "personamem"
    sys_version = ""
    timeout = _PATIENCE  # an idle connection does not keep its thread for ever

    def handle_one_request(self) -> None:
        """Answer the next request, whose head must be there in time: each byte of it starts the socket's clock anew."""
        late = threading.Timer(_PATIENCE, self._give_up)
        late.daemon = True
        self._late = late
        late.start()
        try:
            super().handle_one_request()
        finally:
            late.cancel()

    def parse_request(self) -> bool:
        """Read the head of a request."""
        is_request = super().parse_request()
        self._late.cancel()
        return is_request

    def _give_up(self) -> None:
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def do_GET(self) -> None:
        """Answer with a file."""
        refusal = self._refusal()
        if refusal is not None:
            self._send(*refusal)
            return
        name = self.path.partition("?")[0].removeprefix("/") or "index.html"
        try:
            content = self.server.site.content(name)
        except (OSError, UserError, ValueError):
            traceback.print_exc()
            self._send(HTTPStatus.INTERNAL_SERVER_ERROR, "the dataset was changed or is damaged: start again")
            return
        if content is None:
            self._send(HTTPStatus.NOT_FOUND, "no such file")
            return
        self._send(HTTPStatus.OK, content, _TYPES[name.rpartition(".")[2]])

    do_HEAD = do_GET

    def _refuse(self) -> None:
        self.close_connection = True  # the body of the request is not read
        self._send(HTTPStatus.METHOD_NOT_ALLOWED, "GET and HEAD only")

    do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_TRACE = do_CONNECT = _refuse

    def _refusal(self) -> tuple[HTTPStatus, str] | None:
        port = self.server.server_port
        hosts = {f"{name}:{port}" for name in (HOST, "localhost")} | ({HOST, "localhost"} if port == 80 else set())
        given = self.headers.get_all("Host", [])
        if len(given) != 1 or given[0].strip().lower() not in hosts:
            # The name of another site may be made to point here; its pages must not read ours.
            return HTTPStatus.FORBIDDEN, "this server answers to its own address only"
        # Sent by browsers: pages of other sites may link to this one, and not load parts of it.
        foreign = self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin")
        if foreign and self.headers.get("Sec-Fetch-Mode") != "navigate":
            return HTTPStatus.FORBIDDEN, "another site asked for this"
        return None

    def _send(self, status: HTTPStatus, body: bytes | str, kind: str = "text/plain; charset=utf-8") -> None:
        content = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET, HEAD")
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: the terminal is the user's."""
