"""A good language model for tests: a reply to each prompt of a run, as the offline backend would give it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from generation.history_records import Whose
from generation.llm.client import Call, Client, Completion
from generation.llm.offline.backend import OfflineBackend
from generation.question_plans import plan_questions
from generation.run_inputs import RunInputs
from generation.run_stages import STAGES
from generation.stages.fillers import filler_tasks
from generation.stages.histories import draw_history
from generation.stages.personas import draw_personas
from generation.stages.sessions import session_tasks


class GoodModel:
    """The offline backend as a language model: it is read back, and reads what it wrote; it remembers what it said."""

    def __init__(self, work: RunInputs) -> None:
        self._backend = OfflineBackend(work.banks, work.config.seed)
        self.identity = {"backend": "scripted"}
        self.replies: dict[str, str] = {}
        self._told: dict[str, list[str]] = {}  # by the message that tells it
        self._whose: dict[str, Whose] = {}
        self._states: dict[str, list[str]] = {}  # by the option that asserts them

    def complete(self, call: Call) -> Completion:
        facts = call.request.facts
        if call.request.template == "coverage":
            text = json.dumps(self._coverage(facts))
        elif call.request.template == "read_options":
            asserted = [self._states.get(option) for option in facts["options"]]  # a generic one asserts nothing
            numbers = [facts["states"].index(states) + 1 if states else 0 for states in asserted]
            text = json.dumps({"numbers": numbers})
        else:
            text = self._backend.complete(call).text
            reply = json.loads(text)
            if call.request.template == "session":
                self._told |= {turn["user"]: turn["told_ids"] for turn in reply["turns"]}
                self._whose |= {one["told_id"]: one["whose"] for one in facts["told"]}
            elif "options" in reply:
                self._states |= dict(zip(reply["options"], facts["states"], strict=True))
        self.replies[call.messages[0].content] = text
        return Completion(text, "stop")

    def _coverage(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        messages = {id_: n for n, text in enumerate(facts["messages"], start=1) for id_ in self._told[text]}
        told = [
            {"told_id": id_, "message": messages.get(id_), "whose": self._whose[id_]}
            for id_ in (one["told_id"] for one in facts["told"])
        ]
        return {"told": told, "other_tastes": []}


def replies_of(work: RunInputs) -> dict[str, str]:
    """Return a good reply to every prompt of a run, by the prompt."""
    model = GoodModel(work)
    client = Client(model)

    def write(stage: str, tasks: Sequence[Any]) -> list[Any]:
        return [STAGES[stage].write(client, work.banks, task) for task in tasks]

    config, banks = work.config, work.banks
    personas = write("personas", draw_personas(config, banks))
    histories = write("histories", [draw_history(config, persona, banks) for persona in personas])
    for persona, history in zip(personas, histories, strict=True):
        write("sessions", session_tasks(config, persona, history, banks))
        write("questions", plan_questions(config, persona, history, banks))
    write("fillers", filler_tasks(config))
    return model.replies


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
