"""Running a memory system over a split: each context is taken in once, and questions are asked where they stand."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, cast

from generation.errors import UserError
from generation.progress import track
from generation.tokenizer import num_tokens
from personamem_builder.dataset.check import read_questions
from personamem_builder.dataset.contexts import iter_contexts
from personamem_builder.dataset.folder import context_files
from personamem_builder.manifest import read_manifest
from personamem_builder.memory.firewall import CheckedMemories, VisibleText, check_memories, find_taint
from personamem_builder.memory.registry import SystemSpec
from personamem_builder.memory.sessions import cut_sessions
from personamem_builder.memory.store import MemoryStore, QuestionRecord, about_run, opened_store, store_folder
from personamem_builder.memory.system import MemorySystem, Session
from personamem_builder.memory.worker import Hung, Worker
from personamem_builder.schema import ContextRow, QuestionRow, option_texts

DEFAULT_K: Final = 10
DEFAULT_TIMEOUT: Final = 600.0
MAX_K: Final = 1_000_000
MAX_TIMEOUT: Final = 1e6

_MOST_HANGS: Final = 3
"""After so many in one context the system is asked no more about it: each costs the whole time limit."""

_LONGEST_ERROR: Final = 500


def run_memory(
    folder: Path,
    split: str,
    spec: SystemSpec,
    k: int = DEFAULT_K,
    *,
    out: Path | None = None,
    contexts: Collection[str] | None = None,
    timeout: float = DEFAULT_TIMEOUT,
) -> MemoryStore:
    """Have a memory system take in the contexts of a split and find what bears on each question.

    A context is walked once, session by session. At each point where questions stand, these are asked, then the walk
    goes on: what a system has not been shown cannot be asked of it. A session inside which a question stands is taken
    in piece by piece, see `cut_sessions`; in data made by this package questions stand at the ends of sessions.

    What was found before is not asked again; what the system failed at is, with all that came after it in that history.
    A run that was interrupted goes on after the last finished session; a system that cannot make snapshots is shown the
    earlier sessions of that context again.

    A system that fails at a session or a question, that hangs, or that returns what cannot be used, does not end the
    run: its failure is kept in place of its memories.

    Args:
        folder: A dataset folder.
        split: One of its splits.
        spec: The system.
        k: The most memories to ask for.
        out: Where the results go. By default into the cache, see `store_folder`.
        contexts: Only these shared contexts; by default all that have questions.
        timeout: Seconds that one session, or one question, may take.

    Returns:
        The results, those of earlier runs on other contexts included.

    Raises:
        UserError: k is no positive number, the system cannot be made or reset, or the results cannot be written.
    """
    check_k(k)
    digest = read_manifest(folder)["digest"]
    asked: dict[str, list[QuestionRow]] = defaultdict(list)
    for row in read_questions(folder, split).to_pylist():
        if contexts is None or row["shared_context_id"] in contexts:
            asked[row["shared_context_id"]].append(row)
    with opened_store(out or store_folder(spec, k, split, digest), about_run(spec, k, split, digest)) as store:
        failed = {session["shared_context_id"] for session in store.sessions if session["error"]}
        open_ = {
            context_id: rows
            for context_id, rows in asked.items()
            if not all(store.is_answered(row["question_id"]) for row in rows) or context_id in failed
        }
        if open_:
            walk = _ContextWalk(spec, k, timeout, store)
            rows_of_contexts: Iterator[Any] = iter_contexts(*context_files(folder, split))
            wanted = (context for context in rows_of_contexts if context["shared_context_id"] in open_)
            for context in track(wanted, f"memory {spec.name}", len(open_)):
                walk.context(context, open_[context["shared_context_id"]])
            walk.close()
    return store


def read_split(folder: Path, split: str) -> tuple[list[QuestionRow], list[ContextRow]]:
    """Return the questions and the shared contexts of a split."""
    rows: list[QuestionRow] = read_questions(folder, split).to_pylist()
    contexts: list[Any] = list(iter_contexts(*context_files(folder, split)))
    return rows, contexts


def check_k(k: Any) -> int:
    """Return k.

    Raises:
        UserError: It is no whole number from 1 to `MAX_K`.
    """
    if not isinstance(k, int) or isinstance(k, bool) or k < 1:
        raise UserError(f"k={k!r}: a memory system is asked for one memory or more", "give a whole number, such as 10")
    if k > MAX_K:
        raise UserError(f"k={k}: a memory system is asked for {MAX_K:,} memories at most", "such as 10")
    return k


class _ContextWalk:
    """A system on its way through contexts."""

    def __init__(self, spec: SystemSpec, k: int, timeout: float, store: MemoryStore) -> None:
        self._spec = spec
        self._k = k
        self._timeout = timeout
        self._store = store
        self._given_up = ""
        self._again_from = 0
        self._start()

    def close(self) -> None:
        self._worker.close()

    def context(self, context: ContextRow, rows: Sequence[QuestionRow]) -> None:
        """Take in a context and ask its questions, those left open by an earlier run."""
        texts = [message["content"] for message in context["messages"]]
        self._texts, self._visible, self._asked = texts, VisibleText(texts), list[str]()
        self._fed: list[Session] = []  # what the system has taken in, for one that takes its place
        if self._given_up:
            self._start()
        self._hangs, self._given_up = 0, ""
        at: dict[int, list[QuestionRow]] = defaultdict(list)
        for row in rows:
            at[min(row["end_index_in_shared_context"], len(texts))].append(row)
        sessions = cut_sessions(context, at)
        ends = [session.first_index + len(session.messages) for session in sessions]
        kept = {
            s["first_index"]: s["error"]
            for s in self._store.sessions
            if s["shared_context_id"] == context["shared_context_id"]
        }
        # From here on the walk is made again: a question is open, or what the system knows will not be what it knew.
        lacking = (end for s, end in zip(sessions, ends, strict=True) if kept.get(s.first_index))
        self._again_from = min(lacking, default=len(texts) + 1)
        open_ends = [end for end, here in at.items() if not all(map(self._is_done, here))]
        first_open = min([*open_ends, self._again_from])
        done = sum(
            session.first_index in kept and end <= first_open and end < self._again_from
            for session, end in zip(sessions, ends, strict=True)
        )
        self._resume(context["shared_context_id"], sessions[:done], done)
        self._ask(at[0], 0)
        for number, (session, end) in enumerate(zip(sessions, ends, strict=True), 1):
            if number > done:
                self._add(session, context)
                self._snapshot(context["shared_context_id"], number)
            self._ask(at[end], end)
        self._store.drop_snapshot()

    def _is_done(self, row: QuestionRow) -> bool:
        is_before = row["end_index_in_shared_context"] < self._again_from
        return is_before and self._store.is_answered(row["question_id"])

    # ---- the system

    def _start(self) -> None:
        """Make the system, in a new thread."""
        self._worker = Worker()
        self._system: MemorySystem = self._set_up("making it", self._spec.make)
        self._usage = self._read_usage()  # of this system, so far

    def _set_up(self, what: str, function: Callable[[], Any]) -> Any:
        """Call what has to work before anything else can."""
        try:
            return self._worker.call(function, self._timeout)
        except (UserError, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise UserError(
                f"the memory system {self._spec.name} fails at {what}: {_in_words(error)}",
                "what was found so far is kept: the same command goes on from there",
            ) from error

    def _resume(self, context_id: str, sessions: Sequence[Session], done: int) -> None:
        self._set_up("reset", self._system.reset)
        content = self._store.snapshot(context_id, done) if done else None
        if content is not None and callable(restore := getattr(self._system, "restore", None)):
            self._set_up("restore", partial(restore, content))
            self._fed = list(sessions)
        else:
            self._feed(sessions)

    def _feed(self, sessions: Sequence[Session]) -> None:
        """Show sessions again that the system, or the one in whose place it is, took in before."""
        for session in sessions:
            self._set_up("a session that it took in before", partial(self._system.add_session, session))
            self._fed.append(session)
        self._usage = self._read_usage()

    def _call(self, function: Callable[[], Any]) -> tuple[Any, float, str]:
        """Return what a call gives, its seconds, and what went wrong in words."""
        if self._given_up:
            return None, 0.0, self._given_up
        started = time.perf_counter()
        result, error = None, ""
        try:
            result = self._worker.call(function, self._timeout)
        except Hung as hung:
            error = f"hung: {hung}"
            self._replace()
        except KeyboardInterrupt:
            raise
        except BaseException as raised:
            error = _in_words(raised)
        return result, time.perf_counter() - started, error

    def _replace(self) -> None:
        """Put a new system in the place of one that hangs."""
        self._hangs += 1
        fed, self._fed = self._fed, []
        try:
            self._start()
            self._set_up("reset", self._system.reset)
            if self._hangs < _MOST_HANGS:
                self._feed(fed)
                return
        except UserError as error:
            self._given_up = f"given up: {error.message}"
            return
        self._given_up = f"given up: it hung {self._hangs} times in this context"

    # ---- sessions and questions

    def _add(self, session: Session, context: ContextRow) -> None:
        contents = [message["content"] for message in session.messages]
        copy = session._replace(messages=tuple(message.copy() for message in session.messages))
        _, seconds, error = self._call(partial(self._system.add_session, copy))
        if not error:
            self._fed.append(session)
        self._store.add_session(
            {
                "shared_context_id": context["shared_context_id"],
                "persona_id": context["persona_id"],
                "number": session.number,
                "first_index": session.first_index,
                "messages": len(contents),
                "bytes": sum(len(content.encode("utf-8", "replace")) for content in contents),
                "tokens": sum(map(num_tokens, contents)),
                "seconds": round(seconds, 6),
                "error": error,
                "usage": self._usage_since(),
            }
        )

    def _snapshot(self, context_id: str, sessions: int) -> None:
        if callable(snapshot := getattr(self._system, "snapshot", None)):
            content, _, error = self._call(snapshot)
            if not error and isinstance(content, bytes):
                self._store.save_snapshot(context_id, sessions, content)

    def _ask(self, rows: Sequence[QuestionRow], end: int) -> None:
        self._visible.show(end)
        for row in rows:
            message = row["user_question_or_message"]
            if not self._is_done(row):
                self._store.add_question(self._answer(row, message, end))
            self._asked.append(message)

    def _answer(self, row: QuestionRow, message: str, end: int) -> QuestionRecord:
        given, seconds, error = self._call(partial(self._search, message))
        checked = CheckedMemories((), ())
        if not error:
            try:
                checked = check_memories(given, self._k, self._texts, end)
            except Exception as raised:  # what is given back may be anything
                error = _in_words(raised)
        memories = checked.memories
        record: Any = {
            "question_id": row["question_id"],
            "persona_id": row["persona_id"],
            "shared_context_id": row["shared_context_id"],
            "end": end,
            "memories": [(memory.text, memory.date, list(memory.message_indices)) for memory in memories],
            "tokens": sum(num_tokens(memory.text) for memory in memories),
            "seconds": round(seconds, 6),
            "error": error,
            "faults": list(checked.faults),
            "taint": [list(taint) for taint in find_taint(row, memories, self._visible, self._asked)],
        }
        if callable(answer := getattr(self._system, "answer", None)):
            options = option_texts(row)
            chosen, _, failed = self._call(partial(answer, message, options))
            valid = isinstance(chosen, int) and not isinstance(chosen, bool) and 0 <= chosen < len(options)
            record["answer"] = chosen if valid and not failed else None
            self._asked += options  # it has seen them now: none may come back later
        return cast(QuestionRecord, {**record, "usage": self._usage_since()})

    def _search(self, message: str) -> list[Any]:
        found = self._system.search(message, self._k)
        # Read here, as it may be a generator; one more than asked for, to see that there are too many.
        return list(islice(found, self._k + 1)) if found is not None else []

    # ---- what it costs

    def _read_usage(self) -> dict[str, float]:
        """Return what a system says that it has used so far; nothing if it does not say."""
        if not callable(usage := getattr(self._system, "usage", None)):
            return {}
        try:
            return {str(key): float(value) for key, value in self._worker.call(usage, self._timeout).items()}
        except KeyboardInterrupt:
            raise
        except BaseException:
            return {}

    def _usage_since(self) -> dict[str, float]:
        before, self._usage = self._usage, {} if self._given_up else self._read_usage()
        return {
            key: value - before.get(key, 0.0) for key, value in self._usage.items() if value != before.get(key, 0.0)
        }


def _in_words(error: BaseException) -> str:
    message = error.message if isinstance(error, UserError) else str(error)
    return f"{type(error).__name__}: {message}"[:_LONGEST_ERROR]
