"""What a question is asked with: a history, a part of it, or what a memory system found in it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from generation.errors import UserError
from personamem_builder.contexts import ContextStore, Message, iter_contexts
from personamem_builder.dataset.folder import contexts_path
from personamem_builder.dataset.locate import DataSource
from personamem_builder.memory.controls import Recent, WrongUser, check_evidence, recent
from personamem_builder.memory.history import profile_index
from personamem_builder.memory.measures import found_in_store, store_measures
from personamem_builder.memory.registry import find_system, known_systems
from personamem_builder.memory.runner import DEFAULT_K, check_k, run_memory
from personamem_builder.memory.store import MemoryStore
from personamem_builder.memory.summary import ALL, summarise
from personamem_builder.memory.system import Memory

FULL: Final = "full"
NONE: Final = "none"
CONTROLS: Final = (FULL, NONE, "persona", "oracle", "wrong-user", "recent")
"""Values of `--metadata memory=…` that name no memory system, the default first."""

_REMEMBERED: Final = "What is remembered of earlier conversations with this user:"

Row = Mapping[str, Any]
History = Callable[[ContextStore, Row], tuple[list[Message], list[int]]]
"""Gives the messages that a question is asked with, and the indices among them at which a session starts."""


def choose_history(metadata: dict[str, Any], whole: Sequence[Row], rows: Sequence[Row], source: DataSource) -> History:
    """Find out what the questions of a task are asked with.

    Args:
        metadata: The task's: `memory`, and `settings`, `k` and `store` where these belong to it. What is left to its
            default is written there.
        whole: All questions of the split.
        rows: Those that are asked.
        source: Where they are from.

    Raises:
        UserError: There is no such memory, it has no such settings, or the data do not allow it.
    """
    name = metadata.get("memory") or _stored_system(metadata) or FULL
    if not isinstance(name, str):
        raise UserError(f"--metadata memory={name!r} is no name", _names())
    metadata["memory"] = name
    settings = metadata.get("settings") or {}
    if not isinstance(settings, Mapping):
        raise UserError(f"--metadata settings={settings!r} are no settings", 'e.g. \'{"unit": "session"}\'')
    if name not in CONTROLS:
        if ":" not in name and name not in known_systems():
            raise UserError(f"--metadata memory={name}: no such value", _names())
        return Retrieved(metadata, settings, source)
    if name != "recent" and settings:
        raise UserError(f"--metadata memory={name} has no settings", "leave them out")
    if useless := [key for key in ("k", "store") if metadata.get(key) is not None]:
        raise UserError(f"--metadata {useless[0]}=… has no meaning with memory={name}", _names())
    if name == "wrong-user":
        return WrongUserHistory(whole, source.origin)
    if name == "oracle":
        check_evidence(rows, source.origin)
        return evidence
    if name == "recent":
        return RecentHistory(recent(settings))
    return {FULL: own_history, NONE: no_history, "persona": persona}[name]


def _names() -> str:
    return f"use one of {', '.join([*CONTROLS, *known_systems()])}, or module:Class"


def _stored_system(metadata: Mapping[str, Any]) -> str | None:
    if metadata.get("store") is None:
        return None
    system: str = MemoryStore(Path(metadata["store"])).about["system"]
    return system


# ---- without a memory system


def own_history(store: ContextStore, row: Row) -> tuple[list[Message], list[int]]:
    """Return the context of a question, cut at its end index."""
    context_id = row["shared_context_id"]
    return store.messages(context_id, row["end_index_in_shared_context"]), store.session_starts(context_id)


def no_history(store: ContextStore, row: Row) -> tuple[list[Message], list[int]]:
    """Return nothing."""
    return [], []


def persona(store: ContextStore, row: Row) -> tuple[list[Message], list[int]]:
    """Return the first system message: the user's profile."""
    messages, _ = own_history(store, row)
    return _profile(messages), []


def evidence(store: ContextStore, row: Row) -> tuple[list[Message], list[int]]:
    """Return the messages that the answer follows from, after the first system message: the persona."""
    messages, sessions = own_history(store, row)
    return _chosen(messages, sessions, row["evidence_message_indices"])


class RecentHistory:
    """The end of the user's history, after the persona.

    Args:
        shown: How much of it.
    """

    def __init__(self, shown: Recent) -> None:
        self._shown = shown

    def __call__(self, store: ContextStore, row: Row) -> tuple[list[Message], list[int]]:
        """Return the history that a question is asked with; see `History`."""
        messages, sessions = own_history(store, row)
        first = self._shown.first_index(messages, sessions)
        said = [i for i in range(first, len(messages)) if messages[i]["role"] != "system"]
        return _chosen(messages, sessions, said)


class WrongUserHistory(WrongUser):
    """The histories of other users, see `WrongUser`."""

    def __call__(self, store: ContextStore, row: Row) -> tuple[list[Message], list[int]]:
        """Return the history that a question is asked with; see `History`."""
        other = self.context_id(row)
        starts = store.session_starts(other)
        return store.messages(other, self.end(row, starts)), starts


def _profile(messages: Sequence[Message]) -> list[Message]:
    place = profile_index(messages)
    return [] if place is None else [messages[place]]


