"""What a run of a memory system leaves on disk: what it took in, and what it gave back for each question.

A folder holds `store.json` (what was run on what), `sessions.jsonl` (a line for each session taken in),
`questions.jsonl` (a line for each question asked) and, while a context is being walked, a snapshot of a system that can
make one. Lines are only ever added; one that a killed run left half-written is cut off. Where several contexts are
walked at a time, those that are finished before their turn wait in a folder `finished`, a file each.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NotRequired,
    TypeVar,
)

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict  # pydantic needs this one before Python 3.12

from generation.errors import UserError
from generation.files import replacing
from generation.reading import clean, decode, describe, parse_json, read_json
from personamem_builder.dataset.locate import cache_folder
from personamem_builder.memory.registry import SystemSpec
from personamem_builder.memory.system import Memory

STORE: Final = "store.json"
_FORMAT: Final = "personamem memory store"
_VERSION: Final = 1
_SNAPSHOT: Final = "snapshot"
_ASIDE: Final = "finished"
_AGAIN: Final = "delete its folder, and run the system again"

_Count = Annotated[int, Field(ge=0, lt=2**63)]


class StoredRun(TypedDict):
    """What was run on what: `store.json`."""

    system: str
    settings: dict[str, Any]
    version: NotRequired[int | str]
    k: Annotated[int, Field(ge=0)]
    split: str
    data_digest: str


class _StoreFile(StoredRun):
    format: Literal["personamem memory store"]
    format_version: Literal[1]


class _CallRecord(TypedDict):
    shared_context_id: str
    persona_id: int
    tokens: _Count
    seconds: Annotated[float, Field(ge=0)]
    error: str
    usage: dict[str, float]


class SessionRecord(_CallRecord):
    """A line of `sessions.jsonl`: what became of a session that was shown; `tokens` are those shown."""

    number: _Count
    first_index: _Count
    messages: _Count
    bytes: _Count


class QuestionRecord(_CallRecord):
    """A line of `questions.jsonl`: what was given back for a question; `tokens` are those given back.

    A memory is its text, its date and its message indices; a taint its kind and its text.
    """

    question_id: str
    end: _Count
    memories: list[Annotated[tuple[str, str, list[_Count]], Field(strict=False)]]
    faults: list[str]
    taint: list[list[str]]
    answer: NotRequired[int | None]


class _FinishedContext(TypedDict):
    """A file in `finished`: the lines of a context that are still to be added."""

    shared_context_id: str
    sessions: list[SessionRecord]
    questions: list[QuestionRecord]


_Form = TypeVar("_Form")


class MemoryStore:
    """The results in a folder that has a `store.json`.

    Attributes:
        about: What was run.
        questions: The lines of the questions, by question id; of one that was asked again, the newest.

    Raises:
        UserError: It is no such folder, or is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        hint = "make them: personamem memory run --system bm25 --out FOLDER"
        if not (folder / STORE).is_file():
            raise UserError(f"{folder} holds no results of a memory system: it has no {STORE}", hint)
        about: Any = _checked(read_json(folder / STORE, hint), _strictly(_StoreFile), str(folder / STORE), hint)
        del about["format"], about["format_version"]
        self.about: StoredRun = about
        self._sessions: dict[tuple[str, int], SessionRecord] = {}
        for line in _read_lines(folder / "sessions.jsonl", SessionRecord):
            self._sessions[line["shared_context_id"], line["first_index"]] = line
        lines = _read_lines(folder / "questions.jsonl", QuestionRecord)
        self.questions: dict[str, QuestionRecord] = {line["question_id"]: line for line in lines}

    @property
    def title(self) -> str:
        """What was run and where it is, in words: `bm25 unit=session k=10 (FOLDER)`."""
        settings = "".join(f" {key}={value}" for key, value in self.about["settings"].items())
        return f"{self.about['system']}{settings} k={self.about['k']} ({self.folder})"

    @property
    def sessions(self) -> list[SessionRecord]:
        """The lines of the sessions; of one that was taken in again, the newest."""
        return list(self._sessions.values())

    def add_session(self, line: SessionRecord) -> None:
        """Keep what became of a session, in place of an earlier failure."""
        self._append("sessions.jsonl", line)
        self._sessions[line["shared_context_id"], line["first_index"]] = line

    def add_question(self, line: QuestionRecord) -> None:
        """Keep what a system gave back for a question, in place of an earlier failure."""
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

    # ---- contexts that are finished before their turn

    def set_aside(
        self, context_id: str, sessions: Sequence[SessionRecord], questions: Sequence[QuestionRecord]
    ) -> None:
        """Keep the new lines of a context until it is its turn, see `take_back`."""
        path = self._aside(context_id)
        content = {"shared_context_id": context_id, "sessions": sessions, "questions": questions}
        with _writing(self.folder):
            path.parent.mkdir(exist_ok=True)
            with replacing(path) as part:
                part.write_text(json.dumps(clean(content), ensure_ascii=False), encoding="utf-8")

    def is_set_aside(self, context_id: str) -> bool:
        """Say whether there are lines of a context that wait for their turn."""
        return self._aside(context_id).is_file()

    def take_back(self, context_id: str) -> bool:
        """Add the lines of a context that were set aside, and say whether there were any.

        Raises:
            UserError: Their file is damaged, or the results cannot be written.
        """
        path = self._aside(context_id)
        if not path.is_file():
            return False
        held = _checked(read_json(path, _AGAIN), _strictly(_FinishedContext), str(path), _AGAIN)
        # Some may be there already: a run was ended while it added them.
        for session in held["sessions"]:
            if self._sessions.get((context_id, session["first_index"])) != session:
                self.add_session(session)
        for question in held["questions"]:
            if self.questions.get(question["question_id"]) != question:
                self.add_question(question)
        self.drop_snapshot()
        with _writing(self.folder):
            path.unlink()
            with suppress(OSError):  # others wait there
                path.parent.rmdir()
        return True

    def _aside(self, context_id: str) -> Path:
        return self.folder / _ASIDE / f"{hashlib.sha256(context_id.encode('utf-8', 'replace')).hexdigest()[:16]}.json"

    # ---- a context in the making

    def save_snapshot(self, context_id: str, sessions: int, content: bytes) -> None:
        """Keep the state of a system after some sessions of a context, in place of an earlier one."""
        with _writing(self.folder), replacing(self.folder / _SNAPSHOT) as part:
            part.write_bytes(json.dumps([context_id, sessions]).encode() + b"\n" + content)

    def snapshot(self, context_id: str, sessions: int) -> bytes | None:
        """Return the state of a system after just these sessions of a context, None if it is not kept."""
        kept = self.snapshot_of(context_id)
        return kept[1] if kept and kept[0] == sessions else None

    def snapshot_of(self, context_id: str) -> tuple[int, bytes] | None:
        """Return the state of a system in a context, and after how many sessions it is that."""
        try:
            head, _, content = (self.folder / _SNAPSHOT).read_bytes().partition(b"\n")
            kept, sessions = json.loads(head)
            return (int(sessions), content) if kept == context_id else None
        except (OSError, ValueError, TypeError, RecursionError):
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
        raise UserError(
            f"{folder} cannot be written: {error}", "free some space there, or choose another --out"
        ) from error


