"""The stages of a run, in order: what writes a record for which task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from generation.banks.load import Banks
from generation.history_records import History
from generation.llm.client import Client
from generation.records import Filler, Persona, Question, Record, Session
from generation.stages.fillers import write_filler
from generation.stages.histories import write_history
from generation.stages.personas import write_persona
from generation.stages.questions import write_question
from generation.stages.sessions import write_session


class Stage(NamedTuple):
    """A stage: a record for each task, in the order of the tasks.

    Attributes:
        task_key: Names a task.
        record_key: Names the task that a record was made for.
        user: Returns the number of the user whom a task is for; None where records are for no user.
    """

    name: str
    kind: type[Record]
    write: Callable[[Client, Banks, Any], Record]
    task_key: Callable[[Any], Any]
    record_key: Callable[[Any], Any]
    user: Callable[[Any], int] | None = None


STAGES: Final = {
    stage.name: stage
    for stage in (
        Stage(
            "personas",
            Persona,
            lambda client, banks, task: write_persona(client, task),
            lambda task: task.persona.persona_id,
            lambda persona: persona.persona_id,
            lambda task: task.persona.persona_id,
        ),
        Stage(
            "histories",
            History,
            lambda client, banks, task: write_history(client, task),
            lambda task: task.persona.persona_id,
            lambda history: history.persona_id,
            lambda task: task.persona.persona_id,
        ),
        Stage(
            "sessions",
            Session,
            lambda client, banks, task: write_session(client, task),
            lambda task: task.plan.session_id,
            lambda session: session.session_id,
            lambda task: task.persona_id,
        ),
        Stage(
            "questions",
            Question,
            lambda client, banks, task: write_question(client, task, banks),
            lambda plan: (plan.persona_id, plan.question_type, plan.topic, plan.subject),
            lambda question: (question.persona_id, question.question_type, question.topic, question.subject),
            lambda plan: plan.persona_id,
        ),
        Stage(
            "fillers",
            Filler,
            lambda client, banks, task: write_filler(client, task),
            lambda task: task.facts["title"],
            lambda filler: filler.title,
        ),
    )
}
"""The stages in order."""


def stages_after(stage: str) -> list[str]:
    """Return the names of the stages after one."""
    names = list(STAGES)
    return names[names.index(stage) + 1 :]
