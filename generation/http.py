"""HTTP as every client of this project speaks it: no redirects, bounded replies, and errors that quote nothing sent."""

from __future__ import annotations

import io
import json
import os
import re
import socket
import ssl
import threading
import time
import urllib.request
import zlib
from base64 import b64encode
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache, partial
from http.client import HTTPResponse, IncompleteRead
from importlib.util import find_spec
from typing import Any, Final, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError, InsecureRequestWarning, LocationParseError

MAX_REPLY_BYTES: Final = 32 * 2**20
"""Longest reply that is read, decompressed."""

MAX_VALUES: Final = 1_000_000
"""Most lists and mappings in a reply that is JSON; each takes more memory than the two characters that it may be."""

_PART: Final = 2**16
_MOST_DIGITS: Final = 19
# Some gates let nobody in who does not say who they are.
_HEADERS: Final = {"Accept-Encoding": "gzip", "User-Agent": "personamem"}
_POOLS_KEPT: Final = 8


class HttpError(Exception):
    """There is no reply; the message says why and holds nothing that was sent."""


class Unreachable(HttpError):
    """There is no such server, or none that can be trusted."""


class TimedOut(HttpError):
    """There was no whole reply in time."""


class ReplyTooLong(HttpError):
    """The reply is longer than `MAX_REPLY_BYTES`."""


class Redirected(HttpError):
    """The server sends its clients elsewhere; nothing was sent there."""


class Response(NamedTuple):
    """A whole reply.

    Attributes:
        status: Of HTTP; none that redirects.
        content: Decompressed.
    """

    status: int
    headers: Mapping[str, str]
    content: bytes


class PrivateHeaders(dict[str, str]):
    """Headers with a key among them: they are shown nowhere."""

    def __repr__(self) -> str:
        return "<private headers>"

    __str__ = __repr__


