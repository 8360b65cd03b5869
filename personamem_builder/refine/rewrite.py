"""Questions in other words: asked for again with another seed, from the same plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from generation.llm.client import Backend, Call, Completion, ReplyError
from generation.records import Question
from generation.run_inputs import RunInputs
from generation.run_stages import STAGES
from generation.seeds import rng_for
from personamem_builder.refine.clients import Clients, ConnectedBackend
from personamem_builder.refine.drafts import QuestionDraft


class ReseededBackend:
    """A backend that is asked once more for what it has written before.

    Every request has a seed of its own for each round, and so has the sampling of a model; and a reply that was kept
    for an earlier round is no reply to this one.
    """

    def __init__(self, backend: Backend, round_: int) -> None:
        self._backend = backend
        self._round = round_

    @property
    def identity(self) -> dict[str, Any]:
        """That of the backend, and the round."""
        return {**self._backend.identity, "rewrite": self._round}

    def complete(self, call: Call) -> Completion:
        """Answer as the backend does with another seed."""
        request = call.request._replace(seed=(*call.request.seed, "rewrite", self._round))
        seed = rng_for(call.seed, "rewrite", self._round).getrandbits(31)
        return self._backend.complete(call._replace(request=request, seed=seed))


def rewrite(
    clients: Clients, writer: ConnectedBackend, work: RunInputs, drafts: Sequence[QuestionDraft], round_: int
) -> int:
    """Put questions into other words, in a round from 1.

    Returns:
        How many the writer gave no usable words for; these stay as they are.
    """
    client = clients.client(writer._replace(backend=ReseededBackend(writer.backend, round_)), "questions")

    def write(draft: QuestionDraft) -> Question | None:
        try:
            question: Question = STAGES["questions"].write(client, work.banks, draft.plan)  # type: ignore[assignment]
        except ReplyError:
            return None
        return question

    unwritten = 0
    for draft, question in zip(drafts, clients.map(writer, f"rewriting, round {round_}", write, drafts), strict=True):
        if question is None:
            unwritten += 1
        else:
            draft.reword(question, round_)
    return unwritten
