"""Several histories at a time: what is stored, what a crash costs, and which systems may be several."""

from __future__ import annotations

import json
import operator
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import small_memories
from loopback_memory import LoopbackMemory

from generation.errors import UserError
from personamem_builder.dataset.check import read_questions
from personamem_builder.dataset.contexts import iter_contexts
from personamem_builder.memory.parallel import CRASHED
from personamem_builder.memory.registry import find_system
from personamem_builder.memory.runner import run_memory
from personamem_builder.memory.store import MemoryStore
from personamem_builder.table_files import contexts_path

FILES = ("sessions.jsonl", "questions.jsonl")


def run(folder: Path, out: Path, name: str, settings: dict[str, Any] | None = None, **more: Any) -> MemoryStore:
    return run_memory(folder, "32k", find_system(f"small_memories:{name}", settings), 5, out=out, **more)


def threads(workers: int, start: Any, *arguments: Any) -> Executor:
    """Stand for processes where a test needs none: an executor like any other."""
    return ThreadPoolExecutor(workers, initializer=start, initargs=arguments)


def lines(out: Path) -> list[dict[str, Any]]:
    """Return what is stored, line by line; how long something took is never the same."""
    read = (json.loads(line) for name in FILES for line in (out / name).read_text().splitlines())
    return [{**line, "seconds": 0} for line in read]


@pytest.fixture(scope="module")
def contexts(generated: Path) -> list[dict[str, Any]]:
    """The histories that have questions, in their order."""
    asked = set(read_questions(generated, "32k")["shared_context_id"].to_pylist())
    found: list[Any] = [c for c in iter_contexts(generated / contexts_path("32k")) if c["shared_context_id"] in asked]
    return found


@pytest.fixture(scope="module")
def first(contexts: list[dict[str, Any]]) -> str:
    """A text that stands in the first history alone."""
    others = {m["content"] for context in contexts[1:] for m in context["messages"]}
    return next(m["content"] for m in contexts[0]["messages"] if m["content"] not in others)


def test_processes_leave_what_one_worker_leaves(
    generated: Path, contexts: list[dict[str, Any]], first: str, tmp_path: Path
) -> None:
    """The first history is finished last."""
    some = [context["shared_context_id"] for context in contexts[:3]]
    for workers in (1, 2):
        run(generated, tmp_path / str(workers), "SlowAt", {"text": first}, workers=workers, contexts=some)
    assert lines(tmp_path / "2") == lines(tmp_path / "1")
    assert {path.name for path in (tmp_path / "2").iterdir()} == {path.name for path in (tmp_path / "1").iterdir()}
    usage = [line["usage"]["dollars"] for line in lines(tmp_path / "2") if line["usage"]]
    assert sum(usage) == pytest.approx(0.1 * sum(line.get("messages", 0) for line in lines(tmp_path / "2")))


def test_a_crash_costs_its_history_and_users_share_nothing(
    generated: Path, contexts: list[dict[str, Any]], first: str, tmp_path: Path
) -> None:
    (tmp_path / "crash").touch()
    settings = {"text": first, "file": str(tmp_path / "crash")}
    some = [context["shared_context_id"] for context in contexts[:2]]
    store = run(generated, tmp_path / "out", "Reckless", settings, workers=2, contexts=some)
    lost = {key for key, line in store.questions.items() if line["error"]}
    own = contexts[0]["shared_context_id"]
    assert lost == {key for key, line in store.questions.items() if line["shared_context_id"] == own}
    assert {store.questions[key]["error"] for key in lost} == {CRASHED}

    (tmp_path / "crash").unlink()
    store = run(generated, tmp_path / "out", "Reckless", settings, workers=2, contexts=some)
    assert not any(line["error"] for line in store.questions.values())
    texts = {c["shared_context_id"]: {m["content"] for m in c["messages"]} for c in contexts}
    processes: dict[str, set[str]] = {}
    for line in store.questions.values():
        told = [text.split(": ", 1) for text, _, _ in line["memories"]]
        processes.setdefault(line["shared_context_id"], set()).update(process for process, _ in told)
        assert {text for _, text in told} <= texts[line["shared_context_id"]]
    assert all(len(own) == 1 for own in processes.values())
    assert len(set.union(*processes.values())) == len(processes) == len(some)


