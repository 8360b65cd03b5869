"""A `_generate` task for harnesses other than lm-eval: the same questions, messages and scores, from the same file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

from jinja2 import Environment, StrictUndefined

from generation.errors import UserError
from personamem_builder.dataset.contexts import ContextStore, open_contexts
from personamem_builder.evaluation import chat, scoring
from personamem_builder.evaluation.instruction import last_turn, wants_explanation
from personamem_builder.evaluation.responses import Reply
from personamem_builder.evaluation.task_data import (
    asked_split,
    chosen_value,
    find_source,
    read_rows,
    record_source,
    without_history,
)
from personamem_builder.evaluation.task_files import read_task_file
from personamem_builder.evaluation.window import rough_count
from personamem_builder.hub.download import download_contexts
from personamem_builder.memory.conditions import Condition, condition_of
from personamem_builder.schema import Message, QuestionRow

RULES: Final[Mapping[str, Callable[..., list[Any]]]] = {"robust": scoring.robust, "v1_parity": scoring.v1_parity}
"""How letters are taken from replies, by the names of the task's lm-eval filters."""


class Extracted(NamedTuple):
    """The letters that a rule takes from a reply, empty where there are none, and the credit for them, 0 or 1."""

    letters: str
    credit: float


class WrittenTask:
    """The questions of a task, what a model is shown of each, and what its replies are worth.

    Attributes:
        name: The name of the lm-eval task, whose file says the words.
        metadata: What results say of the task: what was given, what is left to its default, and where the data are
            from. The keys are those of `--metadata`, but for `shard`, and `overlength` is never `left`.
        rows: The questions, in an order in which neighbours share their history.
        version: The version of the task.
    """

    def __init__(self, name: str, given: Mapping[str, Any]) -> None:
        """Find the data.

        Raises:
            UserError: They cannot be had, or what is given is no setting of the task.
        """
        file = read_task_file(name)
        self.name = name
        self.version = str(file["metadata"]["version"])
        self.metadata: dict[str, Any] = {"task": name} | {k: v for k, v in given.items() if v is not None}
        words = str(file["doc_to_text"])
        self._explain = wants_explanation(self.metadata, words, name)
        template = last_turn(self.metadata, words, name)
        # As lm-eval renders it.
        self._template = Environment(undefined=StrictUndefined, keep_trailing_newline=True).from_string(template)
        self._roles = chosen_value(self.metadata, "roles", ("normalised", "no_system", "verbatim"))
        self.skips_overlong = chosen_value(self.metadata, "overlength", ("error", "skip")) == "skip"
        self.generation: Mapping[str, Any] = file["generation_kwargs"]
        self._shows_history = (file.get("dataset_kwargs") or {}).get("context", "full") != "none"
        self._split = asked_split(self.metadata, file["test_split"])
        self._source = find_source(self.metadata, self._split, name)
        whole, self.rows = read_rows(self.metadata, self._source, self._split, name)
        questions = (self.metadata, whole, self.rows, self._source)
        self._condition: Condition = (
            condition_of(*questions) if self._shows_history else without_history(*questions, name)
        )
        record_source(self.metadata, self._source, name)
        if self._shows_history:
            if hub := self._source.hub:
                download_contexts(hub.repo_id, hub.commit, [self._split])
            self.metadata |= self._condition.prepare(self._split, self.rows)

    @property
    def origin(self) -> str:
        """Where the data are from, in words."""
        return self._source.origin

    @cached_property
    def _contexts(self) -> ContextStore:
        return open_contexts(self._source.folder)

    def last_turn(self, row: QuestionRow) -> str:
        """Return the last user turn: the question, the instruction and the options."""
        return self._template.render({**row, "explain": self._explain})

    def messages(self, row: QuestionRow) -> list[Message]:
        """Return what a model is asked, the history first; one history is in memory at a time."""
        history, starts = self._condition.history(self._contexts, row) if self._shows_history else ([], [])
        return chat.build_messages(history, starts, self.last_turn(row), roles=self._roles)

    def overlong(self, window: int) -> list[QuestionRow]:
        """Return the questions that do not fit a window of so many tokens, the reply included.

        The model's tokenizer is out of reach: lengths are estimated from `o200k_base`.

        Raises:
            UserError: There are some, and they are not to be skipped; or none fits.
        """
        room = window - int(self.generation["max_gen_toks"])
        overlong = [row for row in self.rows if not self._fits(row, room)]
        if overlong and (not self.skips_overlong or len(overlong) == len(self.rows)):
            skip = "" if self.skips_overlong else ", or count these questions as wrong: overlength=skip"
            raise UserError(
                f"{self.name}: {len(overlong)} of {len(self.rows)} questions are too long for the model, whose window "
                f"is {window} tokens",
                f"take a model with a longer window (or raise max_length){skip}",
            )
        return overlong

    def _fits(self, row: QuestionRow, room: int) -> bool:
        texts = [message["content"] for message in self.messages(row)]
        # A token is at least a byte, so most prompts of a large window need no counting.
        return sum(len(text.encode()) for text in texts) <= room or rough_count("\n".join(texts)) <= room

    def extracted(self, rule: str, reply: Reply, row: QuestionRow) -> Extracted:
        """Return what one of the `RULES` makes of a reply."""
        (letters,) = RULES[rule]([[reply]], [row])
        return Extracted(letters, scoring.letter_credit(letters, row["answer_index"]))


def by_id(rows: Sequence[QuestionRow]) -> dict[str, QuestionRow]:
    """Return questions by their ids."""
    return {row["question_id"]: row for row in rows}
