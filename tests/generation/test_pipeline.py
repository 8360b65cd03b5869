"""A run is made the same way every time, and an interrupted one is finished as if nothing had happened."""

from __future__ import annotations

import datetime as dt
import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from small_banks import tiny_bank, tiny_items
from small_runs import CLI, TINY, contents, make_run, sparse_work, tiny_work, work_of

from generation import prompts
from generation.banks.load import shipped_topics
from generation.config import Config, load_config
from generation.dates import spoken_day
from generation.errors import UserError
from generation.grammar import mentions
from generation.history_records import History
from generation.llm.client import Call, Completion, ReplyError
from generation.llm.offline.fillers import filler, tables
from generation.pipeline import generate
from generation.records import QUESTION_TYPES, Filler, Persona, Question, Session
from generation.resources import data_dir
from generation.run_inputs import RunInputs
from generation.run_stages import STAGES
from generation.stages.personas import draw_personas, write_persona
from generation.store import RunStore
from generation.tokenizer import count_tokens

ROOT = Path(__file__).parents[2]
Python = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def copy(tiny: Path, tmp_path: Path) -> Path:
    """A copy of that run, to be damaged."""
    return Path(shutil.copytree(tiny, tmp_path / "copy"))


def finish(folder: Path) -> None:
    make_run(tiny_work(), folder)


# --- the same bytes


def test_another_process_gives_the_same_bytes(python: Python, tiny: Path, tmp_path: Path) -> None:
    python(CLI, "generate", str(TINY), "--out", "run", PYTHONHASHSEED="1")
    assert contents(tmp_path / "run") == contents(tiny)


@pytest.mark.slow
def test_eight_workers_give_the_same_bytes_as_one(python: Python, tiny: Path, tmp_path: Path) -> None:
    python(CLI, "generate", str(TINY), "--out", "run", "--workers", "8")
    assert contents(tmp_path / "run") == contents(tiny)


def test_tokens_are_counted_once_for_all(tiny: Path) -> None:
    store = RunStore(tiny)
    messages = [m for s in store.read("sessions", Session) for m in s.messages]
    messages += [m for f in store.read("fillers", Filler) for m in f.messages]
    told = [(message.content, message.num_tokens) for message in messages]
    told += [(question.message, question.num_tokens) for question in store.read("questions", Question)]
    told += [(persona.shown, persona.shown_tokens) for persona in store.read("personas", Persona)]
    counts = count_tokens(text for text, _ in told)
    assert all(counts[text] == tokens for text, tokens in told)


def test_a_finished_run_is_left_as_it_is(copy: Path, tiny: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in copy.rglob("*")}
    finish(copy)
    assert {path: path.stat().st_mtime_ns for path in copy.rglob("*")} == before
    assert contents(copy) == contents(tiny)


def test_another_seed_gives_other_records(tiny: Path, tmp_path: Path) -> None:
    other = make_run(tiny_work(seed=8), tmp_path / "other")
    for stage in STAGES:
        lines = set(RunStore(tiny).path(stage).read_bytes().splitlines())
        assert not lines & set(other.path(stage).read_bytes().splitlines()), stage


def test_one_more_user_changes_nothing_for_the_others(tiny: Path, tmp_path: Path) -> None:
    more = make_run(tiny_work(personas=3), tmp_path / "more")
    for stage in ("personas", "histories", "sessions", "questions", "fillers"):
        ours, theirs = RunStore(tiny).path(stage).read_bytes(), more.path(stage).read_bytes()
        assert theirs.startswith(ours), stage
        assert (len(theirs) > len(ours)) == (stage != "fillers"), stage


@pytest.mark.parametrize("seed", range(40, 50))
def test_one_more_user_from_a_file_changes_nothing_for_the_others(tmp_path: Path, seed: int) -> None:
    source = tmp_path / "people.jsonl"
    source.write_text("".join(json.dumps({"persona": f"keeper of lighthouse {i}"}) + "\n" for i in range(40)))
    few, many = (
        [persona.profile for persona in _personas(tiny_work(seed=seed, persona_source=str(source), personas=n))]
        for n in (5, 12)
    )
    assert many[:5] == few


def _personas(work: RunInputs) -> list[Persona]:
    return [write_persona(work.client(), task) for task in draw_personas(work.config, work.banks)]