@pytest.mark.parametrize("workers", [1, 2])
def test_what_was_finished_out_of_turn_is_kept_over_an_interruption(
    workers: int, generated: Path, contexts: list[dict[str, Any]], first: str, tmp_path: Path
) -> None:
    """The run is stopped while the first history is under way, and another is finished."""

    class Stopped(ThreadPoolExecutor):
        def submit(self, function: Any, task: Any) -> Any:  # type: ignore[override]
            if task.context["shared_context_id"] == contexts[0]["shared_context_id"]:
                return super().submit(lambda: _raise_when(tmp_path / "out" / "finished"))
            return super().submit(function, task)

    settings = {"text": first}
    with pytest.raises(KeyboardInterrupt):
        run(generated, tmp_path / "out", "SlowAt", settings, workers=2, make_pool=lambda *_: Stopped(1))
    assert not MemoryStore(tmp_path / "out").questions, "it is not yet its turn"
    aside = [json.loads(path.read_text()) for path in (tmp_path / "out" / "finished").iterdir()]
    again = run(generated, tmp_path / "out", "SlowAt", settings, workers=workers, make_pool=threads)
    seconds = {line["question_id"]: line["seconds"] for held in aside for line in held["questions"]}
    assert seconds
    assert {key: again.questions[key]["seconds"] for key in seconds} == seconds, "it is not made again"
    whole = run(generated, tmp_path / "whole", "SlowAt", settings)
    assert lines(tmp_path / "out") == lines(tmp_path / "whole")
    assert again.digest == whole.digest
    assert not (tmp_path / "out" / "finished").exists()


def _raise_when(folder: Path) -> None:
    import time

    end = time.monotonic() + 20
    while not (folder.is_dir() and list(folder.glob("*.json"))):
        assert time.monotonic() < end
        time.sleep(0.01)
    raise KeyboardInterrupt


def test_an_interrupted_history_of_one_worker_is_finished_by_several(
    generated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(generated, tmp_path / "out", "InterruptedSnapshots")
    kept = MemoryStore(tmp_path / "out")
    assert kept.sessions
    small_memories.CALLS.clear()
    monkeypatch.setattr(small_memories, "STOP", -1)
    run(generated, tmp_path / "out", "InterruptedSnapshots", workers=2, make_pool=threads)
    assert ("restore", None) in small_memories.CALLS
    run(generated, tmp_path / "whole", "InterruptedSnapshots")
    assert lines(tmp_path / "out") == lines(tmp_path / "whole")
    assert not (tmp_path / "out" / "snapshot").exists()


def test_lines_that_a_killed_run_had_added_are_not_added_twice(generated: Path, tmp_path: Path) -> None:
    store = run(generated, tmp_path / "out", "Last")
    before = lines(tmp_path / "out")
    key = store.sessions[0]["shared_context_id"]
    own = [
        [line for line in kind if line["shared_context_id"] == key]
        for kind in (store.sessions, store.questions.values())
    ]
    store.set_aside(key, *own)  # type: ignore[arg-type]
    run(generated, tmp_path / "out", "Last", workers=2, make_pool=threads)
    assert lines(tmp_path / "out") == before
    assert not store.is_set_aside(key)


def test_damaged_lines_of_a_finished_history_are_an_error(generated: Path, tmp_path: Path) -> None:
    store = run(generated, tmp_path / "out", "Last")
    key = store.sessions[0]["shared_context_id"]
    store.set_aside(key, [], [])
    [path] = (tmp_path / "out" / "finished").iterdir()
    path.write_text('{"shared_context_id": 7}')
    with pytest.raises(UserError, match="finished"):
        run(generated, tmp_path / "out", "Last")


def test_a_system_that_is_one_walks_one_history_after_the_other(generated: Path, tmp_path: Path) -> None:
    def pool(*arguments: Any) -> Executor:
        raise AssertionError("a process is asked for")

    run(generated, tmp_path / "out", "Single", workers=2, make_pool=pool)
    assert small_memories.CALLS, "it is walked here"


def test_what_a_system_says_of_itself_is_yes_or_no(generated: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="parallel is 'perhaps'"):
        run(generated, tmp_path / "out", "Undecided", workers=2)


@pytest.mark.parametrize("said", [True, False, None])
def test_a_server_says_whether_it_keeps_several_users(said: bool | None) -> None:
    with LoopbackMemory(lambda name, sent: {} if said is None else {"parallel": said}) as server:
        assert find_system("http", {"url": server.url}).is_parallel is bool(said)


def test_a_server_that_keeps_several_users_is_shown_them_at_a_time(generated: Path, tmp_path: Path) -> None:
    replies: dict[str, dict[str, Any]] = {"reset": {"parallel": True}, "sessions": {}, "search": {"memories": []}}
    with LoopbackMemory(lambda name, sent: replies[name]) as server:
        spec = find_system("http", {"url": server.url})
        run_memory(generated, "32k", spec, out=tmp_path / "out", workers=2, make_pool=threads)
        shown = [sent["context"] for sent in server.sent_to("sessions")]
    changes = sum(map(operator.ne, shown, shown[1:]))
    assert changes >= len(set(shown)), "one history is not shown whole before the next begins"
