"""A memory system on its way through a history: what it is shown and when, and what becomes of its faults."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, Protocol, cast

from generation.errors import UserError
from generation.tokenizer import num_tokens
from personamem_builder.memory.firewall import OPTIONS_SHOWN, CheckedMemories, VisibleText, check_memories, find_taint
from personamem_builder.memory.registry import SystemSpec
from personamem_builder.memory.sessions import cut_sessions
from personamem_builder.memory.store import QuestionRecord, SessionRecord
from personamem_builder.memory.system import MemorySystem, Session
from personamem_builder.memory.worker import Hung, Worker
from personamem_builder.schema import ContextRow, QuestionRow, option_texts

_MOST_HANGS: Final = 3
"""After so many in one context the system is asked no more about it: each costs the whole time limit."""

_LONGEST_ERROR: Final = 500

_USAGE_DIGITS: Final = 12
"""Beyond these, what a system used before in the same process would show in the difference of two sums."""


class Records(Protocol):
    """Where the results of a walk go, and those that are there already; see `MemoryStore`."""

    @property
    def sessions(self) -> Sequence[SessionRecord]:
        """The newest record of each session."""

    def is_answered(self, question_id: str) -> bool:
        """Say whether a question was asked, and the system did not fail at it."""

    def add_session(self, line: SessionRecord) -> None:
        """Keep what became of a session."""

    def add_question(self, line: QuestionRecord) -> None:
        """Keep what was given back for a question."""

    def save_snapshot(self, context_id: str, sessions: int, content: bytes) -> None:
        """Keep the state of a system after some sessions of a context."""

    def snapshot(self, context_id: str, sessions: int) -> bytes | None:
        """Return the state of a system after just these sessions of a context."""

    def drop_snapshot(self) -> None:
        """Forget the state."""


class ContextWalk:
    """A system on its way through contexts."""

    def __init__(self, spec: SystemSpec, k: int, timeout: float, store: Records) -> None:
        self._spec = spec
        self._k = k
        self._timeout = timeout
        self._store = store
        self._given_up = ""
        self._again_from = 0
        self._start()

    def close(self) -> None:
        """Let go of the system."""
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
                "what was found so far is kept: rerun the command to resume",
            ) from error

    def _resume(self, context_id: str, sessions: Sequence[Session], done: int) -> None:
        self._set_up("reset", self._system.reset)
        content = self._store.snapshot(context_id, done) if done else None
        if content is not None and self._is_restored(content):
            self._fed = list(sessions)
        else:
            self._feed(sessions)

    def _is_restored(self, content: bytes) -> bool:
        """Have the system take up a state again; one that cannot, is as new."""
        if not callable(restore := getattr(self._system, "restore", None)):
            return False
        try:
            self._worker.call(partial(restore, content), self._timeout)
        except KeyboardInterrupt:
            raise
        except BaseException:
            self._worker.close()
            self._start()
            self._set_up("reset", self._system.reset)
            return False
        return True

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
        # Only a system that says so is shown the options before it answers; it taints what it finds.
        shown = option_texts(row) if callable(getattr(self._system, "search_with_options", None)) else None
        given, seconds, error = self._call(partial(self._search, message, shown))
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
        if shown is not None:
            record["taint"].insert(0, [OPTIONS_SHOWN, "they were sent with the search"])
            self._asked += shown
        if callable(answer := getattr(self._system, "answer", None)):
            options = option_texts(row)
            chosen, _, failed = self._call(partial(answer, message, options))
            valid = isinstance(chosen, int) and not isinstance(chosen, bool) and 0 <= chosen < len(options)
            record["answer"] = chosen if valid and not failed else None
            self._asked += options  # it has seen them now: none may come back later
        return cast(QuestionRecord, {**record, "usage": self._usage_since()})

    def _search(self, message: str, options: Sequence[str] | None) -> list[Any]:
        if options is None:
            found = self._system.search(message, self._k)
        else:
            found = self._system.search_with_options(message, self._k, options)  # type: ignore[attr-defined]
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
            key: round(value - before.get(key, 0.0), _USAGE_DIGITS)
            for key, value in self._usage.items()
            if value != before.get(key, 0.0)
        }


def _in_words(error: BaseException) -> str:
    message = error.message if isinstance(error, UserError) else str(error)
    return f"{type(error).__name__}: {message}"[:_LONGEST_ERROR]
