"""Stage 5: short conversations that show nothing of any user."""

from __future__ import annotations

from typing import NamedTuple

from pydantic import BaseModel

from generation.config import Config
from generation.errors import UserError
from generation.llm.client import Client, Request
from generation.llm.offline.fillers import count, filler
from generation.records import Filler, Message, content_id
from generation.request_facts import FillerFacts
from generation.text_checks import AIMS, conversation_faults
from generation.tokenizer import num_tokens


class FillerTurn(BaseModel):
    """A question and its answer."""

    user: str
    assistant: str


class FillerReply(BaseModel):
    """What the model writes: a question, its answer, a further question, its answer."""

    turns: list[FillerTurn]


class FillerTask(NamedTuple):
    """A filler to be written."""

    number: int
    facts: FillerFacts


def filler_tasks(config: Config) -> list[FillerTask]:
    """Return the fillers of a run; no two are about the same thing.

    Raises:
        UserError: The configuration asks for more than there are.
    """
    if config.fillers > count():
        raise UserError(f"fillers: {config.fillers:,} are too many; there are {count():,}", "lower fillers")
    tasks = []
    for index in range(config.fillers):
        subject = filler(index, config.seed)
        facts: FillerFacts = {"index": index, "kind": subject.kind, "title": subject.title, "words": dict(AIMS)}
        tasks.append(FillerTask(index, facts))
    return tasks


def filler_request(task: FillerTask) -> Request:
    """Return the call that writes a filler."""
    return Request("filler", task.facts, ("filler", task.number))


def write_filler(client: Client, task: FillerTask) -> Filler:
    """Have a filler written."""

    def check(reply: FillerReply) -> list[str]:
        if len(reply.turns) != 2:
            return [f"there are {len(reply.turns)} turns and not 2"]
        return (
            conversation_faults([(turn.user, turn.assistant) for turn in reply.turns]) if client.is_free_writer else []
        )

    reply = client.ask(filler_request(task), FillerReply, check)
    messages = [
        message
        for turn in reply.turns
        for message in (
            Message(role="user", content=turn.user, num_tokens=num_tokens(turn.user)),
            Message(role="assistant", content=turn.assistant, num_tokens=num_tokens(turn.assistant)),
        )
    ]
    return Filler(
        filler_id=content_id("filler", task.facts["kind"], task.facts["title"]),
        kind=task.facts["kind"],
        title=task.facts["title"],
        messages=tuple(messages),
    )
