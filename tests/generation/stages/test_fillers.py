from __future__ import annotations

from copy import deepcopy

import pytest
from small_banks import TOPICS, FreeWriter, ScriptedBackend, small_banks

from generation.config import Config
from generation.llm.client import Client, ReplyError
from generation.llm.offline.backend import OfflineBackend
from generation.records import Filler
from generation.stages.fillers import FillerReply, FillerTask, filler_request, filler_tasks, write_filler

CONFIG = Config(topics=TOPICS, fillers=60)


@pytest.fixture(scope="module")
def client() -> Client:
    return Client(OfflineBackend(small_banks(), CONFIG.seed))


@pytest.fixture(scope="module")
def tasks() -> list[FillerTask]:
    return filler_tasks(CONFIG)


@pytest.fixture(scope="module")
def fillers(client: Client, tasks: list[FillerTask]) -> list[Filler]:
    return [write_filler(client, task) for task in tasks]


def test_a_filler_is_a_question_with_two_answers(fillers: list[Filler]) -> None:
    for filler in fillers:
        assert [message.role for message in filler.messages] == ["user", "assistant"] * 2
    assert len({filler.filler_id for filler in fillers}) == len(fillers)


def test_two_turns_are_wanted(tasks: list[FillerTask]) -> None:
    turn = {"user": "Why?", "assistant": "Because."}
    backend = ScriptedBackend({"turns": [turn]}, {"turns": [turn, turn]})
    assert len(write_filler(Client(backend), tasks[0]).messages) == 4
    assert "there are 1 turns and not 2" in backend.calls[1][-1].content
    with pytest.raises(ReplyError, match=r"filler for filler 0: .*there are 0 turns and not 2"):
        write_filler(Client(ScriptedBackend({"turns": []})), tasks[0])


def test_what_a_language_model_writes_is_looked_at(
    tasks: list[FillerTask], fillers: list[Filler], client: Client
) -> None:
    """The offline backend writes nothing that would be refused of a language model."""
    for task, filler in zip(tasks, fillers, strict=True):
        good = client.ask(filler_request(task), FillerReply).model_dump()
        bad = deepcopy(good)
        bad["turns"][0]["user"] = "User: why?"
        bad["turns"][1]["assistant"] = bad["turns"][0]["assistant"]
        writer = FreeWriter(filler=[bad, good])
        assert write_filler(Client(writer), task) == filler
        repair = writer.asked("filler")[1]
        assert "turn 1: the user's message has a speaker label (User:)" in repair
        assert "turn 2: the assistant's message repeats turn 1: the assistant's message" in repair
