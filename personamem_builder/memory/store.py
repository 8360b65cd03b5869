"""What a run of a memory system leaves on disk: what it took in, and what it gave back for each question.

A folder holds `store.json` (what was run on what), `sessions.jsonl` (a line for each session taken in),
`questions.jsonl` (a line for each question asked) and, while a context is being walked, a snapshot of a system that can
make one. Lines are only ever added; one that a killed run left half-written is cut off.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from generation.errors import UserError
from generation.files import replacing
from generation.reading import as_model, clean, decode, parse_json, read_json
from personamem_builder.dataset.locate import cache_folder
from personamem_builder.memory.registry import SystemSpec
from personamem_builder.memory.system import Memory

STORE: Final = "store.json"
_FORMAT: Final = "personamem memory store"
_VERSION: Final = 1
_SNAPSHOT: Final = "snapshot"
_AGAIN: Final = "delete its folder, and run the system again"

_Count = Annotated[int, Field(ge=0, lt=2**63)]


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow")


class _About(_Part):
    format: Literal["personamem memory store"]
    format_version: Literal[1]
    system: str
    settings: dict[str, Any]
    k: Annotated[int, Field(ge=0)]
    split: str
    data_digest: str


class _Line(_Part):
    shared_context_id: str
    persona_id: int
    tokens: _Count
    seconds: Annotated[float, Field(ge=0)]
    error: str
    usage: dict[str, float]


class _Session(_Line):
    number: _Count
    first_index: _Count
    messages: _Count
    bytes: _Count


class _Question(_Line):
    question_id: str
    end: _Count
    memories: list[Annotated[tuple[str, str, list[_Count]], Field(strict=False)]]
    faults: list[str]
    taint: list[list[str]]
    answer: int | None = None


class MemoryStore:
    """A folder of results.

    Args:
        folder: The folder, with a `store.json`.

    Attributes:
        folder: The folder.
        about: What was run: `system`, `settings`, `version`, `k`, `split`, `data_digest`.
        questions: The lines of the questions, by question id; of one that was asked again, the newest.

    Raises:
        UserError: It is no such folder, or is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        hint = "make them: personamem memory run --system bm25 --out FOLDER"
        if not (folder / STORE).is_file():
            raise UserError(f"{folder} holds no results of a memory system: it has no {STORE}", hint)
        about: dict[str, Any] = read_json(folder / STORE, hint)
        as_model(about, _About, str(folder / STORE), hint)
        self.about = {key: value for key, value in about.items() if key not in ("format", "format_version")}
        self._sessions: dict[tuple[str, int], dict[str, Any]] = {}
        for line in _read_lines(folder / "sessions.jsonl", _Session):
            self._sessions[line["shared_context_id"], line["first_index"]] = line
        lines = _read_lines(folder / "questions.jsonl", _Question)
        self.questions: dict[str, dict[str, Any]] = {line["question_id"]: line for line in lines}

    @property
    def sessions(self) -> list[dict[str, Any]]:
        """The lines of the sessions; of one that was taken in again, the newest."""
        return list(self._sessions.values())

    def add_session(self, line: dict[str, Any]) -> None:
        """Keep what became of a session, in place of an earlier failure.

        Raises:
            UserError: The disk refuses.
        """
        self._append("sessions.jsonl", line)
        self._sessions[line["shared_context_id"], line["first_index"]] = line

    def add_question(self, line: dict[str, Any]) -> None:
        """Keep what a system gave back for a question, in place of an earlier failure.

        Raises:
            UserError: The disk refuses.
        """
        self._append("questions.jsonl", line)
        self.questions[line["question_id"]] = line

    def _append(self, name: str, line: Mapping[str, Any]) -> None:
        text = json.dumps(clean(line), ensure_ascii=False, separators=(",", ":")) + "\n"
        with _writing(self.folder), (self.folder / name).open("ab") as file:
            file.write(text.encode("utf-8"))

    def is_answered(self, question_id: str) -> bool:
        """Say whether a question was asked, and the system did not fail at it."""
        return question_id in self.questions and not self.questions[question_id]["error"]

    def memories(self, question_id: str) -> list[Memory]:
        """Return what was given back for a question."""
        return [Memory(text, date, tuple(indices)) for text, date, indices in self.questions[question_id]["memories"]]

    @property
    def tainted(self) -> list[str]:
        """The questions whose memories hold what the history does not, see `firewall`."""
        return [question_id for question_id, line in self.questions.items() if line["taint"]]

    @property
    def digest(self) -> str:
        """Digest of what was given back: the same memories have the same one, whatever time they took."""
        kept = sorted((key, line["memories"]) for key, line in self.questions.items())
        return hashlib.sha256(json.dumps(kept, ensure_ascii=False).encode()).hexdigest()

    # ---- a context in the making

    def save_snapshot(self, context_id: str, sessions: int, content: bytes) -> None:
        """Keep the state of a system after some sessions of a context, in place of an earlier one."""
        with _writing(self.folder), replacing(self.folder / _SNAPSHOT) as part:
            part.write_bytes(json.dumps([context_id, sessions]).encode() + b"\n" + content)

    def snapshot(self, context_id: str, sessions: int) -> bytes | None:
        """Return the state of a system after just these sessions of a context, None if it is not kept."""
        try:
            head, _, content = (self.folder / _SNAPSHOT).read_bytes().partition(b"\n")
            return content if json.loads(head) == [context_id, sessions] else None
        except (OSError, ValueError, RecursionError):
            return None

    def drop_snapshot(self) -> None:
        """Forget the state: its context is finished."""
        with _writing(self.folder):
            (self.folder / _SNAPSHOT).unlink(missing_ok=True)


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error}", "make space there, or choose another --out") from error


