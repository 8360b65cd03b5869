"""Finding memory systems, and what is said of those that cannot be used."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import small_memories

from generation.errors import UserError
from personamem_builder.memory import registry
from personamem_builder.memory.registry import find_system, known_systems


def test_built_in_systems_have_names() -> None:
    assert {"bm25", "dense", "http", "mem0"} <= set(known_systems())
    assert find_system("bm25", {"unit": "session"}).make().search("anything", 1) == []


def test_a_class_of_the_users_own_is_named_by_its_module() -> None:
    spec = find_system("small_memories:Last")
    assert isinstance(spec.make(), small_memories.Last)
    assert spec.make() is not spec.make()


def test_installed_packages_name_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint("last", "small_memories:Last", registry.ENTRY_POINTS)
    monkeypatch.setattr(registry, "entry_points", lambda group: _EntryPoints([entry]))
    assert "last" in known_systems()
    assert find_system("last").cls is small_memories.Last


class _EntryPoints(list[EntryPoint]):
    @property
    def names(self) -> set[str]:
        return {entry.name for entry in self}


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        (
            "bm52",
            "there is no memory system 'bm52'",
            "a-mem, arena, bm25, cognee, dense, graphiti, hindsight, http, hybrid, langmem, mem0, summaries",
        ),
        ("small_memories:", "there is no memory system", "module:Class"),
        ("no_such_module:Thing", "there is no module no_such_module", "PYTHONPATH"),
        ("small_memories:Thing", "small_memories has no Thing", "name of the class"),
        ("small_memories:CALLS", "is not a class", "name a class"),
        ("small_memories:WithoutSearch", "has no method search", "search(query, k)"),
        ("small_memories:OtherArguments", "its method search takes other arguments", "search(query, k)"),
    ],
)
def test_what_is_no_system_is_an_error_that_says_why(name: str, message: str, hint: str) -> None:
    with pytest.raises(UserError) as caught:
        find_system(name)
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_a_system_without_its_library_names_that() -> None:
    with pytest.raises(UserError, match="needs no_such_library, which is not installed"):
        find_system("small_memories:NeedsMore").make()


def test_a_module_without_its_library_is_not_taken_for_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text("import no_such_library\n", encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(UserError, match="mine:Mine needs no_such_library"):
        find_system("mine:Mine")


def test_an_unknown_setting_is_an_error_before_anything_is_made() -> None:
    with pytest.raises(UserError, match="bm25 has no setting units") as caught:
        find_system("bm25", {"units": "session"})
    assert caught.value.hint == "it takes unit"


def test_an_edited_class_is_another_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    source = Path(small_memories.__file__).read_text(encoding="utf-8")
    identities = []
    for text in (source, source + "\n# changed\n", source):
        (tmp_path / "edited.py").write_text(text, encoding="utf-8")
        monkeypatch.delitem(sys.modules, "edited", raising=False)
        identities.append(find_system("edited:Last").version)
    assert identities[0] == identities[2] != identities[1]
    assert find_system("bm25").version == 1
