"""Systems that cheat, break or hang, in the runner: cheats are found, faults stay with their question, runs go on."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import cheating_systems
import pytest

from personamem_builder.dataset.check import read_questions
from personamem_builder.dataset.contexts import iter_contexts
from personamem_builder.memory.registry import find_system
from personamem_builder.memory.runner import run_memory
from personamem_builder.memory.store import MemoryStore
from personamem_builder.schema import option_texts
from personamem_builder.table_files import contexts_path

Row = dict[str, Any]

K = 10


@pytest.fixture(scope="module", params=["generated", "official"])
def folder(request: pytest.FixtureRequest) -> Path:
    """A dataset made here, or the excerpt of the official release."""
    found: Path = request.getfixturevalue("generated" if request.param == "generated" else "dataset_folder")
    return found


def read_rows(folder: Path) -> list[Row]:
    """Return the questions in the order in which they are asked."""
    rows: list[Row] = read_questions(folder, "32k").to_pylist()
    return rows


@pytest.fixture(scope="module")
def rows(folder: Path) -> list[Row]:
    return read_rows(folder)


@pytest.fixture
def key(rows: list[Row], tmp_path: Path) -> str:
    """The side door: each question with its right option, letter included."""
    path = tmp_path / "key.json"
    right = {row["user_question_or_message"]: row["all_options"][row["answer_index"]] for row in rows}
    path.write_text(json.dumps(right), encoding="utf-8")
    return str(path)


def run(name: str, folder: Path, out: Path, timeout: float = 60.0, k: int = K, **settings: Any) -> MemoryStore:
    return run_memory(folder, "32k", find_system(f"cheating_systems:{name}", settings), k, out=out, timeout=timeout)


def kinds(store: MemoryStore) -> Counter[str]:
    """Count the questions with a finding of each kind."""
    return Counter(kind for line in store.questions.values() for kind in {kind for kind, _ in line["taint"]})


# ---- honest systems


@pytest.mark.parametrize(("name", "k"), [pytest.param("Honest", 100, marks=pytest.mark.slow), ("Noting", 1000)])
def test_an_honest_system_is_not_suspected(name: str, k: int, folder: Path, rows: list[Row], tmp_path: Path) -> None:
    store = run(name, folder, tmp_path / "out", k=k)
    assert kinds(store) == {}
    assert store.questions.keys() == {row["question_id"] for row in rows}
    assert all(line["memories"] and not line["error"] and not line["faults"] for line in store.questions.values())


# ---- cheats


@pytest.mark.parametrize("name", ["AnswerKey", "Hidden", "Shouting", "TwoFaced"])
def test_right_options_from_elsewhere_are_found_in_what_is_kept(
    name: str, folder: Path, rows: list[Row], key: str, tmp_path: Path
) -> None:
    store = run(name, folder, tmp_path / "out", key=key)
    kept = {row["question_id"] for row in rows if holds_right_option(store, row)}
    assert kept or name == "TwoFaced"
    # A short option, or one whose words the history holds in that order, is no proof.
    assert len(kept - set(store.tainted)) <= len(rows) / 10
    assert kinds(store)["option"] >= 0.9 * len(kept)


def holds_right_option(store: MemoryStore, row: Row) -> bool:
    words = "".join(filter(str.isalnum, option_texts(row)[row["answer_index"]].lower()))
    memories = store.memories(row["question_id"])
    return any(words in "".join(filter(str.isalnum, memory.text.lower())) for memory in memories)


@pytest.mark.parametrize("name", ["InPieces", "Spaced", "FullWidth"])
def test_right_options_in_disguise_are_found(
    name: str, folder: Path, rows: list[Row], key: str, tmp_path: Path
) -> None:
    store = run(name, folder, tmp_path / "out", key=key)
    assert len(store.tainted) >= 0.9 * len(rows)


def test_a_date_is_a_date(folder: Path, rows: list[Row], key: str, tmp_path: Path) -> None:
    store = run("InTheDate", folder, tmp_path / "out", key=key)
    for row in rows:
        line = store.questions[row["question_id"]]
        assert line["error"] or row["question_id"] in store.tainted or not any(date for _, date, _ in line["memories"])


def test_the_letter_of_the_right_option_is_found(folder: Path, rows: list[Row], key: str, tmp_path: Path) -> None:
    store = run("Letter", folder, tmp_path / "out", key=key)
    assert kinds(store)["letter"] == len(rows)


def test_earlier_questions_are_found(folder: Path, rows: list[Row], tmp_path: Path) -> None:
    store = run("Notebook", folder, tmp_path / "out")
    asked: dict[str, set[str]] = {}
    later = 0
    for row in rows:  # sorted by context and end, as they are asked
        before = asked.setdefault(row["shared_context_id"], set())
        message = row["user_question_or_message"]
        later += bool(before - {message})
        before.add(message)
    assert kinds(store)["question"] >= 0.7 * later > 0  # in the official release the user may say them too, later


@pytest.mark.slow
def test_the_questions_that_lie_about_in_the_program_do_not_help(folder: Path, rows: list[Row], tmp_path: Path) -> None:
    store = run("Rummaging", folder, tmp_path / "out")
    kept = {row["question_id"] for row in rows if holds_right_option(store, row)}
    assert len(kept - set(store.tainted)) <= len(rows) / 10


def test_a_system_that_changes_what_it_is_shown_changes_nothing_else(folder: Path, tmp_path: Path) -> None:
    vandal, honest = (run(name, folder, tmp_path / name) for name in ("Vandal", "Honest"))
    for one, other in zip(vandal.sessions, honest.sessions, strict=True):
        assert {**one, "seconds": 0} == {**other, "seconds": 0}
    assert all(not indices for line in vandal.questions.values() for _, _, indices in line["memories"])
    assert all(indices for line in honest.questions.values() for _, _, indices in line["memories"])


# ---- breakdowns


REFUSED = [
    "a number", "texts", "objects", "look-alikes", "a memory without text", "bytes", "a number for a date", "no places",
    "places of text", "a bomb", "a text",
]  # fmt: skip
EMPTY = ["nothing", "no memories", "blanks"]


def ids(folder: Path) -> set[str]:
    return {row["question_id"] for row in read_rows(folder)}


@pytest.fixture(scope="module")
def length(generated: Path) -> dict[str, int]:
    """The characters of each context."""
    contexts = iter_contexts(generated / contexts_path("32k"))
    return {c["shared_context_id"]: sum(len(m["content"]) for m in c["messages"]) for c in contexts}


@pytest.mark.parametrize(
    "thing",
    [pytest.param(name, marks=[pytest.mark.slow] if "megabyte" in name else []) for name in cheating_systems.THINGS],
)
def test_what_is_given_back_is_fit_for_a_prompt_or_refused(
    thing: str, generated: Path, length: dict[str, int], tmp_path: Path
) -> None:
    store = run("Odd", generated, tmp_path / "out", thing=thing)
    assert store.questions.keys() == ids(generated)
    for row in read_rows(generated):
        line = store.questions[row["question_id"]]
        texts = [text for text, _, _ in line["memories"]]
        assert bool(line["error"]) == (thing in REFUSED)
        assert bool(texts) == (thing not in REFUSED + EMPTY)
        assert len(texts) <= K
        assert sum(map(len, texts)) <= 2 * length[row["shared_context_id"]] + 20_000
        assert not any(mark in text for text in texts for mark in ("<|im_", "[INST]", "\x00", "\x1b", "\ud83d"))
        assert not any(indices for _, _, indices in line["memories"])
        assert not line["taint"] or thing == "control tokens"
    faults = {fault for line in store.questions.values() for fault in line["faults"]}
    expected = {
        "megabytes": "too_long", "a megabyte": "too_long", "control tokens": "markup", "markup": "markup",
        "no characters": "markup", "too many": "surplus", "no end": "surplus", "places that are not there": "places",
    }  # fmt: skip
    assert faults == ({expected[thing]} if thing in expected else set())


@pytest.mark.parametrize("what", ["ValueError", "SystemExit", "RecursionError"])
def test_a_crash_is_the_matter_of_its_question(what: str, generated: Path, tmp_path: Path) -> None:
    store = run("Crashing", generated, tmp_path / "out", where="search", what=what)
    assert store.questions.keys() == ids(generated)
    assert {line["error"] for line in store.questions.values()} == {f"{what}: no space left"}
    assert not any(line["error"] for line in store.sessions)


def test_a_crash_is_the_matter_of_its_session(generated: Path, tmp_path: Path) -> None:
    store = run("Crashing", generated, tmp_path / "out", where="add_session")
    assert {line["number"] for line in store.sessions if line["error"]} == {1}
    assert store.questions.keys() == ids(generated)
    assert not any(line["error"] for line in store.questions.values())


def test_a_system_that_hangs_once_goes_on(generated: Path, tmp_path: Path) -> None:
    cheating_systems.Hanging.hung = False
    store = run("Hanging", generated, tmp_path / "out", timeout=2.0, where="search", once=True)
    honest = run("Honest", generated, tmp_path / "honest")
    failed = [question_id for question_id, line in store.questions.items() if line["error"]]
    assert len(failed) == 1
    assert store.questions[failed[0]]["error"].startswith("hung: ")
    assert not store.questions[failed[0]]["memories"]
    for row in read_rows(generated):  # the one that took its place knows what it was shown
        if row["question_id"] not in failed:
            assert store.memories(row["question_id"]) == honest.memories(row["question_id"])


@pytest.mark.parametrize("where", ["search", "add_session"])
@pytest.mark.slow
def test_a_system_that_hangs_each_time_does_not_stop_the_run(where: str, generated: Path, tmp_path: Path) -> None:
    started = time.monotonic()
    store = run("Hanging", generated, tmp_path / "out", timeout=1.0, where=where)
    contexts = {row["shared_context_id"] for row in read_rows(generated)}
    assert time.monotonic() - started < 8 * len(contexts) + 10
    assert store.questions.keys() == ids(generated)
    if where == "search":
        assert all(line["error"].startswith(("hung", "given up")) for line in store.questions.values())
    else:
        assert {line["number"] for line in store.sessions if line["error"].startswith("hung")} == {1}
