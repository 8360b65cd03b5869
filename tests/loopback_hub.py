"""A Hugging Face Hub in memory, on 127.0.0.1, from which the real client library can read datasets.

Clients find it through `HF_ENDPOINT`, which the library reads when it is imported: run it in a subprocess.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any, ClassVar, Self
from urllib.parse import parse_qs, unquote, urlsplit

from loopback import Loopback

Files = Mapping[str, bytes]

_COMMIT = re.compile(r"[0-9a-f]{40}")


def blob_id(content: bytes) -> str:
    """Git's name of a file content, which the Hub also uses as its ETag."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def commit_id(files: Files) -> str:
    """A commit sha that depends on the paths and contents only."""
    listing = "".join(f"{blob_id(files[path])} {path}\n" for path in sorted(files))
    return hashlib.sha1(listing.encode()).hexdigest()


@dataclass
class Repo:
    """A dataset repository: its commits, and the branches and tags that point at them."""

    commits: dict[str, Files] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, revisions: Mapping[str, Files]) -> Self:
        """Make a repository; a revision is a full commit sha, `main`, or else the name of a tag."""
        repo = cls()
        for name, files in revisions.items():
            sha = name if _COMMIT.fullmatch(name) else commit_id(files)
            repo.commits[sha] = files
            if sha != name:
                (repo.branches if name == "main" else repo.tags)[name] = sha
        # There is always a main branch on the Hub.
        repo.branches.setdefault("main", next(reversed(repo.commits)))
        return repo

    def resolve(self, revision: str) -> str | None:
        if revision in self.commits:
            return revision
        return self.branches.get(revision) or self.tags.get(revision)


@dataclass(frozen=True)
class Request:
    """What a client asked for; the path is decoded and has no query."""

    method: str
    path: str


class HubError(Exception):
    """An error answer, with the code by which the client library tells errors apart."""

    def __init__(self, status: HTTPStatus, code: str) -> None:
        super().__init__(code)
        self.status = status
        self.code = code


class LoopbackHub(Loopback):
    """The server, running between `with` and the end of the block.

    Attributes:
        repos: The dataset repositories by `ORG/NAME`.
        requests: All requests so far, in order of arrival.
        gated: Repositories whose files are refused, as they are before the terms have been accepted.
        cut: By file path, after how many bytes the connection breaks; the rest of the file never arrives.
    """

    def __init__(self, repos: Mapping[str, Mapping[str, Files]]) -> None:
        self.repos = {repo_id: Repo.of(revisions) for repo_id, revisions in repos.items()}
        self.requests: list[Request] = []
        self.gated: set[str] = set()
        self.cut: dict[str, int] = {}
        super().__init__(_handler_of(self))

    def fetched(self) -> list[str]:
        """Return the paths of the files whose bodies were asked for, in order."""
        return [r.path.split("/resolve/", 1)[1].split("/", 1)[1] for r in self.requests if _is_body(r)]

    def repo(self, repo_id: str) -> Repo:
        if repo_id not in self.repos:
            raise HubError(HTTPStatus.NOT_FOUND, "RepoNotFound")
        return self.repos[repo_id]

    def commit(self, repo_id: str, revision: str) -> tuple[str, Files]:
        repo = self.repo(repo_id)
        sha = repo.resolve(revision)
        if sha is None:
            raise HubError(HTTPStatus.NOT_FOUND, "RevisionNotFound")
        return sha, repo.commits[sha]


def _is_body(request: Request) -> bool:
    return request.method == "GET" and "/resolve/" in request.path


def _tree(files: Files, folder: str, *, recursive: bool) -> Iterator[dict[str, Any]]:
    """List what is below a folder (`""` is the root); a folder comes before what is in it."""
    prefix = f"{folder}/" if folder else ""
    seen: set[str] = set()
    for path in sorted(files):
        if not path.startswith(prefix):
            continue
        parts = path[len(prefix) :].split("/")
        for depth in range(1, len(parts) if recursive else min(len(parts), 2)):
            parent = prefix + "/".join(parts[:depth])
            if parent not in seen:
                seen.add(parent)
                yield {"type": "directory", "path": parent, "size": 0, "oid": blob_id(parent.encode())}
        if recursive or len(parts) == 1:
            yield _file_entry(path, files[path])


def _file_entry(path: str, content: bytes) -> dict[str, Any]:
    return {"type": "file", "path": path, "size": len(content), "oid": blob_id(content)}


def _byte_range(header: str | None, size: int) -> tuple[int, int] | None:
    """Return the asked for half-open range of bytes, or None when the whole file is asked for."""
    match = re.fullmatch(r"bytes=(\d*)-(\d*)", header or "")
    if match is None:
        return None
    first, last = match.groups()
    if not first:
        return max(size - int(last), 0), size
    return int(first), min(int(last) + 1, size) if last else size


