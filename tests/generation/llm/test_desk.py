"""The desk without a cluster: whatever becomes of the tasks that ask it, each call is paid and written down once."""

from __future__ import annotations

import json
import os
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from loopback_llm import LoopbackLLM, Reply
from scripted_model import broken, replies_of
from small_runs import tiny_work

from generation.config import LLMConfig, Price
from generation.errors import UserError
from generation.llm.backends import parse_backend
from generation.llm.desk import Desk, DeskActor
from generation.llm.ledger import BudgetReached
from generation.llm.paid_models import ModelSettings
from generation.pipeline import STAGES, RunInputs
from generation.ray_worker import unpacked
from generation.records import Record
from generation.stages.histories import draw_history
from generation.stages.personas import draw_personas
from generation.stages.sessions import session_tasks

PARROT = parse_backend("openai:parrot")
PRICES = {"parrot": Price(input=1.0, output=2.0)}
ITEM = "sessions one"


class Lost(BaseException):
    """The process of a task is lost."""


@pytest.fixture(scope="module")
def work() -> RunInputs:
    return tiny_work(personas=1, fillers=1, llm=LLMConfig(concurrency=4, prices=PRICES))._replace(
        backend="openai:parrot"
    )


@pytest.fixture(scope="module")
def good(work: RunInputs) -> dict[str, str]:
    return replies_of(work)


@pytest.fixture
def server(good: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackLLM]:
    """A model whose first answer to each prompt does not fit."""

    def answer(body: dict[str, Any]) -> Reply:
        reply = good[body["messages"][0]["content"]]
        return Reply(broken(reply, 0) if len(body["messages"]) == 1 else reply)

    with LoopbackLLM(answer) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-a-key-that-nobody-may-see")
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        yield server


class OpenDesk:
    """A desk in this process, whose messages are counted; one of them can be the last of a task."""

    def __init__(self, folder: Path, work: RunInputs, budget: float | None = None) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.actor = DeskActor()
        settings = ModelSettings(folder, (PARROT,), work.config.llm, PRICES, budget)
        self.messages = 0
        self.lost_at: tuple[int, bool] | None = None
        self.desk = Desk(self._send, settings, unpacked(self.actor.open(settings, _environment())))

    def _send(self, method: str, *arguments: Any) -> Any:
        self.messages += 1
        number, arrived = self.lost_at or (0, False)
        if self.messages == number and not arrived:
            raise Lost
        found = getattr(self.actor, method)(*arguments)
        if self.messages == number:
            raise Lost
        return unpacked(found)

    def write(self, work: RunInputs) -> Record:
        """Have the first session written, as a task does."""
        [persona_task] = draw_personas(work.config, work.banks)
        persona = STAGES["personas"].write(work.client(), work.banks, persona_task)
        history_task = draw_history(work.config, persona, work.banks)  # type: ignore[arg-type]
        history = STAGES["histories"].write(work.client(), work.banks, history_task)
        task = session_tasks(work.config, persona, history, work.banks)[0]  # type: ignore[arg-type]
        return STAGES["sessions"].write(self.desk.client("sessions", PARROT, None, ITEM), work.banks, task)

    def ledger(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "ledger.jsonl").read_text().splitlines()]