# --- kills

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="makes runs in forks, to kill them")

KILL = """
import os, shutil, signal, sys
from pathlib import Path
from small_runs import contents, make_run, tiny_work
from generation.store import RunStore

whole, folder, work, append = Path(sys.argv[1]), Path("run"), tiny_work(), RunStore.append

def in_a_child(function):
    child = os.fork()
    if child == 0:
        function()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def die_in_the_middle_of_line(n):
    appends = iter(range(n))
    def torn(store, stage, record):
        path = store.path(stage)
        before = path.stat().st_size if path.exists() else 0
        append(store, stage, record)
        if next(appends, None) is None:
            os.truncate(path, before + (path.stat().st_size - before) * (n % 11) // 10)
            os.kill(os.getpid(), signal.SIGKILL)
    RunStore.append = torn
    make_run(work, folder)
"""


@needs_fork
@pytest.mark.slow
def test_a_run_that_was_killed_at_any_point_is_finished_with_the_same_bytes(python: Python, tiny: Path) -> None:
    # Among the points: in the first line of each stage, between two lines, and in the last line.
    code = """
make_run(work, Path("warm"))  # what it caches, the children need not make
lines = sum(data.count(b"\\n") for name, data in contents(whole).items() if name.startswith("stages"))
starts = {0, 2, 4, 36, 92, lines - 1}
for n in sorted(starts | set(range(1, lines, 12))):
    shutil.rmtree(folder, ignore_errors=True)
    assert in_a_child(lambda: die_in_the_middle_of_line(n)) == -signal.SIGKILL, n
    assert contents(folder) != contents(whole), n
    assert in_a_child(lambda: make_run(work, folder)) == 0, n
    assert contents(folder) == contents(whole), n
print(lines, "lines")
"""
    assert python(KILL + code, str(tiny), PYTHONPATH=f"{ROOT}:{ROOT / 'tests'}").stdout == "152 lines\n"


@needs_fork
@pytest.mark.slow
def test_a_run_that_is_killed_again_and_again_still_gets_done(python: Python, tiny: Path) -> None:
    code = """
make_run(work, Path("warm"))  # what it caches, the children need not make
kills = 0
while in_a_child(lambda: die_in_the_middle_of_line(11 + kills % 7)):
    kills += 1
assert contents(folder) == contents(whole)
print("killed often" if 7 < kills < 15 else kills)
"""
    done = python(KILL + code, str(tiny), PYTHONPATH=f"{ROOT}:{ROOT / 'tests'}")
    assert done.stdout == "killed often\n"


@needs_fork
@pytest.mark.slow
def test_a_kill_before_the_first_file_is_whole_can_be_overcome(python: Python, tiny: Path) -> None:
    code = """
def die_at_first_fsync():
    os.fsync = lambda file: os.kill(os.getpid(), signal.SIGKILL)
    make_run(work, folder)

assert in_a_child(die_at_first_fsync) == -signal.SIGKILL
assert folder.exists() and not (folder / "config.json").exists()
make_run(work, folder)
stages = lambda folder: {name: data for name, data in contents(folder).items() if not name.startswith(".")}
assert stages(folder) == stages(whole)
"""
    python(KILL + code, str(tiny), PYTHONPATH=f"{ROOT}:{ROOT / 'tests'}")


