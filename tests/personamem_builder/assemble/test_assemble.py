"""A run is assembled the same way every time, whole or not at all, and what is wrong with it is named."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from command_line import fails, personamem
from small_runs import contents, make_run, tiny_work

from generation.errors import UserError
from generation.history_records import History
from generation.record_files import read_records, record_line, writing_lines
from generation.records import QUESTION_TYPES, Filler, Question, Record, Session
from generation.store import RunStore
from personamem_builder.assemble.assemble import assemble
from personamem_builder.assemble.records import AskedQuestion, ContextPlan
from personamem_builder.assemble.run_records import PersonaRecords, find_personas, read_persona
from personamem_builder.assemble.sizes import Size, chosen_sizes
from personamem_builder.assemble.splits import assembled_splits, read_assembly

Python = Callable[..., "subprocess.CompletedProcess[str]"]

SIZES = [Size("short", 4, 10_000, 30, 4), Size("long", 10, 40_000, 8, 8)]
"""Two splits that the tiny run can fill, the longer one with fillers."""


@pytest.fixture(scope="module")
def tiny(tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> RunStore:
    """A run of `examples/tiny.yaml` with two splits; tests leave it as it is."""
    store = RunStore(Path(shutil.copytree(tiny_run, tmp_path_factory.mktemp("tiny") / "run")))
    assemble(store, SIZES, n_variants=2)
    return store


@pytest.fixture
def copy(tiny: RunStore, tmp_path: Path) -> RunStore:
    """A copy of that run, to be changed."""
    return RunStore(Path(shutil.copytree(tiny.folder, tmp_path / "copy")))


def plans(store: RunStore, split: str) -> list[ContextPlan]:
    return list(read_records(store.folder / "splits" / split / "contexts.jsonl", ContextPlan))


def rows(store: RunStore, split: str) -> list[AskedQuestion]:
    return list(read_records(store.folder / "splits" / split / "questions.jsonl", AskedQuestion))


def records_of(store: RunStore) -> list[PersonaRecords]:
    return [read_persona(place) for place in find_personas(store)]


def rewrite(store: RunStore, stage: str, records: Iterable[Record]) -> None:
    """Replace the records of a stage by others that are just as well written."""
    with writing_lines(store.path(stage)) as write:
        for record in records:
            write(record_line(record))


# --- what is made


def test_a_context_for_each_persona_variant_and_split(tiny: RunStore, tmp_path: Path) -> None:
    store = RunStore(Path(shutil.copytree(tiny.folder, tmp_path / "copy")))
    counts = assemble(store, SIZES, n_variants=3)
    for size in SIZES:
        found = [(plan.persona_id, plan.variant) for plan in plans(store, size.split)]
        assert found == [(persona, variant) for persona in range(2) for variant in range(3)]
        assert counts[size.split] == {"contexts": 6, "questions": len(rows(store, size.split))}
    assert assembled_splits(store) == ["long", "short"]


def test_contexts_keep_to_their_sizes(tiny: RunStore) -> None:
    personas = {records.persona.persona_id: records for records in records_of(tiny)}
    for size in SIZES:
        assert size.max_tokens is not None
        for plan in plans(tiny, size.split):
            records = personas[plan.persona_id]
            sessions = {s.session_id: (t.topic, s) for t in records.history.topics for s in t.sessions}
            own = [sessions[block.id] for block in plan.blocks if block.kind == "session"]
            dates = [session.date for _, session in own]
            fillers = [block.id for block in plan.blocks if block.kind == "filler"]
            assert 0.8 * size.max_tokens <= plan.num_tokens <= 0.9 * size.max_tokens
            assert 1 <= len(own) <= size.n_blocks
            assert dates == sorted(dates)
            assert len(set(fillers)) == len(fillers)
            for topic in records.history.topics:
                periods = [session.period for name, session in own if name == topic.topic]
                assert periods == list(range(len(periods)))


def test_every_context_is_used_and_every_id_is_its_own(tiny: RunStore) -> None:
    for size in SIZES:
        contexts = [plan.shared_context_id for plan in plans(tiny, size.split)]
        asked = rows(tiny, size.split)
        assert len(set(contexts)) == len(contexts)
        assert {row.shared_context_id for row in asked} == set(contexts)
        assert len({row.question_id for row in asked}) == len(asked)
        assert max(Counter(row.shared_context_id for row in asked).values()) <= size.rows


def test_variants_differ_in_their_sessions(tiny: RunStore) -> None:
    for persona in range(2):
        [first, second] = [plan for plan in plans(tiny, "short") if plan.persona_id == persona]
        assert [b.id for b in first.blocks if b.kind == "session"] != [
            b.id for b in second.blocks if b.kind == "session"
        ]


@pytest.mark.parametrize("n_blocks", ["16", "15", "3"])
def test_ids_are_unique_also_where_little_can_vary(copy: RunStore, n_blocks: str) -> None:
    """A persona of the run has 16 sessions, which all come in one order: there is one context that holds them all."""
    [size] = chosen_sizes((), n_blocks, None)
    counts = assemble(copy, [size], n_variants=6)
    contexts = [plan.shared_context_id for plan in plans(copy, size.split)]
    asked = [row.question_id for row in rows(copy, size.split)]
    assert len(set(contexts)) == len(contexts) == counts[size.split]["contexts"]
    assert len(set(asked)) == len(asked) == counts[size.split]["questions"]


def test_a_range_is_a_split_a_size_and_each_history_a_prefix_of_the_next(copy: RunStore) -> None:
    assemble(copy, chosen_sizes((), "1-10", None), n_variants=2)
    found = {n: {(p.persona_id, p.variant): p.blocks for p in plans(copy, f"{n}blocks")} for n in range(1, 11)}
    assert len(found[10]) == 4
    assert len(found[5]) >= 2, "the first few sessions of two variants can be the same: one context then"
    for n in range(1, 11):
        for key, blocks in found[n].items():
            assert len(blocks) == n
            assert blocks == found[10][key][:n]
        assert found[n], "no size is empty"
        assert {row.shared_context_id for row in rows(copy, f"{n}blocks")} == {
            plan.shared_context_id for plan in plans(copy, f"{n}blocks")
        }


def test_a_size_of_a_range_is_the_same_as_in_another_range_that_ends_there(copy: RunStore, tmp_path: Path) -> None:
    other = RunStore(Path(shutil.copytree(copy.folder, tmp_path / "other")))
    assemble(copy, chosen_sizes((), "5-8", None), n_variants=2)
    assemble(other, chosen_sizes((), "6-8", None), n_variants=2)
    assert contents(copy.folder / "splits" / "7blocks") == contents(other.folder / "splits" / "7blocks")


def test_a_split_does_not_depend_on_what_else_is_assembled(tiny: RunStore, copy: RunStore) -> None:
    shutil.rmtree(copy.folder / "splits")
    for size in reversed(SIZES):
        assemble(copy, [size], n_variants=2)
    assert contents(copy.folder) == contents(tiny.folder)


def test_another_seed_gives_other_contexts(tiny: RunStore, tmp_path: Path) -> None:
    other = make_run(tiny_work(seed=8), tmp_path / "other")
    assemble(other, SIZES, n_variants=2)
    ids = [{plan.shared_context_id for plan in plans(store, "short")} for store in (tiny, other)]
    assert ids[0].isdisjoint(ids[1])


# --- the same bytes


BOTH = """
import sys
from personamem_builder.cli import cli

