"""A Hugging Face Hub in memory, on 127.0.0.1: the real client library can read datasets and publish them, and Spaces.

A Space `ORG/NAME` is the repository `spaces/ORG/NAME`.

Clients find it through `HF_ENDPOINT`, which the library reads when it is imported: run it in a subprocess, with
`HF_HUB_DISABLE_XET=1`, and `HF_TOKEN=hf_writer` to publish.
"""

from __future__ import annotations

import base64
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

WRITER = "hf_writer"
"""The token that may write; it sees the private repositories."""

READER = "hf_reader"
"""A token that may only read; it sees the private repositories too."""

_COMMIT = re.compile(r"[0-9a-f]{40}")


def blob_id(content: bytes) -> str:
    """Git's name of a file content, which the Hub also uses as its ETag."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def commit_id(files: Files, parent: str = "") -> str:
    """A commit sha that depends on the paths, the contents and the parent only."""
    listing = parent + "".join(f"{blob_id(files[path])} {path}\n" for path in sorted(files))
    return hashlib.sha1(listing.encode()).hexdigest()


def is_lfs(path: str) -> bool:
    """Say whether a file is kept in large file storage, whose name for a content is its sha256."""
    return path.endswith(".parquet")


@dataclass
class Repo:
    """A repository: its commits, their parents and titles, what points at them, and the SDK of a Space."""

    commits: dict[str, Files] = field(default_factory=dict)
    parents: dict[str, str] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    private: bool = False
    sdk: str | None = None

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

    def commit(self, branch: str, files: Files, title: str) -> str:
        """Put a commit on a branch, and return its sha."""
        parent = self.branches[branch]
        sha = self.branches[branch] = commit_id(files, parent)
        self.commits[sha], self.parents[sha], self.titles[sha] = files, parent, title
        return sha


@dataclass(frozen=True)
class Request:
    """What a client asked for; the path is decoded and has no query."""

    method: str
    path: str


class HubError(Exception):
    """An error answer, with the code by which the client library tells errors apart."""

    def __init__(self, status: HTTPStatus, code: str, message: str = "") -> None:
        super().__init__(code)
        self.status = status
        self.code = code
        self.message = message


class LoopbackHub(Loopback):
    """The server, running between `with` and the end of the block.

    Attributes:
        repos: The repositories: datasets by `ORG/NAME`, Spaces by `spaces/ORG/NAME`.
        requests: All requests so far, in order of arrival.
        gated: Repositories whose files are refused, as they are before the terms have been accepted.
        cut: By file path, after how many bytes the connection breaks; the rest of the file never arrives.
        corrupt: Paths of files whose first byte arrives wrong, in every repository.
        ignored: Paths of files that the client is told to leave out, as a `.gitignore` of the repository may ask for.
        uploads: Large files that arrived, by sha256; a commit only names them.
        dies_at: The handler (a name in `_Handler.ROUTES`) that is not reached any more: the server dies before it,
            and stays dead until `revive`. So `lfs_batch` is after the preupload, `commit` after the upload of large
            files, and `tag` after the commit.
        lost: Handlers whose next answer is lost, though what was asked for is done.
        busy: By handler, the statuses with which the next requests are put off; 429 comes with Retry-After.
        retry_after: After how many seconds to try again, as 429 answers say.
    """

    def __init__(self, repos: Mapping[str, Mapping[str, Files]]) -> None:
        self.repos = {repo_id: Repo.of(revisions) for repo_id, revisions in repos.items()}
        self.requests: list[Request] = []
        self.gated: set[str] = set()
        self.cut: dict[str, int] = {}
        self.corrupt: set[str] = set()
        self.ignored: set[str] = set()
        self.uploads: dict[str, bytes] = {}
        self.dies_at: str | None = None
        self.dead = False
        self.lost: set[str] = set()
        self.busy: dict[str, list[int]] = {}
        self.retry_after = 0
        super().__init__(_handler_of(self))

    def fetched(self) -> list[str]:
        """Return the paths of the files whose bodies were asked for, in order."""
        return [r.path.split("/resolve/", 1)[1].split("/", 1)[1] for r in self.requests if _is_body(r)]

    def writes(self) -> list[Request]:
        """Return the requests that may have changed something: all but reads, and the one read that is a POST."""
        reads = ("GET", "HEAD")
        return [r for r in self.requests if r.method not in reads and "/paths-info/" not in r.path]

    def revive(self) -> None:
        self.dies_at, self.dead = None, False

    def reset(self, repos: Mapping[str, Mapping[str, Files]]) -> Self:
        """Be as new, with these repositories, so that tests can share it."""
        self.revive()
        for state in (
            self.requests,
            self.gated,
            self.cut,
            self.corrupt,
            self.ignored,
            self.uploads,
            self.lost,
            self.busy,
        ):
            state.clear()
        self.retry_after = 0
        self.repos = {repo_id: Repo.of(revisions) for repo_id, revisions in repos.items()}
        return self

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


def _place(repo_id: str) -> str:
    """Return the path of a repository on the Hub."""
    return repo_id if repo_id.startswith("spaces/") else f"datasets/{repo_id}"


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
    entry: dict[str, Any] = {"type": "file", "path": path, "size": len(content), "oid": blob_id(content)}
    if is_lfs(path):
        sha256 = hashlib.sha256(content).hexdigest()
        pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {len(content)}\n".encode()
        lfs = {"oid": sha256, "size": len(content), "pointerSize": len(pointer)}
        entry |= {"oid": blob_id(pointer), "lfs": lfs}
    return entry


def _hub_oid(path: str, content: bytes) -> str:
    """Return the name by which the Hub tells whether a file has changed."""
    return hashlib.sha256(content).hexdigest() if is_lfs(path) else blob_id(content)


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
    disable_nagle_algorithm = True  # a body comes after its headers, without the 40 ms that it would wait
    hub: ClassVar[LoopbackHub]

    # The methods that answer, by request method and path; group names are their arguments.
    _ID = r"/(?:(?:datasets|models)/(?!spaces/)|(?=spaces/))(?P<repo_id>(?:spaces/)?[^/]+/[^/]+)"
    ROUTES = (
        ("GET", rf"/api{_ID}(/revision/(?P<revision>[^/]+))?", "info"),
        ("GET", rf"/api{_ID}/refs", "refs"),
        ("GET", rf"/api{_ID}/commits/(?P<revision>[^/]+)", "commits"),
        ("GET", rf"/api{_ID}/tree/(?P<revision>[^/]+)(/(?P<path>.*))?", "tree"),
        ("POST", rf"/api{_ID}/paths-info/(?P<revision>[^/]+)", "paths_info"),
        ("GET", rf"{_ID}/resolve/(?P<revision>[^/]+)/(?P<path>.+)", "resolve"),
        ("GET", r"/api/whoami-v2", "whoami"),
        ("POST", r"/api/validate-yaml", "validate_yaml"),
        ("POST", r"/api/repos/create", "create_repo"),
        ("POST", rf"/api{_ID}/branch/(?P<branch>[^/]+)", "create_branch"),
        ("POST", rf"/api{_ID}/preupload/(?P<revision>[^/]+)", "preupload"),
        ("POST", rf"{_ID}\.git/info/lfs/objects/batch", "lfs_batch"),
        ("PUT", r"/lfs/(?P<sha256>[0-9a-f]{64})", "lfs_upload"),
        ("POST", r"/lfs/verify", "lfs_verify"),
        ("POST", rf"/api{_ID}/commit/(?P<branch>[^/]+)", "commit"),
        ("POST", rf"/api{_ID}/tag/(?P<revision>[^/]+)", "tag"),
        ("DELETE", rf"/api{_ID}/tag/(?P<tag>[^/]+)", "delete_tag"),
    )
    WRITES = ("create_repo", "create_branch", "preupload", "lfs_batch", "commit", "tag", "delete_tag")

    def do_GET(self) -> None:
        self.answer("GET")

    def do_HEAD(self) -> None:
        self.answer("GET")

    def do_POST(self) -> None:
        self.answer("POST")

    def do_PUT(self) -> None:
        self.answer("PUT")

    def do_DELETE(self) -> None:
        self.answer("DELETE")

    def answer(self, method: str) -> None:
        url = urlsplit(self.path)
        self.query = parse_qs(url.query)
        self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        routes = ((name, re.fullmatch(path, url.path)) for m, path, name in self.ROUTES if m == method)
        self.route, match = next(((name, match) for name, match in routes if match), ("", None))
        self.hub.dead = self.hub.dead or self.route == self.hub.dies_at
        if self.hub.dead:
            self.close_connection = True
            return
        self.hub.requests.append(Request(self.command, unquote(url.path)))
        if waiting := self.hub.busy.get(self.route):
            status = HTTPStatus(waiting.pop(0))
            asked = {"Retry-After": str(self.hub.retry_after)} if status == HTTPStatus.TOO_MANY_REQUESTS else {}
            self.send_json({"error": status.phrase}, status, asked)
            return
        try:
            if match is None:
                raise HubError(HTTPStatus.NOT_FOUND, "NotFound")
            # A slash inside a revision is quoted, so the path is taken apart first.
            arguments = {k: unquote(v) for k, v in match.groupdict().items() if v is not None}
            self.authorise(arguments.get("repo_id", ""))
            getattr(self, self.route)(**arguments)
        except HubError as error:
            headers = {"X-Error-Code": error.code, "X-Error-Message": error.message or error.code}
            self.send_json({"error": error.message or error.code}, error.status, headers)

    def authorise(self, repo_id: str) -> None:
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if token not in ("", WRITER, READER):
            raise HubError(HTTPStatus.UNAUTHORIZED, "", "Invalid credentials in Authorization header")
        repo = self.hub.repos.get(repo_id)
        if repo and repo.private and not token:  # as if there were none
            raise HubError(HTTPStatus.UNAUTHORIZED, "RepoNotFound", "Repository not found")
        if self.route in (*self.WRITES, "whoami") and not token:
            raise HubError(HTTPStatus.UNAUTHORIZED, "", "Invalid username or password.")
        if self.route in self.WRITES and token != WRITER:
            raise HubError(HTTPStatus.FORBIDDEN, "", "You don't have the rights to write here")

    def info(self, repo_id: str, revision: str = "main") -> None:
        sha, files = self.hub.commit(repo_id, revision)
        siblings = [{"rfilename": path} for path in sorted(files)]
        about: dict[str, Any] = {
            "gated": "auto" if repo_id in self.hub.gated else False,
            "private": self.hub.repo(repo_id).private,
            "tags": [],
        }
        self.send_json({"id": repo_id.removeprefix("spaces/"), "sha": sha, "siblings": siblings, **about})

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
        headers = {"X-Repo-Commit": sha, "ETag": f'"{_hub_oid(path, content)}"', "Accept-Ranges": "bytes"}
        if is_lfs(path):
            headers |= {"X-Linked-Etag": headers["ETag"], "X-Linked-Size": str(len(content))}
        if path in self.hub.corrupt:
            content = bytes([content[0] ^ 1]) + content[1:]
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

    def commits(self, repo_id: str, revision: str) -> None:
        repo = self.hub.repo(repo_id)
        sha: str | None = self.hub.commit(repo_id, revision)[0]
        listed = []
        while sha:
            title = repo.titles.get(sha, "initial commit")
            about = {"message": "", "authors": [], "date": "2025-01-01T00:00:00.000Z"}
            listed.append({"id": sha, "title": title} | about)
            sha = repo.parents.get(sha)
        self.send_json(listed)

    def whoami(self) -> None:
        self.send_json({"type": "user", "name": "someone", "orgs": [{"name": "org"}]})

    def validate_yaml(self) -> None:
        """Refuse a card for the one fault that can be told without a YAML library."""
        block = json.loads(self.body)["content"].split("---")[1:2]
        faults = [{"message": "YAML must not contain tabs"}] if any("\t" in yaml for yaml in block) else []
        status = HTTPStatus.BAD_REQUEST if faults else HTTPStatus.OK
        self.send_json({"errors": faults, "warnings": []}, status)

    def create_repo(self) -> None:
        wanted = json.loads(self.body)
        kind = "spaces/" if wanted.get("type") == "space" else ""
        repo_id = f"{kind}{wanted['organization'] or 'someone'}/{wanted['name']}"
        if kind and wanted.get("sdk") not in ("static", "gradio", "docker"):
            raise HubError(HTTPStatus.BAD_REQUEST, "", "A Space needs an sdk")
        if repo_id in self.hub.repos:
            raise HubError(HTTPStatus.CONFLICT, "", "You already created this repo")
        # There is always a first commit, with this file.
        repo = Repo.of({"main": {".gitattributes": b"*.parquet filter=lfs diff=lfs merge=lfs -text\n"}})
        repo.private = bool(wanted.get("private")) or wanted.get("visibility") == "private"
        repo.sdk = wanted.get("sdk")
        self.hub.repos[repo_id] = repo
        self.send_json({"url": f"{self.hub.url}/{_place(repo_id)}"})

    def create_branch(self, repo_id: str, branch: str) -> None:
        repo = self.hub.repo(repo_id)
        if branch in repo.branches:
            raise HubError(HTTPStatus.CONFLICT, "", f"Branch {branch} already exists")
        if not re.fullmatch(r"[\w.-]+(/[\w.-]+)*", branch):
            raise HubError(HTTPStatus.BAD_REQUEST, "", f"Invalid branch name: {branch}")
        repo.branches[branch] = self.hub.commit(repo_id, json.loads(self.body).get("startingPoint", "main"))[0]
        self.send_json({})

    def preupload(self, repo_id: str, revision: str) -> None:
        _, files = self.hub.commit(repo_id, revision)
        answers = [
            {
                "path": (path := file["path"]),
                "uploadMode": "lfs" if is_lfs(path) else "regular",
                "shouldIgnore": path in self.hub.ignored,
                "oid": _hub_oid(path, files[path]) if path in files else None,
            }
            for file in json.loads(self.body)["files"]
        ]
        self.send_json({"files": answers})

    def lfs_batch(self, repo_id: str) -> None:
        objects = [{"oid": o["oid"], "size": o["size"]} for o in json.loads(self.body)["objects"]]
        for wanted in objects:
            if wanted["oid"] not in self.hub.uploads:
                upload, verify = f"{self.hub.url}/lfs/{wanted['oid']}", f"{self.hub.url}/lfs/verify"
                wanted["actions"] = {"upload": {"href": upload}, "verify": {"href": verify}}
        self.send_json({"transfer": "basic", "objects": objects})

    def lfs_upload(self, sha256: str) -> None:
        if hashlib.sha256(self.body).hexdigest() != sha256:
            raise HubError(HTTPStatus.BAD_REQUEST, "", "The content has another sha256")
        self.hub.uploads[sha256] = self.body
        self.send_json({})

    def lfs_verify(self) -> None:
        wanted = json.loads(self.body)
        if len(self.hub.uploads.get(wanted["oid"], b"")) != wanted["size"]:
            raise HubError(HTTPStatus.NOT_FOUND, "", "The file has not arrived")
        self.send_json({})

    def commit(self, repo_id: str, branch: str) -> None:
        repo = self.hub.repo(repo_id)
        if branch not in repo.branches:
            raise HubError(HTTPStatus.NOT_FOUND, "RevisionNotFound")
        header, *operations = [json.loads(line) for line in self.body.splitlines()]
        if header["value"].get("parentCommit", repo.branches[branch]) != repo.branches[branch]:
            raise HubError(HTTPStatus.PRECONDITION_FAILED, "", "A commit has happened since")
        files = dict(repo.commits[repo.branches[branch]])
        for operation in operations:
            self.apply(operation["key"], operation["value"], files)
        answer = {"success": True}
        if self.query.get("create_pr"):
            number = 1 + sum(name.startswith("refs/pr/") for name in repo.branches)
            repo.branches[f"refs/pr/{number}"] = repo.branches[branch]
            branch = f"refs/pr/{number}"
            answer["pullRequestUrl"] = f"{self.hub.url}/{repo_id}/discussions/{number}"
        sha = repo.commit(branch, files, header["value"]["summary"])
        place = {"commitOid": sha, "commitUrl": f"{self.hub.url}/{_place(repo_id)}/commit/{sha}"}
        self.send_json(answer | place)

    def apply(self, kind: str, value: dict[str, Any], files: dict[str, bytes]) -> None:
        """Do one operation of a commit on the files of its parent."""
        path = value["path"]
        if kind == "file":
            files[path] = base64.b64decode(value["content"])
        elif kind == "lfsFile":
            if value["oid"] not in self.hub.uploads:
                raise HubError(HTTPStatus.BAD_REQUEST, "", f"The LFS object of {path} has not arrived")
            files[path] = self.hub.uploads[value["oid"]]
        else:
            gone = [p for p in files if p == path or (kind == "deletedFolder" and p.startswith(path.rstrip("/") + "/"))]
            if not gone:
                raise HubError(HTTPStatus.NOT_FOUND, "EntryNotFound", "A file with this name doesn't exist")
            for p in gone:
                del files[p]

    def tag(self, repo_id: str, revision: str) -> None:
        sha, _ = self.hub.commit(repo_id, revision)
        tags, name = self.hub.repo(repo_id).tags, json.loads(self.body)["tag"]
        if name in tags:
            raise HubError(HTTPStatus.CONFLICT, "", f"Tag {name} already exists")
        tags[name] = sha
        self.send_json({})

    def delete_tag(self, repo_id: str, tag: str) -> None:
        if self.hub.repo(repo_id).tags.pop(tag, None) is None:
            raise HubError(HTTPStatus.NOT_FOUND, "RevisionNotFound")
        self.send_json({})

    def send_json(
        self, data: object, status: HTTPStatus = HTTPStatus.OK, headers: Mapping[str, str] | None = None
    ) -> None:
        self.send(json.dumps(data).encode(), status, {"Content-Type": "application/json", **(headers or {})})

    def send(self, body: bytes, status: HTTPStatus, headers: Mapping[str, str], *, arriving: int | None = None) -> None:
        """Send an answer, and break the connection after some bytes of its body if that is asked for."""
        if self.route in self.hub.lost:
            self.hub.lost.remove(self.route)
            self.close_connection = True
            return
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
