"""The questions of a run while it is decided what becomes of them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from generation.errors import UserError
from generation.history_records import History
from generation.question_plans import QuestionPlan, plan_questions
from generation.record_files import read_records, record_line
from generation.records import Persona, Question
from generation.run_inputs import RunInputs
from generation.run_stages import STAGES
from generation.store import RunStore
from personamem_builder.assemble.refined import Fate, Reason
from personamem_builder.audit.inputs import read_run


@dataclass
class QuestionDraft:
    """A question of a run.

    Attributes:
        question: In its present words.
        line: Of the file.
        plan: What it asks.
        place: The context that asks it in an audit, and its end there: the order of that audit.
        rewritten: The rounds in which it was put into other words.
        dropped: Why it is left out; None if it is not.
        votes: Whether each answer of a model without the history was right; None for one that could not be used.
    """

    question: Question
    line: bytes
    plan: QuestionPlan
    place: tuple[str, int]
    rewritten: list[int] = field(default_factory=list)
    dropped: Reason | None = None
    votes: list[bool | None] = field(default_factory=list)

    @property
    def fate(self) -> Fate:
        """What became of it."""
        return Fate(rewritten=tuple(self.rewritten), dropped=self.dropped, votes=tuple(self.votes))

    def reword(self, question: Question, round_: int) -> None:
        """Put it into other words; the same words again are none."""
        if question != self.question:
            self.question = question
            self.line = record_line(question)
            self.rewritten.append(round_)


def read_drafts(store: RunStore, work: RunInputs, made: Path) -> list[QuestionDraft]:
    """Read the questions of a run as they were made, from `made`; those that it has may be in other words by now.

    Raises:
        UserError: The run is not finished, or was damaged.
    """
    store.finished("fillers")  # of the last stage
    rows = read_run(store, refined=False).rows
    places = {row["question_id"]: (row["shared_context_id"], row["end_index_in_shared_context"]) for row in rows}
    personas = {persona.persona_id: persona for persona in store.read("personas", Persona)}
    plans = {
        _plan_key(plan): plan
        for history in store.read("histories", History)
        for plan in plan_questions(work.config, personas[history.persona_id], history, work.banks)
    }
    questions = list(read_records(made, Question))
    present = list(store.read("questions", Question))
    lines = made.read_bytes().splitlines(keepends=True)
    if len(questions) != len(present) or not all(_question_key(question) in plans for question in questions):
        raise UserError(
            f"{made} does not hold the questions that the histories of {store.folder} give",
            f"remove it and {store.path('questions')}, and run the same personamem generate command again",
        )
    return [
        QuestionDraft(question, line, plans[_question_key(question)], places[now.question_id])
        for question, line, now in zip(questions, lines, present, strict=True)
    ]


def _plan_key(plan: QuestionPlan) -> tuple[Any, ...]:
    """Return what tells a plan from all others: several of a topic may have the same subject."""
    key = STAGES["questions"].task_key(plan)
    states = frozenset(option.states for option in plan.shown)
    return key, tuple(e.event_id for e in plan.evidence), plan.after_session_ids, plan.before_session_id, states


def _question_key(question: Question) -> tuple[Any, ...]:
    """Return the `_plan_key` of the plan that a question was written from."""
    key = STAGES["questions"].record_key(question)
    states = frozenset(option.states for option in question.options)
    return key, question.evidence_event_ids, question.after_session_ids, question.before_session_id, states


def digest_of(drafts: Sequence[QuestionDraft]) -> str:
    """Return the sha256 of the file that holds these questions."""
    return hashlib.sha256(b"".join(draft.line for draft in drafts)).hexdigest()