for size in (["--n-blocks", "5"], ["--split", "32k"]):
    cli(["assemble", sys.argv[1], "--workers", sys.argv[2], *size], standalone_mode=False)
"""


@pytest.mark.parametrize(
    ("hash_seed", "workers"),
    [("1", "2"), ("2", "1"), ("3", "4")],
)
@pytest.mark.slow
def test_every_process_and_any_number_of_workers_give_the_same_bytes(
    python: Python, copy: RunStore, tmp_path: Path, hash_seed: str, workers: str
) -> None:
    folder = tmp_path / "other"
    shutil.copytree(copy.folder, folder)
    assemble(copy, chosen_sizes((), "5", None), n_variants=2)
    assemble(copy, chosen_sizes(("32k",), None, None), n_variants=2)
    python(BOTH, str(folder), workers, PYTHONHASHSEED=hash_seed)
    assert contents(folder) == contents(copy.folder)


# --- contradictions


@pytest.mark.parametrize("question_type", QUESTION_TYPES)
def test_a_wrong_gold_fails_the_assembly_with_the_id(copy: RunStore, question_type: str) -> None:
    before = contents(copy.folder / "splits")
    asked = {row.source_question_id for row in rows(copy, "long")}
    questions = list(copy.read("questions", Question))
    wrong = {q.question_id for q in questions if q.question_type == question_type and q.question_id in asked}
    assert wrong
    rewrite(
        copy,
        "questions",
        [
            q.model_copy(update={"answer_index": (q.answer_index + 1) % 4}) if q.question_id in wrong else q
            for q in questions
        ],
    )
    with pytest.raises(UserError) as raised:
        assemble(copy, SIZES[1:], n_variants=2)
    assert raised.value.message.startswith("persona 0, split long: answers contradict their context: ") or (
        raised.value.message.startswith("persona 1, split long: answers contradict their context: ")
    )
    assert any(question_id in raised.value.message for question_id in wrong)
    assert "is the answer, but does not hold" in raised.value.message
    assert contents(copy.folder / "splits") == before


# --- runs that cannot be assembled


def refused(store: RunStore, sizes: Sequence[Size] = SIZES) -> UserError:
    """Assemble in vain; splits that there were stay as they are."""
    before = contents(store.folder / "splits")
    with pytest.raises(UserError) as raised:
        assemble(store, sizes, n_variants=2)
    assert contents(store.folder / "splits") == before
    return raised.value


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    assert refused(RunStore(tmp_path)).message == f"{tmp_path} is not a run"
    assert refused(RunStore(tmp_path / "absent")).message == f"{tmp_path / 'absent'} is not a run"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("stage", ["personas", "histories", "sessions", "questions", "fillers"])
def test_a_run_without_a_stage(copy: RunStore, stage: str) -> None:
    copy.path(stage).unlink()
    error = refused(copy)
    assert str(copy.path(stage)) in error.message
    assert "finish the run" in error.hint


@pytest.mark.parametrize(
    ("stage", "left"),
    [
        (stage, left)
        for stage in ("personas", "histories", "sessions", "questions", "fillers")
        for left in (0.0, 0.5, 0.99)
        if (stage, left) != ("questions", 0.99)  # nobody knows how many there are
    ],
)
def test_an_unfinished_run(copy: RunStore, stage: str, left: float) -> None:
    """Whole lines, but too few: what a kill leaves, or an editor."""
    lines = copy.path(stage).read_bytes().splitlines(keepends=True)
    copy.path(stage).write_bytes(b"".join(lines[: int(left * len(lines))]))
    error = refused(copy)
    assert str(copy.path(stage)) in error.message
    assert error.hint


@pytest.mark.parametrize("stage", ["histories", "sessions", "questions", "fillers"])
def test_a_run_whose_last_line_is_torn(copy: RunStore, stage: str) -> None:
    copy.path(stage).write_bytes(copy.path(stage).read_bytes()[:-30])
    error = refused(copy)
    assert str(copy.path(stage)) in error.message
    assert "damaged" in error.message


@pytest.mark.parametrize("stage", ["histories", "sessions", "questions", "fillers"])
def test_a_run_with_a_line_changed_by_hand(copy: RunStore, stage: str) -> None:
    data = bytearray(copy.path(stage).read_bytes())
    data[len(data) // 2] ^= 0x01
    copy.path(stage).write_bytes(data)
    assert str(copy.path(stage)) in refused(copy).message


def test_a_run_without_questions(tmp_path: Path) -> None:
    store = make_run(tiny_work(questions_per_topic=dict.fromkeys(QUESTION_TYPES, 0)), tmp_path / "run")
    error = refused(store)
    assert "questions" in error.message
    assert "questions_per_topic" in error.hint


def test_no_room_for_one_session(copy: RunStore) -> None:
    error = refused(copy, chosen_sizes((), "3", 1_000))
    shortest = min(
        p.num_tokens + m.persona.shown_tokens
        for m in records_of(copy)
        if m.persona.persona_id == 0
        for p in m.sessions.values()
    )
    assert error.message == (
        f"the split 3blocks has no room for one session: the shortest of persona 0 has {shortest:,} tokens"
    )
    assert "--max-tokens" in error.hint


def test_too_few_fillers_for_128k(copy: RunStore) -> None:
    error = refused(copy, chosen_sizes(("128k",), None, None))
    assert error.message.startswith(
        "persona 0 cannot fill the split 128k: its 16 sessions (of at most 20) and all 60 fillers have "
    )
    assert error.message.endswith(" fillers are missing")
    # The number is right: so many fillers more are enough.
    missing = int(error.message.split("; about ")[1].split()[0])
    store = make_run(tiny_work(fillers=60 + missing + 3), copy.folder.parent / "more")
    assert assemble(store, chosen_sizes(("128k",), None, None), n_variants=1)["128k"]["contexts"] == 2


def test_an_error_of_a_worker_keeps_its_hint(copy: RunStore, capfd: pytest.CaptureFixture[str]) -> None:
    outcome = personamem("assemble", copy.folder, "--split", "128k", "--workers", "2")
    fails(outcome, "persona 0 cannot fill the split 128k", "raise `fillers`")
    assert "Traceback" not in capfd.readouterr().err, "nor do the workers print one"


# --- whole or not at all


@pytest.mark.parametrize("at", range(1, 7))
def test_a_full_disk_leaves_the_old_splits(copy: RunStore, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """Two splits of three files: the disk is full when the nth of them is brought onto it."""
    before = contents(copy.folder)
    calls = []

    def fsync(handle: int) -> None:
        calls.append(handle)
        if len(calls) == at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        with pytest.raises(UserError) as raised:
            assemble(copy, SIZES, n_variants=3)
    assert "the disk is full" in raised.value.message
    assert str(copy.folder) in raised.value.message
    assert contents(copy.folder) == before
    assert all(read_assembly(copy, split).n_variants == 2 for split in ("short", "long"))


def test_a_folder_that_cannot_be_written(copy: RunStore) -> None:
    shutil.rmtree(copy.folder / "splits")
    (copy.folder / "splits").touch()
    with pytest.raises(UserError) as raised:
        assemble(copy, SIZES, n_variants=2)
    assert str(copy.folder / "splits") in raised.value.message


# Kills itself, as the kernel would, when it calls a function for the nth time.
KILLED = """
import os, signal, sys
from pathlib import Path
from generation import store
from personamem_builder.assemble import assemble as module
from personamem_builder.assemble.sizes import Size

