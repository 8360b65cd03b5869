"""Memory systems in processes of their own: our server, its client, and the environments, with an adapter in small."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import personamem

from generation.errors import UserError
from personamem_builder.memory import conformance
from personamem_builder.memory.conformance import check_system
from personamem_builder.memory.isolated import environments
from personamem_builder.memory.isolated.environments import IsolatedSpec, isolated_systems, python_of, set_up
from personamem_builder.memory.isolated.server import load_adapter
from personamem_builder.memory.isolated.system import IsolatedSystem, isolated_class
from personamem_builder.memory.json_server import MemoryFault
from personamem_builder.memory.registry import find_system, known_systems
from personamem_builder.memory.runner import run_memory
from personamem_builder.memory.system import Memory, Session

ADAPTER = """
import os, sys

print("hello from a library that prints")

class Adapter:
    def __init__(self, settings, folder):
        assert os.path.samefile(os.getcwd(), folder)
        if settings["model"] == "broken":
            raise ValueError("there is no such model")
        self.settings = settings

    def reset(self):
        self.told = []

    def add_session(self, session):
        for i, message in enumerate(session["messages"], session["first_index"]):
            if "leave now" in message["content"]:
                sys.stderr.write("out of memory\\n")
                os._exit(3)
            if message["role"] == "user":
                self.told.append({"text": message["content"], "date": session["date"], "message_indices": [i]})

    def search(self, query, k):
        words = {word.strip("?.,:").lower() for word in query.split()}
        def shared(one):
            return len(words & {word.strip("?.,:").lower() for word in one["text"].split()})
        return sorted(reversed(self.told), key=shared, reverse=True)[:k]
"""


@pytest.fixture(autouse=True)
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> IsolatedSpec:
    """A system `small`, which needs nothing that this Python does not have."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # what is killed leaves its folder
    adapter = tmp_path / "small.py"
    adapter.write_text(ADAPTER, encoding="utf-8")
    spec = IsolatedSpec("small", adapter, (), ())
    known = {**isolated_systems(), "small": spec}
    for module in ("environments", "system"):
        monkeypatch.setattr(f"personamem_builder.memory.isolated.{module}.isolated_systems", lambda: known)
    monkeypatch.setattr(
        "personamem_builder.memory.isolated.system.python_of",
        lambda name: Path(sys.executable) if name == "small" else python_of(name),
    )
    return spec


def made(model: str = "m") -> IsolatedSystem:
    cls = isolated_class("small")
    assert cls is not None
    return cls(model)


def said(text: str, first_index: int = 0) -> Session:
    return Session(0, "2024-05-01", ({"role": "user", "content": text},), first_index)


def test_a_system_lives_in_a_process_that_ends_with_it() -> None:
    system = made()
    process = system._process
    system.reset()
    system.add_session(said("I sold my piano."))
    system.add_session(said("I sold my piano."))  # again: it is taken in once
    system.add_session(said("half of a pair \ud83d", 1))
    assert system.search("piano", 1) == [Memory("I sold my piano.", "2024-05-01", (0,))]
    assert len(system.search("piano", 5)) == 2
    assert system.search(" ", 5) == []
    system.reset()
    assert system.search("piano", 5) == []
    assert process.poll() is None
    del system
    gc.collect()
    assert process.poll() is not None


def test_a_process_that_ends_takes_what_it_started_with_it(small: IsolatedSpec, tmp_path: Path) -> None:
    note = tmp_path / "closed"
    closing = f"""
    def close(self):
        with open({str(note)!r}, "w", encoding="utf-8") as file:
            file.write(os.getcwd())
"""
    small.adapter.write_text(ADAPTER + closing, encoding="utf-8")
    system = made()
    process = system._process
    del system
    gc.collect()
    assert process.poll() == 0
    folder = Path(note.read_text(encoding="utf-8"))
    assert folder.name.startswith("personamem-memory-")
    assert not folder.exists()


def test_a_system_that_does_not_end_is_killed(small: IsolatedSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("personamem_builder.memory.isolated.system._SECONDS_TO_END", 0.5)
    small.adapter.write_text(
        ADAPTER + "\n    def close(self):\n        __import__('time').sleep(60)\n", encoding="utf-8"
    )
    system = made()
    process = system._process
    del system
    gc.collect()
    assert process.poll() not in (None, 0)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="there is no root here")
