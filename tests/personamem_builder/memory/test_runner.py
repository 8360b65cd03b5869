"""The runner: what a system is shown and when, what is kept, and how an interrupted run goes on."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import small_memories

from generation.errors import UserError
from personamem_builder.dataset.check import read_questions
from personamem_builder.dataset.contexts import iter_contexts
from personamem_builder.dataset.load import iter_examples
from personamem_builder.memory.registry import find_system
from personamem_builder.memory.runner import run_memory
from personamem_builder.memory.store import MemoryStore
from personamem_builder.memory.system import Memory, Session
from personamem_builder.table_files import contexts_path

Row = dict[str, Any]


def run(folder: Path, out: Path, name: str = "Last", k: int = 5, **more: Any) -> MemoryStore:
    return run_memory(folder, "32k", find_system(f"small_memories:{name}"), k, out=out, **more)


def calls(name: str) -> list[Any]:
    return [argument for called, argument in small_memories.CALLS if called == name]


def rows(folder: Path) -> list[Row]:
    found: list[Row] = read_questions(folder, "32k").to_pylist()
    return found


def contexts(folder: Path) -> dict[str, Row]:
    return {context["shared_context_id"]: context for context in iter_contexts(folder / contexts_path("32k"))}


@pytest.fixture(scope="module")
def whole(generated: Path, tmp_path_factory: pytest.TempPathFactory) -> MemoryStore:
    """A run that nothing has disturbed."""
    return run(generated, tmp_path_factory.mktemp("whole") / "out")


def test_each_history_is_taken_in_once_and_each_question_asked_once(generated: Path, tmp_path: Path) -> None:
    store = run(generated, tmp_path / "out")
    asked = rows(generated)
    assert Counter(calls("search")) == Counter(row["user_question_or_message"] for row in asked)
    assert len(calls("reset")) == len(contexts(generated))
    shown = Counter(m["content"] for session in calls("add_session") for m in session.messages)
    last = {key: max(r["end_index_in_shared_context"] for r in asked if r["shared_context_id"] == key)
            for key in contexts(generated)}  # fmt: skip
    due = Counter(
        m["content"] for key, context in contexts(generated).items() for m in context["messages"][: last[key]]
    )
    assert shown == due
    assert len(store.sessions) == len(calls("add_session"))


@pytest.mark.slow
def test_a_question_is_asked_when_just_its_history_has_been_shown(generated: Path, tmp_path: Path) -> None:
    store = run(generated, tmp_path / "out", k=100_000)
    for row in iter_examples("32k", data=generated):
        given = store.memories(row["question_id"])
        assert [memory.text for memory in given] == [m["content"] for m in row["context"] if m["content"].strip()]
        assert [memory.message_indices for memory in given] == [(i,) for i in range(len(row["context"]))]


def test_questions_inside_a_session_see_its_part_so_far(dataset_folder: Path, tmp_path: Path) -> None:
    store = run(dataset_folder, tmp_path / "out", k=1)
    for row in iter_examples("32k", data=dataset_folder):
        (memory,) = store.memories(row["question_id"])
        assert memory.text == row["context"][-1]["content"]
    ends = {row["end_index_in_shared_context"] for row in rows(dataset_folder)}
    assert ends - {s for c in contexts(dataset_folder).values() for s in (*c["session_starts"], len(c["messages"]))}


def test_a_system_sees_sessions_and_the_text_of_questions_and_nothing_else(generated: Path, tmp_path: Path) -> None:
    run(generated, tmp_path / "out")
    for name, argument in small_memories.CALLS:
        assert (type(argument) is Session) if name == "add_session" else isinstance(argument, str | None)
    secrets = {row["question_id"] for row in rows(generated)} | set(contexts(generated))
    assert not any(secret in repr(small_memories.CALLS) for secret in secrets)


def test_what_is_kept_can_be_read_again_and_is_not_made_again(generated: Path, tmp_path: Path) -> None:
    first = run(generated, tmp_path / "out")
    small_memories.CALLS.clear()
    again = run(generated, tmp_path / "out")
    assert small_memories.CALLS == []
    assert again.questions == first.questions == MemoryStore(tmp_path / "out").questions
    assert again.sessions == first.sessions
    assert again.digest == first.digest


@pytest.mark.slow
def test_lines_say_what_was_written_and_what_was_given_back(generated: Path, tmp_path: Path) -> None:
    store = run(generated, tmp_path / "out")
    for line in store.sessions:
        messages = contexts(generated)[line["shared_context_id"]]["messages"]
        part = messages[line["first_index"] : line["first_index"] + line["messages"]]
        assert line["bytes"] == sum(len(message["content"].encode()) for message in part)
        assert 0 < line["tokens"] < line["bytes"]
        assert line["seconds"] >= 0
    assert all(line["tokens"] > 0 and line["seconds"] >= 0 for line in store.questions.values())


@pytest.mark.parametrize("stop", [1, 7, 20])
@pytest.mark.parametrize("name", ["Interrupted", "InterruptedSnapshots"])
def test_an_interrupted_run_goes_on_after_the_last_finished_session(
    name: str, stop: int, generated: Path, whole: MemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_memories.CALLS.clear()
    monkeypatch.setattr(small_memories, "STOP", stop)
    with pytest.raises(KeyboardInterrupt):
        run(generated, tmp_path / "out", name)
    kept = MemoryStore(tmp_path / "out")
    small_memories.CALLS.clear()
    monkeypatch.setattr(small_memories, "STOP", -1)
    store = run(generated, tmp_path / "out", name)
    assert store.questions.keys() == whole.questions.keys()
    assert store.digest == whole.digest
    assert [(s["shared_context_id"], s["first_index"]) for s in store.sessions] == [
        (s["shared_context_id"], s["first_index"]) for s in whole.sessions
    ]
    assert len(calls("search")) == len(whole.questions) - len(kept.questions)
    open_ = [s for s in kept.sessions if s["shared_context_id"] == kept.sessions[-1]["shared_context_id"]]
    again = 0 if name == "InterruptedSnapshots" else len(open_)
    assert len(calls("add_session")) <= len(whole.sessions) - len(kept.sessions) + again
    assert len(calls("restore")) == (name == "InterruptedSnapshots" and stop > 1)


def test_a_line_that_was_half_written_is_made_again(generated: Path, tmp_path: Path) -> None:
    whole = run(generated, tmp_path / "out")
    path = tmp_path / "out" / "questions.jsonl"
    path.write_bytes(path.read_bytes()[:-30])
    small_memories.CALLS.clear()
    assert run(generated, tmp_path / "out").digest == whole.digest
    assert len(calls("search")) == 1


def test_only_the_contexts_asked_for_are_walked_and_others_come_later(generated: Path, tmp_path: Path) -> None:
    one = sorted(contexts(generated))[1]
    store = run(generated, tmp_path / "out", contexts={one})
    assert set(store.questions) == {r["question_id"] for r in rows(generated) if r["shared_context_id"] == one}
    small_memories.CALLS.clear()
    assert len(run(generated, tmp_path / "out").questions) == len(rows(generated))
    assert len(calls("reset")) == len(contexts(generated)) - 1


def test_results_of_another_run_are_not_mixed_in(generated: Path, tmp_path: Path) -> None:
    run(generated, tmp_path / "out")
    for more in ({"k": 6}, {"name": "Snapshots"}):
        with pytest.raises(UserError, match="holds another run"):
            run(generated, tmp_path / "out", **more)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").touch()
    with pytest.raises(UserError, match=r"is not empty: thesis\.txt"):
        run(generated, tmp_path / "full")
    assert not (tmp_path / "full" / "store.json").exists()


@pytest.mark.parametrize("k", [0, -1, True, 2.5, "10"])
def test_k_is_a_positive_number(k: Any, generated: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="one memory or more"):
        run(generated, tmp_path / "out", k=k)
    assert not (tmp_path / "out").exists()


def test_a_system_may_answer_itself_and_say_what_it_uses(generated: Path, tmp_path: Path) -> None:
    store = run(generated, tmp_path / "out", "Answers")
    assert all(line["answer"] == 0 for line in store.questions.values())
    assert [query for query, _ in calls("answer")] == calls("search")
    spent = sum(line["usage"].get("calls", 0) for line in [*store.sessions, *store.questions.values()])
    assert spent == len(small_memories.CALLS) - len(calls("reset"))


def test_messages_that_were_not_shown_are_nobodys_memory(generated: Path, tmp_path: Path) -> None:
    store = run(generated, tmp_path / "out", "Foresees")
    for line in store.questions.values():
        assert line["memories"] == [("They like tea.", "", [])]
        assert line["faults"] == ["places"]


def test_a_memory_keeps_its_order_date_and_places(generated: Path, tmp_path: Path) -> None:
    store = run(generated, tmp_path / "out")
    reread = MemoryStore(tmp_path / "out")
    for row in iter_examples("32k", data=generated):
        given = reread.memories(row["question_id"])
        assert given == store.memories(row["question_id"])
        assert all(isinstance(memory, Memory) for memory in given)
    assert any(memory.date for key in store.questions for memory in store.memories(key))