owner, name = {"record_line": (module, "record_line"), "replace": (Path, "replace")}[sys.argv[2]]
original, calls = getattr(owner, name), []

def killed(*arguments):
    calls.append(arguments)
    if len(calls) == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
    return original(*arguments)

setattr(owner, name, killed)
sizes = [Size("short", 4, 10_000, 30, 4), Size("long", 10, 40_000, 8, 8)]
module.assemble(store.RunStore(Path(sys.argv[1])), sizes, 3)
"""


@pytest.mark.parametrize(
    ("what", "at"), [pytest.param("record_line", 1, marks=pytest.mark.slow), ("record_line", 60), ("replace", 1)]
)
def test_a_kill_leaves_the_old_splits(
    python: Python, tiny: RunStore, copy: RunStore, what: str, at: int, tmp_path: Path
) -> None:
    python(KILLED, str(copy.folder), what, str(at), exits=-signal.SIGKILL)
    for size in SIZES:
        assert read_assembly(copy, size.split).n_variants == 2
        assert plans(copy, size.split) == plans(tiny, size.split)
    assert assembled_splits(copy) == ["long", "short"]
    # Again, and nothing that the killed process left is in the way, or left.
    assemble(copy, SIZES, n_variants=2)
    assert contents(copy.folder) == contents(tiny.folder)


@pytest.mark.parametrize("at", [2, *(pytest.param(at, marks=pytest.mark.slow) for at in (4, 6))])
def test_after_a_kill_between_two_files_no_mixture_passes_for_a_split(
    python: Python, copy: RunStore, tiny: RunStore, at: int
) -> None:
    python(KILLED, str(copy.folder), "replace", str(at), exits=-signal.SIGKILL)
    for size in SIZES:
        folder = copy.folder / "splits" / size.split
        if (variants := _variants(copy, size.split)) is None:
            with pytest.raises(UserError, match=re.escape(str(folder))):
                read_assembly(copy, size.split)
        else:
            assert len(plans(copy, size.split)) == 2 * variants
    assemble(copy, SIZES, n_variants=2)
    assert contents(copy.folder) == contents(tiny.folder)


def _variants(store: RunStore, split: str) -> int | None:
    try:
        return int(read_assembly(store, split).n_variants)
    except UserError:
        return None


# --- what a split was made from


def test_what_is_recorded_of_a_split(tiny: RunStore) -> None:
    assembly = read_assembly(tiny, "long")
    assert {key: getattr(assembly, key) for key in ("split", "n_blocks", "max_tokens", "n_variants")} == {
        "split": "long",
        "n_blocks": 10,
        "max_tokens": 40_000,
        "n_variants": 2,
    }
    stages = {f"stages/{name}.jsonl" for name in ("personas", "histories", "sessions", "questions", "fillers")}
    assert assembly.files.keys() >= stages | {"splits/long/contexts.jsonl", "splits/long/questions.jsonl"}


@pytest.mark.parametrize(
    "name",
    [
        "config.json",
        *(f"stages/{stage}.jsonl" for stage in ("personas", "histories", "sessions", "questions", "fillers")),
        "splits/short/contexts.jsonl",
        "splits/short/questions.jsonl",
    ],
)
@pytest.mark.parametrize("how", ["changed", "removed"])
def test_a_file_changed_by_hand_is_named(copy: RunStore, name: str, how: str) -> None:
    path = copy.folder / name
    if how == "removed":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes().replace(b"7", b"8", 1))
    with pytest.raises(UserError) as raised:
        read_assembly(copy, "short")
    assert str(path) in raised.value.message
    assert "assemble" in raised.value.hint


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"files": 3}', "\x00"])
def test_a_damaged_record_of_a_split_is_named(copy: RunStore, text: str) -> None:
    path = copy.folder / "splits" / "short" / "assembly.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError) as raised:
        read_assembly(copy, "short")
    assert str(path) in raised.value.message
    assert "assemble" in raised.value.hint


def test_a_split_that_was_not_assembled(tiny: RunStore) -> None:
    with pytest.raises(UserError) as raised:
        read_assembly(tiny, "128k")
    assert raised.value.message.startswith(f"{tiny.folder} has no split '128k'")
    assert raised.value.hint == f"personamem assemble {tiny.folder} --split 128k"


def test_the_way_to_a_split_of_so_many_sessions_can_be_typed(tiny: RunStore) -> None:
    with pytest.raises(UserError) as raised:
        read_assembly(tiny, "12blocks")
    assert raised.value.hint == f"personamem assemble {tiny.folder} --n-blocks 12"


# --- what of the user a context shows


def test_splits_of_a_run_that_got_more_users_have_to_be_made_anew(tiny: RunStore, tmp_path: Path) -> None:
    store = RunStore(Path(shutil.copytree(tiny.folder, tmp_path / "copy")))
    make_run(tiny_work(personas=3), store.folder)
    with pytest.raises(UserError, match=r"config\.json is not what the split short was assembled from"):
        read_assembly(store, "short")
    assemble(store, SIZES, n_variants=1)
    assert {plan.persona_id for plan in plans(store, "short")} == {0, 1, 2}


@pytest.mark.parametrize("visible", ["demographics", "no_occupation", "full", "none"])
def test_what_the_model_is_shown_of_the_user(tmp_path: Path, visible: str) -> None:
    store = make_run(tiny_work(persona_visible=visible, fillers=0), tmp_path / "run")
    for records in records_of(store):
        persona = records.persona
        assert (persona.demographics in records.persona.shown) == (visible != "none")
        assert (persona.profile in records.persona.shown) == (visible == "full")
        assert (persona.occupation in records.persona.shown) == (visible in ("demographics", "full"))
        assert (records.persona.shown == "") == (visible == "none") == (records.persona.shown_tokens == 0)


def test_material_is_of_one_persona_and_complete(tiny: RunStore) -> None:
    histories = list(tiny.read("histories", History))
    sessions = list(tiny.read("sessions", Session))
    questions = list(tiny.read("questions", Question))
    found = records_of(tiny)
    assert [m.history for m in found] == histories
    assert [list(m.sessions) for m in found] == [
        [s.session_id for s in sessions if s.persona_id == h.persona_id] for h in histories
    ]
    assert [q for m in found for q in m.questions] == questions
    assert len(list(tiny.read("fillers", Filler))) == 60


def test_the_record_is_plain_json(tiny: RunStore) -> None:
    text = (tiny.folder / "splits" / "short" / "assembly.json").read_text(encoding="utf-8")
    content: dict[str, Any] = json.loads(text)
    assert all(len(digest) == 64 for digest in content["files"].values())
