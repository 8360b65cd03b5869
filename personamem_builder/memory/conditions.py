"""Memory conditions: what a question is asked with, by the names that `--metadata memory=…` takes.

A condition is a control, such as `full` or `oracle`, or what a memory system found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from generation.errors import UserError
from personamem_builder.dataset.contexts import ContextStore
from personamem_builder.dataset.locate import DataSource
from personamem_builder.memory.budget import check_budget, control_settings
from personamem_builder.memory.controls import CONTROLS, Full, History, SplitQuestions
from personamem_builder.memory.registry import known_systems
from personamem_builder.memory.retrieved import RetrievedMemories
from personamem_builder.memory.store import MemoryStore
from personamem_builder.schema import QuestionRow


class Condition(Protocol):
    """What the questions of a task are asked with."""

    @property
    def name(self) -> str:
        """As the user gives it, and as results have it."""

    @property
    def shows_whole(self) -> bool:
        """Whether questions about one context are asked with all of a history up to a point, from its start on."""

    @property
    def reads_whole_contexts(self) -> bool:
        """Whether `prepare` reads more of the shared contexts than their messages."""

    @property
    def identity(self) -> list[Any]:
        """What tells its prompts from others, in the digests by which answers are kept."""

    def prepare(self, split: str, rows: Sequence[QuestionRow]) -> dict[str, Any]:
        """Have at hand what some questions are asked with, and return what results say of that."""

    def group(self, row: QuestionRow) -> str:
        """Return the name of the prompts that start as that of a question does; empty where none do."""

    def context_id(self, row: QuestionRow) -> str:
        """Return the id of the shared context whose messages a question is asked with."""

    def history(self, store: ContextStore, row: QuestionRow) -> History:
        """Return the messages that a question is asked with, and where among them a session starts."""


def condition_of(
    metadata: dict[str, Any], whole: Sequence[QuestionRow], asked: Sequence[QuestionRow], source: DataSource
) -> Condition:
    """Find out what the questions of a task are asked with.

    Args:
        metadata: The task's: `memory`, and `settings`, `k`, `store` and `budget_tokens` where these belong to it. What
            is left to its default is written there.
        whole: All questions of the split.
        asked: Those that are asked.
        source: Where they are from.

    Raises:
        UserError: There is no such memory, it has no such settings, or the data do not allow it.
    """
    k, store = metadata.get("k"), metadata.get("store")
    name = metadata.get("memory") or (Full.name if store is None else MemoryStore(Path(store)).about["system"])
    if not isinstance(name, str):
        raise UserError(f"--metadata memory={name!r} is not a name", _names())
    settings = metadata.get("settings") or {}
    if not isinstance(settings, Mapping):
        raise UserError(f"--metadata settings={settings!r} are not settings", 'e.g. \'{"unit": "session"}\'')
    budget = check_budget(metadata.get("budget_tokens"))
    control = CONTROLS.get(name)
    if control is None:
        if ":" not in name and name not in known_systems():
            raise UserError(f"--metadata memory={name}: no such value", _names())
        retrieved = RetrievedMemories(name, settings, k, store, source, budget)
        metadata.update(retrieved.recorded)
        return retrieved
    if settings and not control.takes_settings:
        raise UserError(f"--metadata memory={name} has no settings", "leave them out")
    if useless := [key for key, value in (("k", k), ("store", store)) if value is not None]:
        raise UserError(f"--metadata {useless[0]}=… has no meaning with memory={name}", _names())
    metadata["memory"] = name
    if within := control_settings(name, settings, budget):
        metadata["settings"] = within
    return control(metadata.get("settings"), SplitQuestions(whole, asked, source.origin))


def _names() -> str:
    return f"use one of {', '.join([*CONTROLS, *known_systems()])}, or module:Class"
