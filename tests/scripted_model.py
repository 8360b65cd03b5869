"""A good language model for tests: a reply to each prompt of a run, as the offline backend would give it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from generation.llm.client import Call, Client, Completion
from generation.llm.offline.backend import OfflineBackend
from generation.pipeline import STAGES, Work
from generation.question_plans import plan_questions
from generation.stages.fillers import filler_tasks
from generation.stages.histories import draw_history
from generation.stages.personas import draw_personas
from generation.stages.sessions import session_tasks


class _Recorder:
    """The offline backend, and what it said to which prompt."""

    def __init__(self, work: Work, replies: dict[str, str]) -> None:
        self._backend = OfflineBackend(work.banks, work.config.seed)
        self._replies = replies

    @property
    def identity(self) -> dict[str, Any]:
        return self._backend.identity

    def complete(self, call: Call) -> Completion:
        completion = self._backend.complete(call)
        self._replies[call.messages[0].content] = completion.text
        return completion


def replies_of(work: Work) -> dict[str, str]:
    """Return a good reply to every prompt of a run, by the prompt."""
    replies: dict[str, str] = {}
    client = Client(_Recorder(work, replies))

    def write(stage: str, tasks: Sequence[Any]) -> list[Any]:
        return [STAGES[stage].write(client, work.banks, task) for task in tasks]

    config, banks = work.config, work.banks
    personas = write("personas", draw_personas(config, banks.people))
    histories = write("histories", [draw_history(config, persona, banks) for persona in personas])
    for persona, history in zip(personas, histories, strict=True):
        write("sessions", session_tasks(config, persona, history, banks))
        write("questions", plan_questions(config, persona, history, banks))
    write("fillers", filler_tasks(config))
    return replies


def broken(reply: str, kind: int) -> str:
    """Return a reply that cannot be used, of one kind of seven."""
    content = json.loads(reply)
    return [
        reply[: len(reply) // 2],
        f"{reply}\n{reply}",
        "Sure, here you are.",
        "{}",
        json.dumps({**content, "note": "extra"}) if "turns" not in content else json.dumps({"turns": []}),
        json.dumps({key: [] if isinstance(value, list) else "" for key, value in content.items()}),
        "",
    ][kind % 7]