@pytest.mark.parametrize(
    ("name", "embedder_url", "told"),
    [
        ("a-mem", "http://127.0.0.1:9/v1", "a-mem embeds on this machine only: leave embedder_url out"),
        ("cognee", None, "cognee is asked with a server of embeddings"),
        ("hindsight", None, "hindsight's Postgres does not run as root: run the command as another user"),
    ],
)
def test_adapters_say_what_they_cannot_do(
    name: str, embedder_url: str | None, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    adapter = load_adapter(isolated_systems()[name].adapter)
    settings = {"model": "m", "base_url": None, "embedder": "e", "embedder_url": embedder_url}
    with pytest.raises(ValueError, match=told):
        adapter(settings, str(tmp_path))


def test_a_process_that_dies_is_told_with_its_last_words() -> None:
    system = made()
    system.reset()
    with pytest.raises(MemoryFault):
        system.add_session(said("leave now"))
    system._process.wait(10)
    with pytest.raises(MemoryFault, match="the process of small has ended: out of memory"):
        system.search("piano", 1)


def test_what_does_not_start_is_an_error() -> None:
    with pytest.raises(UserError, match="small does not start: ValueError: there is no such model"):
        made("broken")


def test_it_conforms(monkeypatch: pytest.MonkeyPatch) -> None:
    # A process of its own does not know of the small system.
    checks = {name: check for name, check in conformance._CHECKS.items() if name != "crash"}
    monkeypatch.setattr(conformance, "_CHECKS", checks)
    found = {check: (status, detail) for check, status, detail in check_system("small", {"model": "m"}, 60)}
    assert [one for one in found.items() if one[1][0] not in ("passed", "skipped")] == []
    assert found["sent twice"][0] == "passed"


def test_a_split_is_walked(generated: Path, tmp_path: Path) -> None:
    store = run_memory(generated, "32k", find_system("small", {"model": "m"}), 5, out=tmp_path / "out")
    assert store.questions
    assert not any(line["error"] or line["faults"] or line["taint"] for line in store.questions.values())


def test_systems_are_known_by_name_and_not_run_before_they_are_set_up() -> None:
    assert {"a-mem", "graphiti", "hindsight", "langmem", "mem0"} <= {*known_systems()}
    with pytest.raises(UserError, match="langmem needs the setting model"):
        find_system("langmem")
    spec = find_system("langmem", {"model": "m"})
    assert "langmem==" in str(spec.version)


def test_nothing_is_installed_where_the_name_is_wrong() -> None:
    outcome = personamem("memory", "setup", "zep")
    assert outcome.exit_code == 1
    assert "there is no memory system 'zep' that is set up" in outcome.err


def test_each_adapter_is_short_and_each_system_is_pinned() -> None:
    real = {name: spec for name, spec in isolated_systems().items() if name != "small"}
    for name, spec in real.items():
        assert spec.name == name
        assert "==" in spec.requires[0]
        lines = spec.adapter.read_text(encoding="utf-8").splitlines()
        assert len(lines) <= 120
        compile("\n".join(lines), spec.adapter.name, "exec")
    folder = next(iter(real.values())).adapter.parent
    assert {path.name for path in folder.glob("*.py")} == {spec.adapter.name for spec in real.values()}


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """Have the cache in a folder of the test; returns what is in it."""
    monkeypatch.setattr("personamem_builder.dataset.locate.cache_folder", lambda: tmp_path)
    return lambda: sorted(path.name for path in (tmp_path / "memory-systems").iterdir() if path.is_dir())


@pytest.mark.slow
def test_an_environment_is_made_once(cached: Callable[[], list[str]]) -> None:
    python = set_up("small")
    assert os.access(python, os.X_OK)
    assert python_of("small") == python
    assert len(cached()) == 1
    before = python.stat().st_mtime_ns
    assert set_up("small") == python
    assert python.stat().st_mtime_ns == before


@pytest.mark.slow
def test_an_environment_that_cannot_be_made_leaves_nothing(
    cached: Callable[[], list[str]], small: IsolatedSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = small._replace(requires=(f"small @ file://{tmp_path}/nowhere",))
    monkeypatch.setattr(environments, "isolated_systems", lambda: {"small": missing})
    with pytest.raises(UserError, match=r"the environment of small cannot be made: .*nowhere"):
        set_up("small")
    assert cached() == []
    assert python_of("small") is None