class Address(NamedTuple):
    """Where requests go.

    Attributes:
        port: As given, else that of the scheme.
        credentials: `user:password` of the URL; empty where it has none.
    """

    scheme: str
    host: str
    port: int
    target: str
    credentials: str = ""

    @property
    def place(self) -> str:
        """Host and port, as a URL has them; the port only where it is not that of the scheme."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def shown(self) -> str:
        """The URL without credentials and query."""
        return f"{self.scheme}://{self.place}{self.target.partition('?')[0]}".rstrip("/")

    def __repr__(self) -> str:
        return self.shown


_PORTS: Final = {"http": 80, "https": 443}


def address_of(url: str) -> Address | None:
    """Take a URL apart; None where it is none of HTTP."""
    try:
        parts: SplitResult = urlsplit(url)
        port = parts.port  # fails where it is no number
    except ValueError:
        return None
    if not parts.hostname or parts.scheme not in _PORTS or not url.isascii() or re.search(r"[\s\x00-\x1f\x7f]", url):
        return None
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    credentials = parts.netloc.rpartition("@")[0]
    return Address(parts.scheme, parts.hostname, port or _PORTS[parts.scheme], target, unquote(credentials))


def is_header_value(text: str) -> bool:
    """Say whether a text can be sent as a header; urllib3 would quote one that cannot in its error."""
    return text.isascii() and (text.isprintable() or not text)


def body_as_json(text: str) -> Any:
    """Parse the body of a reply; a whole number that has more digits than those of 64 bits becomes None.

    Raises:
        ValueError: It is no JSON, or more of it than `MAX_VALUES`, or nested too deep.
    """
    if text.count("{") + text.count("[") > MAX_VALUES:
        raise ValueError(f"it has more than {MAX_VALUES:,} lists and mappings")
    try:
        return json.loads(text, parse_int=lambda digits: int(digits) if len(digits) <= _MOST_DIGITS else None)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def post(
    address: Address,
    body: bytes,
    headers: Mapping[str, str],
    timeout: float,
    *,
    use_proxy: bool = True,
    context: ssl.SSLContext | None = None,
) -> Response:
    """Send one request, once, and return the reply, whatever its status, unless it redirects.

    Connections are kept for the next request of the same thread, unless the headers say `Connection: close`. Without
    a context, https trusts what the machine trusts.

    Raises:
        HttpError: There is no whole reply of bounded size, or the server sends us elsewhere.
    """
    own = {"Authorization": _basic(address.credentials)} if address.credentials else {}
    sent = PrivateHeaders({**_HEADERS, **own, **headers})
    proxy = _proxy_for(address) if use_proxy else None
    if address.scheme == "https":
        context = context or trusted()
    try:
        response = _kept.pools(os.getpid(), proxy, context).urlopen(
            "POST",
            f"{address.scheme}://{address.place}{address.target}",
            body=body,
            headers=sent,
            timeout=urllib3.Timeout(total=timeout),
            retries=False,
            redirect=False,
            preload_content=False,
            decode_content=False,
        )
        try:
            _refuse_redirect(address, response)
            content = _content(response)
        finally:
            response.close()  # and its connection, unless the reply is whole
    except (HTTPError, OSError, IncompleteRead, UnicodeError) as error:
        raise _named(error, timeout) from None
    return Response(response.status, {name.lower(): value for name, value in response.headers.items()}, content)


class _KeptConnections(threading.local):
    """The connections of a thread: what it asks an endpoint goes over one of them, as long as that is kept open."""

    def __init__(self) -> None:
        self.pools = lru_cache(maxsize=_POOLS_KEPT)(_pools)


def _pools(process: int, proxy: Address | None, context: ssl.SSLContext | None) -> urllib3.PoolManager:
    """Return new pools for a process; what it opened no other may use."""
    if context is not None and context.verify_mode == ssl.CERT_NONE:
        urllib3.disable_warnings(InsecureRequestWarning)  # else there is one for each request
    options: dict[str, Any] = {"maxsize": 1, "ssl_context": context}
    if proxy is None:
        pools = urllib3.PoolManager(**options)
    else:
        own = {"Proxy-Authorization": _basic(proxy.credentials)} if proxy.credentials else {}
        pools = urllib3.ProxyManager(proxy.shown, proxy_headers=PrivateHeaders(own), **options)
    pools.pool_classes_by_scheme = {"http": _Pool, "https": _SecurePool}
    return pools


_kept = _KeptConnections()


def _proxy_for(address: Address) -> Address | None:
    if urllib.request.proxy_bypass(address.place):
        return None
    proxies = urllib.request.getproxies()
    url = proxies.get(address.scheme) or proxies.get("all")
    if not url:
        return None
    proxy = address_of(url if "://" in url else f"http://{url}")
    if proxy is None or proxy.scheme != "http":
        raise Unreachable(f"the proxy for {address.scheme} that the environment names is none of http://")
    return proxy


def _basic(credentials: str) -> str:
    return f"Basic {b64encode(credentials.encode()).decode()}"


@cache
def trusted(more: str = "") -> ssl.SSLContext:
    """Return the certificates that the machine trusts, with those of certifi, if installed, and of another file."""
    context = ssl.create_default_context()
    if more:
        context.load_verify_locations(more)
    if find_spec("certifi") is not None:
        import certifi

        context.load_verify_locations(certifi.where())
    return context


class _WithDeadline:
    """Lets no read of a reply, be it of headers, wait beyond the time that urllib3 has left for it."""

    timeout: float

    def getresponse(self) -> Any:
        self.response_class = partial(_bounded_response, time.monotonic() + self.timeout)
        return super().getresponse()  # type: ignore[misc]


class _Pool(urllib3.HTTPConnectionPool):
    ConnectionCls = type("_Connection", (_WithDeadline, HTTPConnection), {})


class _SecurePool(urllib3.HTTPSConnectionPool):
    ConnectionCls = type("_SecureConnection", (_WithDeadline, HTTPSConnection), {})


def _bounded_response(until: float, sock: socket.socket, *args: Any, **more: Any) -> HTTPResponse:
    response = HTTPResponse(sock, *args, **more)
    response.fp = io.BufferedReader(_DeadlineReader(response.fp.detach(), sock, until))
    return response


class _DeadlineReader(io.RawIOBase):
    def __init__(self, raw: io.RawIOBase, sock: socket.socket, until: float) -> None:
        self._raw, self._sock, self._until = raw, sock, until

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int | None:
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._sock.settimeout(left)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


def _refuse_redirect(address: Address, response: urllib3.BaseHTTPResponse) -> None:
    if not 300 <= response.status < 400:
        return
    to = address_of(response.headers.get("Location", ""))
    where = f"to {to.shown}" if to is not None else "elsewhere"
    raise Redirected(f"{address.place} redirects {where} (status {response.status}), which is not followed")


def _content(response: urllib3.BaseHTTPResponse) -> bytes:
    content = bytearray()
    encoding = response.headers.get("Content-Encoding", "").strip().lower()
    parts = iter(lambda: response.read(_PART), b"")
    for part in parts if encoding in ("", "identity") else _unpacked(parts, encoding):
        content += part
        if max(len(content), response.tell()) > MAX_REPLY_BYTES:
            raise ReplyTooLong(f"the reply is longer than the limit of {MAX_REPLY_BYTES // 2**20} MiB")
    return bytes(content)


def _unpacked(parts: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    """Unpack in small amounts, as urllib3 does from 2.6 on, and notice an end that is missing, which it never does."""
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise HttpError(f"the reply is compressed as {encoding[:20]!r}, which was not asked for")
    decoder = zlib.decompressobj(wbits=47)  # of gzip or of zlib, whichever it begins like
    for part in parts:
        while part:
            if decoder.eof:  # the next of several in a row
                decoder = zlib.decompressobj(wbits=47)
            try:
                yield decoder.decompress(part, _PART)
            except zlib.error:
                raise HttpError(f"the reply is no {encoding}, though it says so") from None
            part = decoder.unused_data or decoder.unconsumed_tail
    if not decoder.eof:
        raise IncompleteRead(b"")


def _named(error: BaseException, timeout: float) -> HttpError:
    """Return what happened to a connection, by kind: the words of such errors may hold anything that was sent."""
    while inner := next((inner for inner in (*error.args, error.__cause__) if isinstance(inner, Exception)), None):
        error = inner
    match error:
        case TimeoutError() | urllib3.exceptions.TimeoutError():
            return TimedOut(f"no whole reply within {timeout:g} s")
        case ConnectionRefusedError():
            return Unreachable("the connection is refused")
        case socket.gaierror() | UnicodeError() | LocationParseError():  # the latter for what cannot be a name
            return Unreachable("there is no such host")
        case ssl.SSLCertVerificationError():
            return Unreachable("its certificate is not valid")
        case IncompleteRead():
            return HttpError("the reply ends early")
        case _:
            return HttpError(f"the connection broke ({type(error).__name__})")