@pytest.fixture(scope="module")
def longer(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A configuration whose run lasts long enough to be killed from outside, and such a run, not interrupted."""
    folder = tmp_path_factory.mktemp("longer")
    config = folder / "longer.yaml"
    config.write_text(TINY.read_text().replace("personas: 2", "personas: 8").replace("fillers: 20", "fillers: 9"))
    return config, make_run(work_of(load_config(config)), folder / "run").folder


@pytest.fixture
def killed(longer: tuple[Path, Path], tmp_path: Path) -> tuple[list[int], Path]:
    """A run with two workers, killed while they wrote sessions: the ids of the workers, and its folder."""
    folder = tmp_path / "run"
    arguments = ["generate", str(longer[0]), "--out", str(folder), "--workers", "2"]
    run = subprocess.Popen([sys.executable, "-c", CLI, *arguments], cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        sessions = folder / "stages" / "sessions.jsonl"
        _wait_for(lambda: (sessions.exists() and sessions.stat().st_size > 0) or run.poll() is not None)
        assert run.poll() is None, "the run ended before it could be killed"
        workers = [
            child
            for child in map(int, Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split())
            if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()
        ]
    finally:
        run.kill()
        run.wait()
    return workers, folder


def _wait_for(condition: Callable[[], bool], seconds: float = 30) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="reads /proc")
def test_a_kill_from_outside_leaves_no_workers_and_can_be_overcome(
    killed: tuple[list[int], Path], longer: tuple[Path, Path]
) -> None:
    workers, folder = killed
    config, whole = longer
    make_run(work_of(load_config(config)), folder)
    assert contents(folder) == contents(whole)
    gone = _wait_for(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers), seconds=5)
    for worker in workers:
        if Path(f"/proc/{worker}").exists():
            os.kill(worker, signal.SIGKILL)
    assert len(workers) == 2
    assert gone, "the workers wait for ever for a run that is gone"


# --- damage


@pytest.fixture(scope="module")
def sparse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(sparse_work(), tmp_path_factory.mktemp("sparse") / "run").folder


@pytest.fixture
def damaged(sparse: Path, tmp_path: Path) -> Path:
    """A copy of that run, to be damaged."""
    return Path(shutil.copytree(sparse, tmp_path / "copy"))


@pytest.mark.parametrize("stage", STAGES)
def test_a_removed_stage_and_those_after_it_are_made_anew(damaged: Path, sparse: Path, stage: str) -> None:
    names = list(STAGES)
    store = RunStore(damaged)
    store.path(stage).unlink()
    for later in names[names.index(stage) + 1 :]:
        store.path(later).write_text("made from what is gone\n")
    make_run(sparse_work(), damaged)
    assert contents(damaged) == contents(sparse)


Damage = Callable[[list[bytes]], list[bytes]]
DAMAGES: dict[str, tuple[Damage, Callable[[int], int]]] = {
    "a line in the middle is gone": (lambda ls: ls[: len(ls) // 2] + ls[len(ls) // 2 + 1 :], lambda n: n // 2 + 1),
    "the first line is gone": (lambda ls: ls[1:], lambda n: 1),
    "the last line appears twice": (lambda ls: [*ls, ls[-1]], lambda n: n + 1),
    "the first line appears twice": (lambda ls: [ls[0], *ls], lambda n: 2),
    "two lines have changed places": (lambda ls: [*ls[:-2], ls[-1], ls[-2]], lambda n: n - 1),
}


@pytest.mark.parametrize(
    ("stage", "damage"),
    [
        (stage, damage)
        for stage in STAGES
        for damage in DAMAGES
        # Of two users one is left, as if the run had been killed between them.
        if (damage, stage in ("personas", "histories")) != ("a line in the middle is gone", True)
    ],
)
def test_a_line_missing_or_too_many_is_a_loud_error(damaged: Path, stage: str, damage: str) -> None:
    change, number = DAMAGES[damage]
    path = RunStore(damaged).path(stage)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(change(lines)))
    before = contents(damaged)
    with pytest.raises(UserError, match=rf"{stage}\.jsonl, line {number(len(lines))} ") as caught:
        make_run(sparse_work(), damaged)
    assert "remove it and run again" in caught.value.hint
    assert contents(damaged) == before


def test_a_full_disk_is_one_error_and_the_run_goes_on_later(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    real = Path.open

    class FullDisk:
        def __init__(self, file: Any) -> None:
            self.file = file

        def __enter__(self) -> FullDisk:
            return self

        def __exit__(self, *error: object) -> None:
            self.file.close()

        def write(self, data: bytes) -> None:
            self.file.write(data[:100])
            raise OSError(errno.ENOSPC, "No space left on device")

    def opened(path: Path, mode: str = "r", **more: Any) -> Any:
        file = real(path, mode, **more)
        full = mode == "ab" and path.name == "sessions.jsonl" and path.stat().st_size > 50_000
        return FullDisk(file) if full else file

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", opened)
        with pytest.raises(UserError, match=r"sessions\.jsonl cannot be written: the disk is full") as caught:
            finish(folder)
    assert "rerun the command" in caught.value.hint
    assert RunStore(folder).path("sessions").read_bytes()[-1:] != b"\n"
    finish(folder)
    assert contents(folder) == contents(tiny)


def test_a_full_disk_where_a_stage_is_empty_is_no_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, *arguments: object, **more: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    work = sparse_work()
    work = work._replace(config=work.config.model_copy(update={"fillers": 0}))
    store = RunStore.open(tmp_path / "run", work.fingerprint())
    monkeypatch.setattr(Path, "touch", full)
    with pytest.raises(UserError, match=r"fillers\.jsonl cannot be written: the disk is full"):
        generate(work, store)


# --- more users


def users_of(first: int, personas: int) -> RunInputs:
    """The work of users of whom there is little to tell."""
    work = sparse_work()
    return work._replace(config=work.config.model_copy(update={"first_persona": first, "personas": personas}))


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(users_of(0, 4), tmp_path_factory.mktemp("four") / "run").folder


def by_user(folder: Path) -> dict[str, bytes]:
    return {stage: RunStore(folder).path(stage).read_bytes() for stage in STAGES if STAGES[stage].user}


def test_a_run_that_gets_more_users_is_as_if_it_had_had_them_from_the_start(damaged: Path, four: Path) -> None:
    before = by_user(damaged)
    make_run(users_of(0, 4), damaged)
    assert contents(damaged) == contents(four)
    for stage, content in by_user(four).items():
        assert content.startswith(before[stage])
        assert len(content) > len(before[stage])


def test_what_a_run_has_is_not_written_again_when_it_gets_more_users(
    damaged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    appended: list[tuple[str, Any]] = []
    append = RunStore.append

    def noted(store: RunStore, stage: str, record: Any) -> None:
        appended.append((stage, record))
        append(store, stage, record)

    monkeypatch.setattr(RunStore, "append", noted)
    make_run(users_of(0, 4), damaged)
    assert {record.persona_id for _, record in appended} == {2, 3}
    assert {stage for stage, _ in appended} == set(STAGES) - {"fillers"}


class Stopped(Exception):
    pass


@pytest.mark.parametrize("kept", [0, 1, 3, 5, 20, 60])
def test_getting_more_users_goes_on_where_it_was_stopped(
    damaged: Path, four: Path, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = iter(range(kept))
    append = RunStore.append

    def stops(store: RunStore, stage: str, record: Any) -> None:
        if next(left, None) is None:
            with store.path(stage).open("ab") as file:
                file.write(b'{"persona_id":3,"half a li')
            raise Stopped
        append(store, stage, record)

    with monkeypatch.context() as patch:
        patch.setattr(RunStore, "append", stops)
        with pytest.raises(Stopped):
            make_run(users_of(0, 4), damaged)
    assert contents(damaged) != contents(four)
    with pytest.raises(UserError, match="has users 0-3, and users 0-1 are asked for"):
        make_run(users_of(0, 2), damaged)
    make_run(users_of(0, 4), damaged)
    assert contents(damaged) == contents(four)


def test_a_full_disk_before_a_run_gets_more_users_leaves_it_as_it_was(
    damaged: Path, sparse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(UserError, match=r"config\.json cannot be written: the disk is full"):
            make_run(users_of(0, 4), damaged)
    assert contents(damaged) == contents(sparse)


@pytest.mark.parametrize(("first", "count"), [(0, 1), (2, 2), (1, 1)])
def test_users_that_a_run_has_cannot_be_taken_away(damaged: Path, sparse: Path, first: int, count: int) -> None:
    with pytest.raises(UserError) as caught:
        make_run(users_of(first, count), damaged)
    asked = f"{first}-{first + count - 1}"
    assert f"{damaged} has users 0-1, and users {asked} are asked for" in caught.value.message
    assert "(--personas)" in caught.value.hint
    assert contents(damaged) == contents(sparse)


def test_runs_of_users_one_after_another_are_together_the_run_of_all(sparse: Path, four: Path, tmp_path: Path) -> None:
    rest = make_run(users_of(2, 2), tmp_path / "rest")
    assert rest.users() == range(2, 4)
    ours, theirs = by_user(sparse), by_user(rest.folder)
    assert {stage: ours[stage] + theirs[stage] for stage in ours} == by_user(four)
    assert rest.path("fillers").read_bytes() == RunStore(four).path("fillers").read_bytes()


def test_a_run_that_begins_with_another_user_can_get_more_too(four: Path, tmp_path: Path) -> None:
    store = make_run(users_of(1, 1), tmp_path / "run")
    make_run(users_of(1, 3), store.folder)
    first = {
        stage: b"".join(line for line in lines.splitlines(True) if b'"persona_id":0,' not in line)
        for stage, lines in by_user(four).items()
    }
    assert by_user(store.folder) == first


def test_lines_at_the_end_of_a_stage_that_are_gone_take_with_them_what_was_made_of_them_alone(
    damaged: Path, sparse: Path
) -> None:
    store = RunStore(damaged)
    path = store.path("histories")
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
    with store.path("sessions").open("ab") as file:
        file.write(b'{"persona_id":1,"half a li')
    make_run(sparse_work(), damaged)
    assert contents(damaged) == contents(sparse)


def test_a_run_of_the_format_before_is_gone_on_with(damaged: Path, sparse: Path) -> None:
    """Its users, and what their sessions show of them, are the same; only the word for it is another."""
    path = damaged / "config.json"
    old = json.loads(path.read_text()) | {"persona_visible": "demographics", "format_version": 5}
    path.write_text(json.dumps(old))
    assert RunStore(damaged).fingerprint()["persona_visible"] == "no_occupation"
    RunStore(damaged).path("questions").unlink()
    make_run(sparse_work(), damaged)
    assert by_user(damaged) == by_user(sparse)
    shows_more = sparse_work()
    shows_more = shows_more._replace(config=shows_more.config.model_copy(update={"persona_visible": "demographics"}))
    with pytest.raises(UserError, match='persona_visible: "no_occupation" there, "demographics" now'):
        make_run(shows_more, damaged)
    make_run(users_of(0, 3), damaged)
    assert json.loads(path.read_text())["format_version"] == 6


def test_a_run_of_an_older_format_is_never_taken_for_one_that_shows_the_occupation(damaged: Path) -> None:
    path = damaged / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"persona_visible": "demographics", "format_version": 4}))
    assert RunStore(damaged).fingerprint()["persona_visible"] == "no_occupation"
    with pytest.raises(UserError, match=r"another configuration: format_version: 4 there, 6 now"):
        make_run(sparse_work(), damaged)


# --- another run in the folder


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({"seed": 8}, "seed: 7 there, 8 now"),
        ({"persona_visible": "none"}, 'persona_visible: "no_occupation" there, "none" now'),
        ({"personas": 3, "seed": 8}, "seed: 7 there, 8 now; personas: 2 there, 3 now"),
        ({"seed": 8, "fillers": 21}, "seed: 7 there, 8 now; fillers: 60 there, 21 now"),
    ],
    ids=str,
)
def test_another_configuration_is_refused_with_the_keys_that_differ(
    copy: Path, tiny: Path, changes: dict[str, Any], shown: str
) -> None:
    with pytest.raises(UserError) as caught:
        make_run(tiny_work(**changes), copy)
    assert caught.value.message == f"{copy} holds a run of another configuration: {shown}"
    assert contents(copy) == contents(tiny)


def test_generic_distractors_are_a_part_of_runs_that_have_some_and_leave_no_trace_in_others() -> None:
    without, with_one = tiny_work().fingerprint(), work_of(Config(**_tiny(), generic_distractors=1)).fingerprint()
    assert with_one.pop("generic_distractors") == 1
    assert "generic_distractors" not in without
    assert with_one.pop("banks").keys() - without.pop("banks").keys() == {"generic.yaml"}
    assert with_one.pop("templates").keys() - without.pop("templates").keys() == {"generic_replies.j2"}
    assert with_one == without


def _tiny() -> dict[str, Any]:
    return load_config(TINY).model_dump(exclude={"generic_distractors"})


def test_texts_of_fillers_are_a_part_of_runs_that_have_some() -> None:
    files = {"fillers/mathematics.yaml", "fillers/phrases.yaml", "fillers/programming.yaml"}
    files |= {"fillers/tables.yaml", "fillers/world.yaml"}
    assert tiny_work(fillers=1).fingerprint()["banks"].keys() - tiny_work(fillers=0).fingerprint()["banks"] == files


def test_edited_texts_of_fillers_are_refused_and_named(
    copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "fillers"
    shutil.copytree(tables.FILES, folder)
    (folder / "world.yaml").write_text((folder / "world.yaml").read_text() + "\n", encoding="utf-8")
    monkeypatch.setattr(tables, "FILES", folder)
    with pytest.raises(UserError, match=r"another configuration: banks\.fillers/world\.yaml: "):
        make_run(tiny_work(), copy)


def test_an_edited_bank_is_refused_and_named(tmp_path: Path) -> None:
    bank = tmp_path / "mine.yaml"
    shipped = ROOT / "generation" / "banks" / "files" / "topics" / "writing.yaml"
    bank.write_bytes(shipped.read_bytes())
    config = load_config(TINY).model_copy(update={"topics": ("foodRecommendation", "travelPlanning", str(bank))})
    RunStore.open(tmp_path / "run", work_of(config).fingerprint())
    bank.write_bytes(shipped.read_bytes() + b"# edited\n")
    with pytest.raises(UserError, match=r"banks\..*writing\.yaml: ") as caught:
        RunStore.open(tmp_path / "run", work_of(config).fingerprint())
    assert "foodRecommendation" not in caught.value.message


def test_an_edited_template_is_refused_and_named(copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    templates = Path(shutil.copytree(data_dir("templates"), tmp_path / "templates"))
    with (templates / "session.j2").open("a") as file:
        file.write("\nBe kind.\n")
    monkeypatch.setattr(prompts, "data_dir", lambda name: templates)
    with pytest.raises(UserError, match=r"session\.j2") as caught:
        finish(copy)
    assert "persona.j2" not in caught.value.message


def test_a_file_of_personas_counts_with_its_content(tmp_path: Path) -> None:
    source = tmp_path / "people.jsonl"
    source.write_text('{"persona": "a beekeeper"}\n{"persona": "a diver"}\n')
    work = tiny_work(persona_source=str(source))
    RunStore.open(tmp_path / "run", work.fingerprint())
    source.write_text('{"persona": "a beekeeper"}\n{"persona": "a driver"}\n')
    with pytest.raises(UserError, match="persona_source"):
        RunStore.open(tmp_path / "run", work.fingerprint())


@pytest.mark.parametrize("visible", ["demographics", "no_occupation", "full", "none"])
def test_what_the_model_may_see_is_kept_for_the_assembly(tmp_path: Path, visible: str) -> None:
    folder = tmp_path / "run"
    RunStore.open(folder, tiny_work(persona_visible=visible).fingerprint())
    assert json.loads((folder / "config.json").read_text())["persona_visible"] == visible


# --- what a run holds


class Run:
    """The records of a run, stage by stage."""

    def __init__(self, work: RunInputs, folder: Path) -> None:
        store = make_run(work, folder)
        self.config, self.banks = work.config, work.banks
        self.personas = list(store.read("personas", Persona))
        self.histories = list(store.read("histories", History))
        self.sessions = list(store.read("sessions", Session))
        self.questions = list(store.read("questions", Question))
        self.fillers = list(store.read("fillers", Filler))

    def topics(self) -> Iterator[tuple[int, Any]]:
        return ((history.persona_id, topic) for history in self.histories for topic in history.topics)


@pytest.fixture(scope="module")
def moderate(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Two users, all shipped topics, sessions of the default length."""
    config = Config(
        seed=3, personas=2, topics=tuple(shipped_topics()), fillers=200, questions_per_topic={"suggest_new_ideas": 2}
    )
    return Run(work_of(config), tmp_path_factory.mktemp("moderate") / "run")


def test_the_counts_are_those_of_the_configuration(moderate: Run) -> None:
    topics = len(moderate.config.topics)
    assert [persona.persona_id for persona in moderate.personas] == [0, 1]
    assert [history.persona_id for history in moderate.histories] == [0, 1]
    assert Counter(session.persona_id for session in moderate.sessions) == dict.fromkeys(range(2), 4 * topics)
    assert len(moderate.fillers) == 200
    asked = Counter((question.persona_id, question.question_type) for question in moderate.questions)
    per_topic = {question_type: 1 for question_type in QUESTION_TYPES} | {"suggest_new_ideas": 2}
    assert asked == {(persona, name): count * topics for persona in range(2) for name, count in per_topic.items()}


def test_generate_returns_the_counts(tmp_path: Path) -> None:
    work = tiny_work(personas=1, fillers=0)
    counts = generate(work, RunStore.open(tmp_path / "run", work.fingerprint())).counts
    assert counts == {"personas": 1, "histories": 1, "sessions": 16, "questions": 28, "fillers": 0}
    assert all(RunStore(tmp_path / "run").path(stage).exists() for stage in STAGES)


def test_user_and_assistant_take_turns(moderate: Run) -> None:
    for talk in [*moderate.sessions, *moderate.fillers]:
        roles = [message.role for message in talk.messages]
        assert roles == ["user", "assistant"] * (len(roles) // 2)
    turns = moderate.config.turns_per_session
    lengths = {len(session.messages) // 2 for session in moderate.sessions}
    assert lengths == set(range(turns.min, turns.max + 1))


def test_every_event_is_told_in_exactly_one_message_and_by_the_user(moderate: Run) -> None:
    told = Counter(e for session in moderate.sessions for message in session.messages for e in message.event_ids)
    events = [event.event_id for _, topic in moderate.topics() for event in topic.events]
    assert told == dict.fromkeys(events, 1)
    assert not any(m.event_ids for s in moderate.sessions for m in s.messages if m.role == "assistant")


def test_every_event_is_told_in_the_session_of_its_period(moderate: Run) -> None:
    periods = {event.event_id: event.period for _, topic in moderate.topics() for event in topic.events}
    for session in moderate.sessions:
        assert {periods[e] for m in session.messages for e in m.event_ids} <= {session.period}


def test_every_mention_stands_in_exactly_one_message_of_the_user_in_the_session_of_its_event(moderate: Run) -> None:
    told = Counter(id_ for s in moderate.sessions for message in s.messages for id_ in message.mention_ids)
    mentions = [mention for _, topic in moderate.topics() for mention in topic.mentions]
    assert told == dict.fromkeys((mention.mention_id for mention in mentions), 1)
    where = {
        id_: session.session_id
        for session in moderate.sessions
        for message in session.messages
        for id_ in (*message.event_ids, *message.mention_ids)
    }
    beside = [mention for mention in mentions if mention.beside_event_id is not None]
    assert len(beside) > 2000
    assert all(where[mention.mention_id] == where[mention.beside_event_id] for mention in beside)


def test_what_a_user_has_no_view_on_is_told_of_others_alone(moderate: Run) -> None:
    """Names stand where something told, or an offer, speaks of them, and nowhere else."""
    texts: dict[tuple[int, str], str] = {}
    for session in moderate.sessions:
        said = "\n".join(message.content for message in session.messages).lower()
        texts[session.persona_id, session.topic] = texts.get((session.persona_id, session.topic), "") + said
    found = []
    for persona_id, topic in moderate.topics():
        about = {name for p in topic.preferences for name in p.candidates}
        about |= {name for m in topic.mentions for name in (m.subject, *m.state.split("; "))}
        names = set(moderate.banks.topics[topic.topic].names()) - about
        text = texts[persona_id, topic.topic]
        found += [(persona_id, topic.topic, name) for name in names if mentions(text, name.lower())]
    assert found == []


def test_user_messages_hardly_ever_repeat(moderate: Run) -> None:
    """And if, then short ones that tell nothing."""
    said = Counter(m.content for s in moderate.sessions for m in s.messages if m.role == "user")
    assert len(said) > 2000
    repeated = [message for message, count in said.items() if count > 1]
    assert len(repeated) <= 0.003 * len(said)
    told = [m.content for s in moderate.sessions for m in s.messages if m.event_ids or m.mention_ids]
    assert max(Counter(told).values()) == 1


def test_sessions_are_held_on_their_days(moderate: Run) -> None:
    planned = {plan.session_id: plan for _, topic in moderate.topics() for plan in topic.sessions}
    assert [session.session_id for session in moderate.sessions] == list(planned)
    for session in moderate.sessions:
        plan = planned[session.session_id]
        assert (session.date, session.period) == (plan.date, plan.period)
    for persona in moderate.personas:
        days = [session.date for session in moderate.sessions if session.persona_id == persona.persona_id]
        assert len(set(days)) == len(days), "two sessions on one day have no order"


def test_the_periods_are_as_far_apart_as_their_names_say(moderate: Run) -> None:
    for _, topic in moderate.topics():
        first, week, month, year = (plan.date for plan in topic.sessions)
        assert dt.timedelta(days=5) <= week - first <= dt.timedelta(days=9)
        assert dt.timedelta(days=25) <= month - first <= dt.timedelta(days=35)
        assert dt.timedelta(days=350) <= year - first <= dt.timedelta(days=380)


def test_a_user_who_names_the_day_names_that_of_the_session(moderate: Run) -> None:
    days = [s for s in moderate.sessions if spoken_day(s.date).lower() in s.messages[0].content.lower()]
    assert 0.2 * len(moderate.sessions) < len(days) < 0.8 * len(moderate.sessions)


def test_fillers_are_all_different(moderate: Run) -> None:
    assert len({filler.filler_id for filler in moderate.fillers}) == 200
    assert len({filler.title for filler in moderate.fillers}) == 200
    messages = [message.content for filler in moderate.fillers for message in filler.messages]
    assert len(set(messages)) == len(messages)


def test_fillers_speak_of_what_their_titles_say(moderate: Run) -> None:
    for index, written in enumerate(moderate.fillers):
        drawn = filler(index, moderate.config.seed)
        assert (written.kind, written.title) == (drawn.kind, drawn.title)
        assert [message.content for message in written.messages] == [text for turn in drawn.turns for text in turn]


def test_ids_name_one_record_each(moderate: Run) -> None:
    for ids in (
        [session.session_id for session in moderate.sessions],
        [question.question_id for question in moderate.questions],
        [event.event_id for _, topic in moderate.topics() for event in topic.events],
    ):
        assert len(set(ids)) == len(ids)


def test_questions_point_at_sessions_and_events_of_their_user(moderate: Run) -> None:
    sessions = {session.session_id: session for session in moderate.sessions}
    told = {e: s.session_id for s in moderate.sessions for m in s.messages for e in m.event_ids}
    for question in moderate.questions:
        after = [sessions[session_id] for session_id in question.after_session_ids]
        assert {session.persona_id for session in after} == {question.persona_id}
        assert {told[event_id] for event_id in question.evidence_event_ids} == {s.session_id for s in after}
        if question.before_session_id is not None:
            assert sessions[question.before_session_id].date > max(session.date for session in after)


def test_profiles_name_their_user_and_no_motive(moderate: Run) -> None:
    for persona in moderate.personas:
        assert persona.name.split()[0] in persona.profile
        assert not re.search(rf"\b({'|'.join(persona.motives)})\b", persona.profile)


def test_a_bank_whose_names_occur_in_what_everybody_says_is_refused_before_the_run(tmp_path: Path) -> None:
    # Small talk speaks of coffee; who must never mention it would break the run in its middle.
    bank = tmp_path / "chess.yaml"
    bank.write_text(
        yaml.safe_dump(
            tiny_bank(items=tiny_items({"blitz games": "v", "lone kings": "w", "lost pawns": "x", "coffee": "z"}))
        )
    )
    config = Config(
        topics=(str(bank),),
        items_per_topic=3,
        slots_per_topic=1,
        facts_per_topic=1,
        updates_per_topic=1,
        questions_per_topic={"generalize_to_new_scenarios": 0},
    )
    with pytest.raises(UserError, match=r"chess\.yaml: .*'coffee'"):
        make_run(work_of(config), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_run_of_one_period_without_updates_is_possible(tmp_path: Path) -> None:
    config = Config(
        topics=("writing",),
        personas=2,
        periods=1,
        updates_per_topic=0,
        questions_per_topic={
            "generalize_to_new_scenarios": 0,
            "revisit_reasons_behind_preference_updates": 0,
            "track_full_preference_evolution": 0,
        },
        turns_per_session={"min": 23, "max": 23},
    )
    run = Run(work_of(config), tmp_path / "run")
    assert len(run.sessions) == 2
    assert len(run.questions) == 2 * 4


def test_a_model_is_loaded_once_for_all_stages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []

    class Model:
        identity = {"backend": "hf"}  # noqa: RUF012

        def __init__(self, path: str, **_: object) -> None:
            loaded.append(path)

        def complete(self, call: Call) -> Completion:
            raise ReplyError("it says nothing", "")

    monkeypatch.setattr("generation.llm.local.LocalModel", Model)
    work = tiny_work()._replace(backend="hf:large")
    with pytest.raises(UserError, match="0 of 2 personas came out; the first: it says nothing"):
        generate(work, RunStore.open(tmp_path / "run", work.fingerprint()))
    assert loaded == ["large"]
