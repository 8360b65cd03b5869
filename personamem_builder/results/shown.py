"""What a run showed, and which questions it was restricted to, as its task says."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from personamem_builder.memory.controls import Full, Nothing
from personamem_builder.memory.summary import number
from personamem_builder.results.settings import TaskMetadata, printable, printable_pairs


class MemoryShown(NamedTuple):
    """What a run showed of conversations: `--metadata memory=…`.

    Attributes:
        memory: `full`, another of the task's values, or the name of a memory system.
        settings: Those of the system, `k` among them, sorted by name.
        tainted: Questions for which the system returned text of the options that the history does not hold.
        failed: Questions for which the system failed.
        measures: What retrieval was worth, in words: `evidence recall 30.0 %`.
        tokens: Of what was found, for a question, on average; None where that is not known.
    """

    memory: str = Full.name
    settings: tuple[tuple[str, str], ...] = ()
    tainted: int = 0
    failed: int = 0
    measures: tuple[str, ...] = ()
    tokens: float | None = None

    @property
    def key(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        """What was asked for, whatever came of it."""
        return self.memory, self.settings

    @property
    def label(self) -> str:
        """In words; empty for the whole history, and for nothing, which is told otherwise."""
        if self.memory in (Full.name, Nothing.name):
            return ""
        return ", ".join([self.memory, *(f"{name}={value}" for name, value in self.settings)])


class Subset(NamedTuple):
    """The questions that a run was restricted to: the file that names them, how many, and the sha256 of their ids."""

    file: str
    size: int
    sha256: str


def memory_shown(metadata: TaskMetadata) -> MemoryShown:
    """Return what a task says of the memory that it showed."""
    settings = dict(metadata.settings or {})
    if metadata.k is not None:
        settings["k"] = metadata.k
    if metadata.budget_tokens is not None:
        settings["budget_tokens"] = metadata.budget_tokens
    return MemoryShown(
        printable(metadata.memory),
        printable_pairs(settings),
        metadata.memory_tainted,
        metadata.memory_failed,
        tuple(f"{printable(one.measure)} {number(one.value, one.unit)}" for one in metadata.memory_measures),
        next((one.value for one in metadata.memory_measures if one.measure == "tokens per query"), None),
    )


def subset_asked(metadata: TaskMetadata) -> Subset | None:
    """Return what a task says of the questions to which it was restricted."""
    if metadata.subset_sha256 is None:
        return None
    return Subset(printable(Path(metadata.subset).name), metadata.subset_size, printable(metadata.subset_sha256))