def _environment() -> dict[str, str]:
    return {name: os.environ[name] for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL")}


def paid(server: LoopbackLLM) -> Counter[str]:
    return Counter(json.dumps([request.body["messages"], request.body.get("seed")]) for request in server.requests)


@pytest.fixture
def messages(server: LoopbackLLM, work: RunInputs, tmp_path: Path) -> int:
    """How many messages a task sends to the desk; the server has seen none of it."""
    opened = OpenDesk(tmp_path / "counted", work)
    opened.write(work)
    server.requests.clear()
    return opened.messages


@pytest.mark.slow
def test_a_task_that_is_lost_at_any_moment_is_begun_again_and_nothing_is_paid_twice(
    server: LoopbackLLM, work: RunInputs, messages: int, tmp_path: Path
) -> None:
    written = OpenDesk(tmp_path / "whole", work).write(work)
    calls = len(server.requests)
    assert calls > 2
    for number in range(1, messages + 1):
        for arrived in (False, True):
            server.requests.clear()
            opened = OpenDesk(tmp_path / f"lost-{number}-{arrived}", work)
            opened.lost_at = (number, arrived)
            with pytest.raises(Lost):
                opened.write(work)
            opened.lost_at = None
            assert opened.write(work) == written
            assert set(paid(server).values()) == {1}
            assert len(server.requests) == calls == len(opened.ledger())
            assert opened.actor._ledger.spent() == pytest.approx(calls * (11 * 1 + 7 * 2) / 1e6)


def test_what_was_said_to_a_lost_task_is_written_down_when_the_desk_closes(
    server: LoopbackLLM, work: RunInputs, tmp_path: Path
) -> None:
    opened = OpenDesk(tmp_path / "run", work)
    opened.lost_at = (2, True)  # the first call, after the look for a kept reply
    with pytest.raises(Lost):
        opened.write(work)
    assert opened.ledger() == []
    assert opened.actor._ledger.spent() > 0, "it counts for the budget at once"
    unpacked(opened.actor.close())
    [line] = opened.ledger()
    assert (line["template"], line["outcome"], line["prompt_tokens"]) == ("session", "error", 11)


def test_a_call_goes_on_when_its_task_is_lost_and_the_next_one_waits_for_it(
    good: dict[str, str], work: RunInputs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    begun, answered = threading.Event(), threading.Event()

    def answer(body: dict[str, Any]) -> Reply:
        begun.set()
        answered.wait(20)
        return Reply(good[body["messages"][0]["content"]])

    with LoopbackLLM(answer) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        opened = OpenDesk(tmp_path / "run", work)
        tasks = [threading.Thread(target=opened.write, args=[work]) for _ in range(2)]
        for task in tasks:
            task.start()
        assert begun.wait(20)
        answered.set()
        for task in tasks:
            task.join(20)
        assert set(paid(server).values()) == {1}


def test_a_budget_holds_for_all_who_ask(server: LoopbackLLM, work: RunInputs, tmp_path: Path) -> None:
    cost = (11 * 1 + 7 * 2) / 1e6
    opened = OpenDesk(tmp_path / "run", work, budget=1.5 * cost)
    with pytest.raises(BudgetReached):
        opened.write(work)
    assert len(server.requests) == 2, "the second call began below the budget"


def test_an_error_of_the_endpoint_reaches_the_task_and_is_not_kept(
    server: LoopbackLLM, work: RunInputs, tmp_path: Path
) -> None:
    good = server.answer
    server.answer = lambda body: Reply(status=401, body={"error": {"message": "no such key"}})
    opened = OpenDesk(tmp_path / "run", work)
    with pytest.raises(UserError, match="OPENAI_API_KEY"):
        opened.write(work)
    server.answer = good
    opened.write(work)


def test_the_desk_has_the_environment_of_the_command_and_not_that_of_its_cluster(
    server: LoopbackLLM, work: RunInputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = _environment()
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-somebody-else")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    monkeypatch.setattr(f"{__name__}._environment", lambda: given)
    OpenDesk(tmp_path / "run", work).write(work)
    assert server.keys == {given["OPENAI_API_KEY"]}


def test_an_item_whose_result_has_arrived_is_forgotten(server: LoopbackLLM, work: RunInputs, tmp_path: Path) -> None:
    opened = OpenDesk(tmp_path / "run", work)
    opened.write(work)
    assert opened.actor._asked[ITEM]
    opened.desk.forget(ITEM)
    assert opened.actor._asked == {}
    assert opened.desk.waiting().startswith("waiting for 127.0.0.1")
