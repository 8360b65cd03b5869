"""What stands in for a language model when there is none."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from typing import Any, Final

from generation.banks.load import Banks
from generation.llm.client import Call, Completion
from generation.llm.offline.fillers import filler
from generation.llm.offline.questions import QUESTION_WRITERS
from generation.llm.offline.session import write_session
from generation.seeds import rng_for

Facts = Mapping[str, Any]


class OfflineBackend:
    """Answers each request from its facts, with sentences from the banks.

    Args:
        banks: The banks of the run.
        seed: Decides the wording, together with the seed of each request.
    """

    def __init__(self, banks: Banks, seed: int) -> None:
        self._banks = banks
        self._seed = seed

    @property
    def identity(self) -> dict[str, Any]:
        """Name the backend, its seed and its banks."""
        return {"backend": "offline", "seed": self._seed, "banks": self._banks.digests}

    def complete(self, call: Call) -> Completion:
        """Answer a request; the rendered prompt is not read."""
        request = call.request
        rng = rng_for(self._seed, "offline", *request.seed)
        reply = _WRITERS[request.template](request.facts, self._banks, rng, self._seed)
        return Completion(json.dumps(reply, ensure_ascii=False), "stop")


def _write_persona(facts: Facts, banks: Banks, rng: random.Random, seed: int) -> dict[str, Any]:
    opening = (
        f"{facts['name']} is {facts['age']}. {facts['description']}" if facts["from_source"] else facts["description"]
    )
    rest = [*facts["circumstances"], *facts["character"]]
    rng.shuffle(rest)
    sentences = [opening if opening.endswith(".") else f"{opening}.", *rest, *facts["outlook"]]
    return {"profile": " ".join(sentences)}


def _write_general_history(facts: Facts, banks: Banks, rng: random.Random, seed: int) -> dict[str, Any]:
    return {"texts": [event["kernel"] for event in facts["events"]]}


def _write_filler(facts: Facts, banks: Banks, rng: random.Random, seed: int) -> dict[str, Any]:
    turns = filler(facts["index"], seed).turns
    return {"turns": [{"user": user, "assistant": assistant} for user, assistant in turns]}


_Writer = Callable[[Facts, Banks, random.Random, int], dict[str, Any]]
_WRITERS: Final[dict[str, _Writer]] = {
    "persona": _write_persona,
    "general_history": _write_general_history,
    "session": write_session,
    "filler": _write_filler,
    **QUESTION_WRITERS,
}
