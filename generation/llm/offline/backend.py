"""What stands in for a language model when there is none."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any, Final

from generation.banks.load import Banks
from generation.llm.client import Call, Completion
from generation.llm.offline.fillers import filler
from generation.llm.offline.question_words import QUESTION_WRITERS, generic_replies
from generation.llm.offline.session_words import session_reply
from generation.request_facts import FillerFacts, HistoryFacts, PersonaFacts
from generation.seeds import rng_for


class OfflineBackend:
    """Answers each request from its facts, with sentences from the banks, worded by the seeds of run and request."""

    def __init__(self, banks: Banks, seed: int) -> None:
        self._banks = banks
        self._seed = seed

    @property
    def identity(self) -> dict[str, object]:
        """Name the backend, its seed and its banks."""
        return {"backend": "offline", "seed": self._seed, "banks": self._banks.digests}

    def complete(self, call: Call) -> Completion:
        """Answer a request; the rendered prompt is not read."""
        request = call.request
        rng = rng_for(self._seed, "offline", *request.seed)
        reply = _WRITERS[request.template](request.facts, self._banks, rng, self._seed)
        return Completion(json.dumps(reply, ensure_ascii=False), "stop")


def _write_persona(facts: PersonaFacts, banks: Banks, rng: random.Random, seed: int) -> dict[str, object]:
    opening = (
        f"{facts['name']} is {facts['age']}. {facts['description']}" if facts["from_source"] else facts["description"]
    )
    sentences = [opening if opening.endswith(".") else f"{opening}.", *facts["more"]]
    return {"profile": " ".join(sentences)}


def _write_general_history(facts: HistoryFacts, banks: Banks, rng: random.Random, seed: int) -> dict[str, object]:
    return {"texts": [event["kernel"] for event in facts["events"]]}


def _write_filler(facts: FillerFacts, banks: Banks, rng: random.Random, seed: int) -> dict[str, object]:
    turns = filler(facts["index"], seed).turns
    return {"turns": [{"user": user, "assistant": assistant} for user, assistant in turns]}


_Writer = Callable[[Any, Banks, random.Random, int], dict[str, object]]
_WRITERS: Final[dict[str, _Writer]] = {
    "persona": _write_persona,
    "general_history": _write_general_history,
    "session": session_reply,
    "filler": _write_filler,
    "generic_replies": generic_replies,
    **QUESTION_WRITERS,
}
