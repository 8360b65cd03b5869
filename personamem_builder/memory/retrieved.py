"""The condition of a memory system: what it found, as one system message before the question."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from generation.errors import UserError
from personamem_builder.dataset.contexts import ContextStore, iter_contexts
from personamem_builder.dataset.folder import context_files
from personamem_builder.dataset.locate import DataSource
from personamem_builder.memory.budget import within_budget
from personamem_builder.memory.controls import History
from personamem_builder.memory.measures import retrievals_in_store, session_measures, store_measures
from personamem_builder.memory.registry import SystemSpec, find_system, without_url
from personamem_builder.memory.runner import DEFAULT_K, check_k, run_memory
from personamem_builder.memory.store import MemoryStore
from personamem_builder.memory.summary import ALL, summarise
from personamem_builder.memory.system import Memory
from personamem_builder.schema import QuestionRow, shown_profile

_REMEMBERED: Final = "What is remembered of earlier conversations with this user:"


class RetrievedMemories:
    """What a memory system found; see `Condition` for the methods.

    The system is run once for each history, see `run_memory`; where that was done before, with the same system and
    data, what it found is read. A `store`, a folder of `personamem memory run --out`, is read and never added to.

    Raises:
        UserError: There is no such system, it has no such settings, or the stored run is another one.
    """

    shows_whole = False
    reads_whole_contexts = True  # a memory system is shown the dates of sessions too

    def __init__(
        self,
        name: str,
        settings: Mapping[str, Any],
        k: Any,
        store: str | None,
        source: DataSource,
        budget: int | None = None,
    ) -> None:
        name, settings = without_url(name, settings)
        self.name = name
        self._budget = budget
        self._source = source
        self._spec: SystemSpec | None = None
        self._store: MemoryStore | None = None
        if store is None:
            self.recorded: dict[str, Any] = {
                "memory": name,
                "k": check_k(DEFAULT_K if k is None else k),
                "settings": dict(settings),
            }
            self._spec = find_system(name, settings)
        else:
            self._store = MemoryStore(Path(store))
            self.recorded = _of_stored_run(self._store, {"memory": name, "k": k, "settings": settings or None}, source)

    @property
    def identity(self) -> list[Any]:
        """Its name and settings, the digest of what was found, and the budget."""
        known = [self.name, self.recorded["settings"], self._known().digest]
        return known if self._budget is None else [*known, self._budget]

    def prepare(self, split: str, rows: Sequence[QuestionRow]) -> dict[str, Any]:
        """Have the memories of some questions at hand, and return what they are worth and what was wrong with them.

        Raises:
            UserError: A stored run lacks some.
        """
        own = {row["shared_context_id"] for row in rows}
        if self._spec is not None:
            self._store = run_memory(self._source.folder, split, self._spec, self.recorded["k"], contexts=own)
        store = self._known()
        if lacking := [row["question_id"] for row in rows if row["question_id"] not in store.questions]:
            raise UserError(
                f"{store.folder} lacks {len(lacking)} of {len(rows)} questions of the split {split}, such as "
                f"{lacking[0]}",
                "finish it: rerun `personamem memory run` to resume",
            )
        all_contexts: Iterator[Any] = iter_contexts(*context_files(self._source.folder, split))
        contexts = [context for context in all_contexts if context["shared_context_id"] in own]
        found = retrievals_in_store(store, rows, contexts, self._budget)
        measured = summarise(found, store_measures(store, found))
        tainted = set(store.tainted)
        return {
            "memory_measures": [
                *(line for line in measured["measures"] if line.pop("slice") == ALL),
                *session_measures(store, own),
            ],
            "memory_store": str(store.folder),
            "memory_digest": store.digest,
            "memory_tainted": sum(row["question_id"] in tainted for row in rows),
            "memory_failed": sum(bool(store.questions[row["question_id"]]["error"]) for row in rows),
        }

    def group(self, row: QuestionRow) -> str:
        """Return a name for each question, as each has memories of its own."""
        return f"{self.name} {row['question_id']}"

    def context_id(self, row: QuestionRow) -> str:
        """Return the id of the question's own context."""
        return row["shared_context_id"]

    def history(self, store: ContextStore, row: QuestionRow) -> History:
        """Return the user's profile and the memories as one system message; nothing where there is neither."""
        context_id = row["shared_context_id"]
        messages = store.messages(context_id, row["end_index_in_shared_context"])
        found = self._known().memories(row["question_id"])
        memories = within_budget(found, self._budget, [message["content"] for message in messages])
        text = memory_text(shown_profile(messages), memories, store.session_starts(context_id))
        return ([{"role": "system", "content": text}] if text else []), []

    def _known(self) -> MemoryStore:
        if self._store is None:
            raise RuntimeError("the memories are read before they are found")
        return self._store


def _of_stored_run(store: MemoryStore, given: Mapping[str, Any], source: DataSource) -> dict[str, Any]:
    """Return what was run, after making sure that it is what was asked for, as far as that was given."""
    if store.about["data_digest"] != source.digest:
        raise UserError(
            f"--metadata store={store.folder} is about other data than {source.origin}",
            "name the data that the memory system was run on: --metadata data=…",
        )
    was = {"memory": store.about["system"], "k": store.about["k"], "settings": store.about["settings"]}
    if differing := [key for key, value in given.items() if value is not None and value != was[key]]:
        key = differing[0]
        raise UserError(
            f"--metadata store={store.folder} has {key}={was[key]}, not {given[key]}",
            f"leave {key} out, or name another store",
        )
    return was


def memory_text(profile: str, memories: Sequence[Memory], session_starts: Sequence[int]) -> str:
    """Return the system message that holds what a memory system found, in the same form for all systems.

    The memories stand in the order of the conversation where all of them have a place in it, else in that of their
    dates where all have one, else the best first. A line in front of each says its date, or its session where no date
    is known; not again for a neighbour with the same.
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