@contextmanager
def opened_store(folder: Path, about: Mapping[str, Any]) -> Iterator[MemoryStore]:
    """Open a folder of results for writing, making it where there is none; others wait for it meanwhile.

    Args:
        folder: The folder.
        about: What is run.

    Raises:
        UserError: It holds something else, or cannot be written.
    """
    from filelock import FileLock

    lock = FileLock(folder / ".lock")
    is_new = not folder.exists()
    with _writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    try:
        with _writing(folder):
            if not (folder / STORE).exists():
                if left := [path.name for path in folder.iterdir() if path.name != ".lock"]:
                    raise UserError(f"{folder} is not empty: {left[0]} is in it", "choose another --out")
                with replacing(folder / STORE) as part:
                    text = json.dumps({"format": _FORMAT, "format_version": _VERSION, **about}, indent=2)
                    part.write_text(text + "\n", encoding="utf-8")
            for name in ("sessions.jsonl", "questions.jsonl"):
                _cut_torn_line(folder / name)
        store = MemoryStore(folder)
        _check_same(store, about)
        yield store
    except UserError:
        if is_new and {path.name for path in folder.iterdir()} <= {".lock", STORE}:  # nothing was found yet
            (folder / STORE).unlink(missing_ok=True)
            with suppress(OSError):  # another process waits for the lock
                (folder / ".lock").unlink(missing_ok=True)
                folder.rmdir()
        raise
    finally:
        lock.release()


def store_folder(spec: SystemSpec, k: int, split: str, data_digest: str) -> Path:
    """Return where in the cache the results of a system lie; it need not be there."""
    about = about_run(spec, k, split, data_digest)
    key = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:12]
    name = "".join(c if c.isalnum() or c in "-_." else "-" for c in spec.name)
    return cache_folder() / "memory" / f"{name}-{split}-k{k}-{key}"


def about_run(spec: SystemSpec, k: int, split: str, data_digest: str) -> dict[str, Any]:
    """Return what tells the results of one run from those of others."""
    return {**spec.identity, "k": k, "split": split, "data_digest": data_digest}


def _check_same(store: MemoryStore, about: Mapping[str, Any]) -> None:
    # Through JSON, as the store has been.
    if differing := [key for key, value in json.loads(json.dumps(about)).items() if store.about.get(key) != value]:
        was, is_ = ({key: values.get(key) for key in differing} for values in (store.about, about))
        raise UserError(f"{store.folder} holds another run: {was}, not {is_}", "choose another folder, or delete it")


def _read_lines(path: Path, kind: type[_Line]) -> Iterator[dict[str, Any]]:
    if not path.exists():
        return
    try:
        lines = path.read_bytes().split(b"\n")[:-1]  # what stands after the last line end is half a line
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}", _AGAIN) from error
    for number, content in enumerate(lines, 1):
        where = f"{path}, line {number}"
        line: dict[str, Any] = parse_json(decode(content, where, _AGAIN), where, _AGAIN)
        as_model(line, kind, where, _AGAIN)
        yield line


def _cut_torn_line(path: Path) -> None:
    if path.exists() and not (content := path.read_bytes()).endswith(b"\n") and content:
        with path.open("r+b") as file:
            file.truncate(content.rfind(b"\n") + 1)