class _Handler(BaseHTTPRequestHandler):
    """Answers one connection."""

    protocol_version = "HTTP/1.1"
    hub: ClassVar[LoopbackHub]

    # The methods that answer, by request method and path; group names are their arguments.
    ROUTES = (
        ("GET", r"/api/datasets/(?P<repo_id>[^/]+/[^/]+)(/revision/(?P<revision>[^/]+))?", "info"),
        ("GET", r"/api/datasets/(?P<repo_id>[^/]+/[^/]+)/refs", "refs"),
        ("GET", r"/api/datasets/(?P<repo_id>[^/]+/[^/]+)/tree/(?P<revision>[^/]+)(/(?P<path>.*))?", "tree"),
        ("POST", r"/api/datasets/(?P<repo_id>[^/]+/[^/]+)/paths-info/(?P<revision>[^/]+)", "paths_info"),
        ("GET", r"/datasets/(?P<repo_id>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<path>.+)", "resolve"),
    )

    def do_GET(self) -> None:
        self.answer("GET")

    def do_HEAD(self) -> None:
        self.answer("GET")

    def do_POST(self) -> None:
        self.answer("POST")

    def answer(self, method: str) -> None:
        url = urlsplit(self.path)
        self.query = parse_qs(url.query)
        self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.hub.requests.append(Request(self.command, unquote(url.path)))
        try:
            for route_method, pattern, name in self.ROUTES:
                match = re.fullmatch(pattern, url.path)
                if match and route_method == method:
                    # A slash inside a revision is quoted, so the path is taken apart first.
                    arguments = {k: unquote(v) for k, v in match.groupdict().items() if v is not None}
                    getattr(self, name)(**arguments)
                    return
            raise HubError(HTTPStatus.NOT_FOUND, "NotFound")
        except HubError as error:
            self.send_json({"error": error.code}, error.status, {"X-Error-Code": error.code})

    def info(self, repo_id: str, revision: str = "main") -> None:
        sha, files = self.hub.commit(repo_id, revision)
        siblings = [{"rfilename": path} for path in sorted(files)]
        about: dict[str, Any] = {
            "gated": "auto" if repo_id in self.hub.gated else False,
            "private": False,
            "tags": [],
        }
        self.send_json({"id": repo_id, "sha": sha, "siblings": siblings, **about})

    def refs(self, repo_id: str) -> None:
        repo = self.hub.repo(repo_id)
        kinds = {"branches": ("refs/heads", repo.branches), "tags": ("refs/tags", repo.tags)}
        self.send_json(
            {"converts": []}
            | {
                kind: [{"name": n, "ref": f"{prefix}/{n}", "targetCommit": sha} for n, sha in named.items()]
                for kind, (prefix, named) in kinds.items()
            }
        )

    def tree(self, repo_id: str, revision: str, path: str = "") -> None:
        _, files = self.hub.commit(repo_id, revision)
        recursive = self.query.get("recursive", [""])[0].lower() in ("true", "1")
        entries = list(_tree(files, path, recursive=recursive))
        if not entries and path:
            raise HubError(HTTPStatus.NOT_FOUND, "EntryNotFound")
        self.send_json(entries)

    def paths_info(self, repo_id: str, revision: str) -> None:
        _, files = self.hub.commit(repo_id, revision)
        if "json" in self.headers.get("Content-Type", ""):
            paths = json.loads(self.body)["paths"]
        else:
            paths = parse_qs(self.body.decode()).get("paths", [])
        # As on the Hub, paths that do not exist are left out.
        entries = {entry["path"]: entry for entry in _tree(files, "", recursive=True)}
        self.send_json([entries[path] for path in paths if path in entries])

    def resolve(self, repo_id: str, revision: str, path: str) -> None:
        sha, files = self.hub.commit(repo_id, revision)
        if repo_id in self.hub.gated:
            raise HubError(HTTPStatus.FORBIDDEN, "GatedRepo")
        if path not in files:
            raise HubError(HTTPStatus.NOT_FOUND, "EntryNotFound")
        content = files[path]
        headers = {"X-Repo-Commit": sha, "ETag": f'"{blob_id(content)}"', "Accept-Ranges": "bytes"}
        asked = _byte_range(self.headers.get("Range"), len(content))
        start, end = asked or (0, len(content))
        if asked and start >= len(content):
            headers["Content-Range"] = f"bytes */{len(content)}"
            self.send(b"", HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, headers)
            return
        if asked:
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(content)}"
        arriving = max(self.hub.cut.get(path, end) - start, 0)
        status = HTTPStatus.PARTIAL_CONTENT if asked else HTTPStatus.OK
        self.send(content[start:end], status, headers, arriving=arriving)

    def send_json(
        self, data: object, status: HTTPStatus = HTTPStatus.OK, headers: Mapping[str, str] | None = None
    ) -> None:
        self.send(json.dumps(data).encode(), status, {"Content-Type": "application/json", **(headers or {})})

    def send(self, body: bytes, status: HTTPStatus, headers: Mapping[str, str], *, arriving: int | None = None) -> None:
        """Send an answer, and break the connection after some bytes of its body if that is asked for."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[:arriving])
            self.close_connection = self.close_connection or len(body[:arriving]) < len(body)

    def log_message(self, format: str, *args: object) -> None:
        """Keep test output quiet."""


def _handler_of(hub: LoopbackHub) -> type[_Handler]:
    return type("Handler", (_Handler,), {"hub": hub})