@contextmanager
def opened_store(folder: Path, about: StoredRun) -> Iterator[MemoryStore]:
    """Open a folder of results for writing, making it where there is none; others wait for it meanwhile.

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


def about_run(spec: SystemSpec, k: int, split: str, data_digest: str) -> StoredRun:
    """Return what tells the results of one run from those of others."""
    return {
        "system": spec.name,
        "settings": dict(spec.settings),
        "version": spec.version,
        "k": k,
        "split": split,
        "data_digest": data_digest,
    }


def _check_same(store: MemoryStore, about: StoredRun) -> None:
    # Through JSON, as the store has been.
    if differing := [key for key, value in json.loads(json.dumps(about)).items() if store.about.get(key) != value]:
        was, is_ = ({key: values.get(key) for key in differing} for values in (store.about, about))
        raise UserError(f"{store.folder} holds another run: {was}, not {is_}", "choose another folder, or delete it")


def _read_lines(path: Path, kind: type[_Form]) -> Iterator[_Form]:
    if not path.exists():
        return
    try:
        lines = path.read_bytes().split(b"\n")[:-1]  # what stands after the last line end is half a line
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}", _AGAIN) from error
    form = _strictly(kind)
    for number, content in enumerate(lines, 1):
        where = f"{path}, line {number}"
        yield _checked(parse_json(decode(content, where, _AGAIN), where, _AGAIN), form, where, _AGAIN)


def _strictly(kind: type[_Form]) -> TypeAdapter[_Form]:
    kind.__pydantic_config__ = ConfigDict(strict=True)  # type: ignore[attr-defined]
    return TypeAdapter(kind)


def _checked(value: Any, form: TypeAdapter[_Form], where: str, hint: str) -> _Form:
    try:
        return form.validate_python(value)
    except ValidationError as error:
        raise UserError(f"{where}: {describe(error)}", hint) from error


def _cut_torn_line(path: Path) -> None:
    if path.exists() and not (content := path.read_bytes()).endswith(b"\n") and content:
        with path.open("r+b") as file:
            file.truncate(content.rfind(b"\n") + 1)