def _chosen(
    messages: Sequence[Message], sessions: Sequence[int], indices: Collection[int]
) -> tuple[list[Message], list[int]]:
    """Return some messages of a history after the persona, and where among them a session starts."""
    persona_ = _profile(messages)
    place = profile_index(messages)
    chosen = sorted({i for i in indices if i < len(messages)} - {place})
    session = [bisect_right(sessions, i) for i in chosen]
    starts = [len(persona_) + n for n in range(1, len(chosen)) if session[n] != session[n - 1]]
    return [*persona_, *(messages[i] for i in chosen)], starts


# ---- with one


class Retrieved:
    """What a memory system found: one system message, after which the question is asked.

    The system is run once for each history, see `run_memory`; where that was done before, with the same system and
    data, what it found is read. `store` names a folder of `personamem memory run --out`, which is read and never added
    to.

    Args:
        metadata: The task's; what is known of the run is written there.
        settings: Those of the system.
        source: Where the questions are from.

    Raises:
        UserError: See `choose_history`.
    """

    def __init__(self, metadata: dict[str, Any], settings: Mapping[str, Any], source: DataSource) -> None:
        self._metadata = metadata
        self._source = source
        self._store: MemoryStore | None = None
        if metadata.get("store") is not None:
            self._read_stored(settings)
        else:
            metadata.update(
                k=check_k(DEFAULT_K if metadata.get("k") is None else metadata["k"]), settings=dict(settings)
            )
            self._run = partial(
                run_memory, source.folder, spec=find_system(metadata["memory"], settings), k=metadata["k"]
            )

    def _read_stored(self, settings: Mapping[str, Any]) -> None:
        metadata, store = self._metadata, MemoryStore(Path(self._metadata["store"]))
        if store.about["data_digest"] != self._source.digest:
            raise UserError(
                f"--metadata store={metadata['store']} is about other data than {self._source.origin}",
                "name the data that the memory system was run on: --metadata data=…",
            )
        given = {"memory": metadata["memory"], "k": metadata.get("k"), "settings": settings or None}
        is_ = {"memory": store.about["system"], "k": store.about["k"], "settings": store.about["settings"]}
        if differing := [key for key, value in given.items() if value is not None and value != is_[key]]:
            key = differing[0]
            raise UserError(
                f"--metadata store={metadata['store']} has {key}={is_[key]}, not {given[key]}",
                f"leave {key} out, or name another store",
            )
        metadata.update(is_)
        self._store = store

    def prepare(self, split: str, rows: Sequence[Row]) -> None:
        """Have the memories of some questions at hand; those of questions about the same histories come with them.

        Raises:
            UserError: A stored run lacks some.
        """
        if self._metadata.get("store") is None:
            self._store = self._run(split, contexts={row["shared_context_id"] for row in rows})
        store = self._known()
        if lacking := [row["question_id"] for row in rows if row["question_id"] not in store.questions]:
            raise UserError(
                f"{store.folder} lacks {len(lacking)} of {len(rows)} questions of the split {split}, such as "
                f"{lacking[0]}",
                "finish it: the same `personamem memory run` goes on where it stopped",
            )
        found = found_in_store(store, rows, iter_contexts(self._source.folder / contexts_path(split)))
        measured = summarise(found, store_measures(store, found))
        self._metadata.update(
            memory_measures=[line for line in measured["measures"] if line.pop("slice") == ALL],
            memory_store=str(store.folder),
            memory_digest=store.digest,
            memory_tainted=len(store.tainted),
            memory_failed=sum(bool(line["error"]) for line in store.questions.values()),
        )

    @property
    def identity(self) -> str:
        """What tells these memories from others."""
        return self._known().digest

    def _known(self) -> MemoryStore:
        if self._store is None:
            raise RuntimeError("the memories are read before they are found")
        return self._store

    def __call__(self, store: ContextStore, row: Row) -> tuple[list[Message], list[int]]:
        """Return the history that a question is asked with; see `History`."""
        messages, sessions = own_history(store, row)
        profile = next((message["content"] for message in _profile(messages)), "")
        text = memory_text(profile, self._known().memories(row["question_id"]), sessions)
        return ([{"role": "system", "content": text}] if text else []), []


def memory_text(profile: str, memories: Sequence[Memory], session_starts: Sequence[int]) -> str:
    """Return the system message that holds what a memory system found, in the same form for all systems.

    The memories stand in the order of the conversation where all of them have a place in it, else in that of their
    dates where all have one, else the best first. A line in front of each says its date, or its session where no date
    is known; not again for a neighbour with the same.

    Args:
        profile: The user's, as the history shows it; may be empty.
        memories: What was found.
        session_starts: Where the sessions of the history start.
    """
    ordered = list(memories)
    if all(memory.message_indices for memory in ordered):
        ordered.sort(key=lambda memory: min(memory.message_indices))
    elif all(memory.date for memory in ordered):
        ordered.sort(key=lambda memory: memory.date)
    parts = [profile] if profile else []
    if ordered:
        parts.append(_REMEMBERED)
    last = ""
    for memory in ordered:
        mark = memory.date
        if not mark and memory.message_indices:
            mark = f"Session {max(1, bisect_right(session_starts, min(memory.message_indices)))}"
        parts.append(f"[{mark}]\n{memory.text}" if mark and mark != last else memory.text)
        last = mark
    return "\n\n".join(parts)
