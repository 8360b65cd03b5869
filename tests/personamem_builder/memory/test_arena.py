"""`ArenaMemory` against a server that keeps the contract, and against one that breaks it in each way."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import personamem
from loopback_arena import LoopbackArena

import personamem_builder.memory.arena
from generation.errors import UserError
from personamem_builder.dataset.check import read_questions
from personamem_builder.dataset.locate import resolve_data
from personamem_builder.memory.arena import KEY_VARIABLE, ArenaMemory
from personamem_builder.memory.conditions import condition_of
from personamem_builder.memory.json_server import MemoryFault
from personamem_builder.memory.registry import find_system
from personamem_builder.memory.runner import run_memory
from personamem_builder.memory.system import Memory, Session


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(personamem_builder.memory.arena, "_WAIT_SECONDS", 0.01)
    monkeypatch.delenv(KEY_VARIABLE, raising=False)


@pytest.fixture
def arena() -> Iterator[LoopbackArena]:
    with LoopbackArena() as server:
        yield server


def said(number: int, first: int, *texts: str, date: str = "2024-05-01") -> Session:
    messages = [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(texts)]
    return Session(number, date, tuple(messages), first)


PROFILE = Session(0, "2024-05-01", ({"role": "system", "content": "About the user. Age: 30."},), 0)


def test_a_history_is_sent_as_the_contract_has_it(arena: LoopbackArena) -> None:
    memory = ArenaMemory(f"{arena.url}/v1/")
    memory.reset()
    arena.requests.clear()
    memory.add_session(PROFILE)
    assert arena.requests == [], "the profile stands before every question anyway"
    memory.add_session(said(1, 1, "User: I adopted a greyhound.", "Assistant: How nice."))
    memory.add_session(said(2, 3, "I sold my piano.", "Oh.", date=""))
    first, second = arena.sent_to("add")
    user = first["user_id"]
    assert first == {
        "request_id": f"{user}-1",
        "user_id": user,
        "session_id": "session-1",
        "messages": [
            {"role": "user", "content": "User: I adopted a greyhound.", "timestamp": 1714521601000},
            {"role": "assistant", "content": "Assistant: How nice.", "timestamp": 1714521602000},
        ],
    }
    assert (second["user_id"], second["request_id"], second["session_id"]) == (user, f"{user}-3", "session-2")
    assert all("timestamp" not in message for message in second["messages"])
    assert memory.search("Which greyhound?", 7) == [Memory("User: I adopted a greyhound.", "2024-05-01", (1,))]
    assert arena.sent_to("search") == [{"query": "Which greyhound?", "user_id": user, "top_k": 7}]
    memory.reset()
    assert memory.search("Which greyhound?", 7) == []


def test_a_day_on_which_nothing_was_said_is_no_date(arena: LoopbackArena) -> None:
    memory = ArenaMemory(arena.url)
    memory.reset()
    memory.add_session(said(1, 1, "I adopted a greyhound."))
    for created_at, date in (("2024-05-01T10:00:00Z", "2024-05-01"), (1714521601, "2024-05-01"), ("2026-11-29", ""),
                             (None, ""), (1e300, "")):  # fmt: skip
        arena.wrong["search"] = {"data": [{"id": 3, "content": "The user has a dog.", "created_at": created_at}]}
        assert memory.search("dog", 5) == [Memory("The user has a dog.", date)]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_request_that_failed_on_its_way_is_sent_again_and_counts_once(arena: LoopbackArena, when: str) -> None:
    memory = ArenaMemory(arena.url)
    memory.reset()
    arena.requests.clear()
    arena.stumbles[when] = 2
    memory.add_session(said(0, 0, "I sold my piano."))
    assert len({sent["request_id"] for sent in arena.sent_to("add")}) == 1
    assert len(arena.sent_to("add")) == 3
    arena.stumbles[when] = 2
    assert len(memory.search("piano", 5)) == 1
    arena.stumbles[when] = 3
    with pytest.raises(MemoryFault, match="HTTP 503: busy"):
        memory.search("piano", 5)


def test_a_server_that_takes_too_long(arena: LoopbackArena) -> None:
    memory = ArenaMemory(arena.url, timeout=0.1)
    arena.sleep = 0.5
    with pytest.raises(MemoryFault, match=r"/search: no reply in 0\.1 s"):
        memory.search("piano", 5)
    assert len(arena.sent_to("search")) == 3


def test_a_server_that_mixes_users_ends_the_run(arena: LoopbackArena, generated: Path, tmp_path: Path) -> None:
    arena.mixes = True
    outcome = personamem(
        "memory", "run", "--system", f"arena:{arena.url}", "--data", generated, "--out", tmp_path / "x"
    )
    assert outcome.exit_code == 1
    assert "the server gives one user what another said: no result would mean anything" in outcome.err
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("auth", "header", "value"),
    [
        ("Bearer", "Authorization", "Bearer s3cret"),
        ("Token", "Authorization", "Token s3cret"),
        ("X-Api-Key", "X-Api-Key", "s3cret"),
    ],
)
def test_the_key_goes_where_it_is_due_and_nowhere_else(
    arena: LoopbackArena, auth: Any, header: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    arena.key = header, value
    with pytest.raises(MemoryFault, match="HTTP 401: who are you") as refused:
        ArenaMemory(arena.url, auth).reset()
    assert refused.value.hint == "check the key"
    assert len(arena.requests) == 1, "a refusal is final"
    monkeypatch.setenv(KEY_VARIABLE, "s3cret")
    memory = ArenaMemory(arena.url, auth)
    memory.reset()
    memory.add_session(said(0, 0, "I sold my piano."))
    assert memory.search("piano", 1)
    assert "s3cret" not in json.dumps([content for _, _, content in arena.requests])
    assert "s3cret" not in memory.snapshot().decode()


@pytest.mark.parametrize(
    ("url", "settings", "message"),
    [
        ("ftp://a", {}, "not an address of a memory server"),
        ("http://me:s3cret@127.0.0.1:1", {}, "has credentials in it"),
        ("http://127.0.0.1:1", {"auth": "Basic"}, "auth=Basic: there is no such way"),
        ("http://127.0.0.1:1", {"timeout": 0}, "timeout=0"),
    ],
)
def test_what_is_of_no_use_is_said_before_anything_is_sent(url: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message) as raised:
        ArenaMemory(url, **settings)
    assert "s3cret" not in raised.value.message


def test_a_key_that_no_header_can_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "s3\ncret")
    with pytest.raises(UserError, match=f"{KEY_VARIABLE} holds what no header can"):
        ArenaMemory("http://127.0.0.1:1")


ADDED = {"success": True}


@pytest.mark.parametrize(
    ("name", "reply", "message"),
    [
        ("add", {"success": False}, "the server says that it failed"),
        ("add", {}, "not as it should be: success"),
        ("add", {"success": "yes"}, "not as it should be: success"),
        ("add", {**ADDED, "user_id": "another"}, "about another user_id: 'another'"),
        ("add", {**ADDED, "request_id": "another"}, "about another request_id"),
        ("search", {}, "not as it should be: data"),
        ("search", {"data": {}}, "not as it should be: data"),
        ("search", {"data": [{"id": "1"}]}, r"not as it should be: data\.0\.content"),
        ("search", {"data": [{"content": ["x"]}]}, r"data\.0\.content"),
        ("search", [], "not as it should be: the whole"),
        ("search", b"<h1>Sorry</h1>", "not JSON"),
        ("search", b"\xff\xfe", "not JSON"),
        ("search", b"", "not JSON but application/json: nothing"),
        ("search", b"[" * 100_000, "not JSON"),
    ],
)
def test_a_reply_that_breaks_the_contract_is_named(arena: LoopbackArena, name: str, reply: Any, message: str) -> None:
    memory = ArenaMemory(arena.url)
    memory.reset()
    arena.wrong[name] = reply
    with pytest.raises(MemoryFault, match=message) as raised:
        memory.add_session(said(0, 0, "I sold my piano.")) if name == "add" else memory.search("piano", 5)
    assert len(raised.value.message) < 600


# ---- through the runner


def run(arena: LoopbackArena, folder: Path, out: Path, **settings: Any) -> Any:
    return run_memory(folder, "32k", find_system(f"arena:{arena.url}", settings), 5, out=out)


def test_a_split_is_taken_in_once_and_nothing_but_questions_is_asked(
    arena: LoopbackArena, generated: Path, tmp_path: Path
) -> None:
    store = run(arena, generated, tmp_path / "out")
    rows = read_questions(generated, "32k").to_pylist()
    assert store.about["system"] == "arena"
    assert store.about["settings"] == {"url": arena.url}
    assert store.questions.keys() == {row["question_id"] for row in rows}
    assert not any(line["error"] or line["taint"] or line["faults"] for line in store.questions.values())
    assert all(places for line in store.questions.values() for _, _, places in line["memories"])
    queries = [sent for sent in arena.sent_to("search") if sent["top_k"] == 5]
    assert sorted(sent["query"] for sent in queries) == sorted(row["user_question_or_message"] for row in rows)
    assert all(sent.keys() == {"query", "user_id", "top_k"} for sent in queries)


def test_options_are_sent_if_asked_for_and_the_run_is_tainted(
    arena: LoopbackArena, generated: Path, tmp_path: Path
) -> None:
    command = ["memory", "run", "--system", f"arena:{arena.url}", "--data", generated, "--k", "5", "--send-options"]
    outcome = personamem(*command, "--out", tmp_path / "out")
    assert outcome.exit_code == 0, outcome.err
    rows = read_questions(generated, "32k").to_pylist()
    assert f"TAINTED: the system was shown the options of {len(rows)} questions" in outcome.out
    sent = [sent for sent in arena.sent_to("search") if sent["top_k"] == 5]
    assert {sent["query"]: sent["options"] for sent in sent} == {
        row["user_question_or_message"]: [option[4:] for option in row["all_options"]] for row in rows
    }
    refused = personamem("memory", "run", "--system", "bm25", "--data", generated, "--send-options")
    assert "bm25 has no setting send_options" in refused.err


def test_a_task_names_the_server_by_its_address(arena: LoopbackArena, generated: Path) -> None:
    rows: list[Any] = read_questions(generated, "32k").to_pylist()
    metadata = {"memory": f"arena:{arena.url}", "k": 5}
    condition = condition_of(metadata, rows, rows, resolve_data(str(generated), splits=["32k"]))
    assert condition.name == "arena"
    assert metadata == {"memory": "arena", "k": 5, "settings": {"url": arena.url}}


@pytest.mark.slow
def test_a_run_that_is_killed_goes_on_with_the_user_that_the_server_knows(
    arena: LoopbackArena, generated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = run(arena, generated, tmp_path / "whole")
    adds = len(arena.sent_to("add"))
    for forgets in (False, True):
        out = tmp_path / f"killed-{forgets}"
        arena.forget()
        arena.requests.clear()
        interrupt(monkeypatch, after=3)
        with pytest.raises(KeyboardInterrupt):
            run(arena, generated, out)
        if forgets:
            arena.forget()
        monkeypatch.undo()
        store = run(arena, generated, out)
        assert store.digest == expected.digest
        # The guard against mixed users is one more; the session under way is sent again, and taken in once. A server
        # that has forgotten all is shown the three sessions before it again, by a new system with a guard of its own.
        assert len(arena.sent_to("add")) - adds == 2 + (4 if forgets else 0)


def interrupt(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Have the run end by Ctrl-C once the server has taken in so many sessions and one more."""
    real, calls = ArenaMemory._add, []

    def add(self: ArenaMemory, *request: Any) -> None:
        real(self, *request)
        calls.append(request)
        if len(calls) == after + 2:  # and the guard
            raise KeyboardInterrupt

    monkeypatch.setattr(ArenaMemory, "_add", add)
