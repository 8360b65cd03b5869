"""The shards of a run, one after another, are the run: whoever makes them, in whatever order, however often stopped."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import fails, personamem, typed
from small_runs import contents, make_run, sparse_work

from generation.errors import UserError
from generation.record_files import cut_from_persona
from generation.records import Filler, Record, Session
from generation.run_inputs import RunInputs
from generation.run_stages import STAGES
from generation.sharded_run import make_shard, make_shards
from generation.shards import DONE, Shard
from generation.store import FailedItem, RunStore


def work() -> RunInputs:
    """Five users of whom there is little to tell, from number 2 on."""
    return sparse_work(first_persona=2, personas=5)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run without shards."""
    return make_run(work(), tmp_path_factory.mktemp("whole") / "run").folder


@pytest.fixture(scope="module")
def sharded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sharded") / "run"
    for number in (3, 1, 2):
        assert make_shard(work(), folder, Shard(number, 3)).is_new
    return folder


@pytest.fixture
def copy(sharded: Path, tmp_path: Path) -> Path:
    """A copy of the run in shards, to be changed."""
    return Path(shutil.copytree(sharded, tmp_path / "copy"))


def shard(run: Path, number: int) -> RunStore:
    return RunStore(run / "shards" / f"{number:05}-of-00003")


def test_the_shards_one_after_another_are_the_run_byte_for_byte(whole: Path, sharded: Path) -> None:
    for stage in STAGES:
        parts = [path.read_bytes() for path in sorted(sharded.glob(f"shards/*/stages/{stage}.jsonl"))]
        assert b"".join(parts) == RunStore(whole).path(stage).read_bytes(), stage
        assert list(map(bool, parts)) == [True, stage != "fillers", stage != "fillers"]
    assert (sharded / "config.json").read_bytes() == (whole / "config.json").read_bytes()


def test_what_is_read_of_them_is_what_is_read_of_the_run(whole: Path, sharded: Path) -> None:
    ours, theirs = RunStore(sharded), RunStore(whole)
    assert ours.users() == theirs.users()
    assert list(ours.read("sessions", Session)) == list(theirs.read("sessions", Session))
    assert list(ours.read("fillers", Filler)) == list(theirs.read("fillers", Filler))


def test_one_command_makes_the_same_and_another_finds_them_there(sharded: Path, tmp_path: Path) -> None:
    made = list(make_shards(work(), tmp_path / "run", 3))
    assert contents(tmp_path / "run") == contents(sharded)
    again = list(make_shards(work(), tmp_path / "run", 3))
    assert [shard.is_new for shard in made + again] == [True] * 3 + [False] * 3
    assert [shard.generated.counts for shard in again] == [shard.generated.counts for shard in made]
    assert contents(tmp_path / "run") == contents(sharded)


def test_a_shard_that_was_stopped_is_resumed(copy: Path, sharded: Path) -> None:
    store = shard(copy, 2)
    (store.folder / DONE).unlink()
    cut_from_persona(store.path("sessions"), 4)
    store.drop("questions")
    assert make_shard(work(), copy, Shard(2, 3)).is_new
    assert contents(copy) == contents(sharded)


def test_a_shard_that_was_changed_is_mended(copy: Path, sharded: Path) -> None:
    shard(copy, 3).drop("questions")
    assert make_shard(work(), copy, Shard(3, 3)).is_new
    assert contents(copy) == contents(sharded)


def test_a_shard_whose_items_failed_is_finished_but_they_are_asked_for_again(copy: Path, sharded: Path) -> None:
    shard(copy, 1).add_failure(FailedItem(stage="questions", item="some", reason="none"))
    assert [failure.item for failure in RunStore(copy).failures()] == ["some"]
    assert make_shard(work(), copy, Shard(1, 3)).is_new
    assert RunStore(copy).failures() == []
    assert contents(copy) == contents(sharded)


def test_a_shard_that_is_stopped_is_not_finished(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shard(copy, 3).drop("questions")
    append = RunStore.append
    lines: Iterator[int] = iter(range(3))

    def stopped(store: RunStore, stage: str, record: Record) -> None:
        if next(lines, None) is None:
            raise KeyboardInterrupt
        append(store, stage, record)

    monkeypatch.setattr(RunStore, "append", stopped)
    with pytest.raises(KeyboardInterrupt):
        make_shard(work(), copy, Shard(3, 3))
    with pytest.raises(UserError, match=r"not finished: 3"):
        RunStore(copy).parts()


def test_shards_of_another_configuration_or_count_are_refused(copy: Path) -> None:
    with pytest.raises(UserError, match=r"another configuration: seed: 7 there, 8 now"):
        make_shard(sparse_work(first_persona=2, personas=5, seed=8), copy, Shard(1, 3))
    with pytest.raises(UserError, match="is made in 3 shards, and not in 4") as raised:
        make_shard(work(), copy, Shard(1, 4))
    assert "give 3" in raised.value.hint


def test_a_run_is_in_shards_or_not(copy: Path, whole: Path) -> None:
    with pytest.raises(UserError, match="holds a run in shards") as raised:
        make_run(work(), copy)
    assert "--shards 3" in raised.value.hint
    with pytest.raises(UserError, match="not in shards"):
        make_shard(work(), whole, Shard(1, 3))


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("long work")
    with pytest.raises(UserError, match="exists and is not a run"):
        make_shard(work(), tmp_path, Shard(1, 3))
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


# --- the command


CONFIG = """
seed: 7
personas: 2
topics: [writing]
items_per_topic: 3
slots_per_topic: 1
facts_per_topic: 1
updates_per_topic: 2
turns_per_session: {min: 6, max: 7}
fillers: 2
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a configuration in it."""
    (tmp_path / "mine.yaml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_command_makes_a_shard_or_all_and_says_what_is_left(here: Path) -> None:
    first = personamem("generate", "mine.yaml", "--shard", "2/2")
    folder = "runs/mine/shards/00002-of-00002"
    assert first.out == f"{folder}: 1 personas, 1 histories, 4 sessions, 7 questions, 0 fillers\n"
    assert first.err == "note: 1 of 2 shards finished\n"
    fails(personamem("assemble", "runs/mine"), "runs/mine lacks some of its 2 shards (missing: 1)")
    rest = personamem("generate", "mine.yaml", "--shards", "2")
    assert rest.out == "runs/mine: 2 personas, 2 histories, 8 sessions, 14 questions, 2 fillers\n"
    lines = rest.err.splitlines()
    assert lines[:2] == ["runs/mine/shards/00001-of-00002: made", "runs/mine/shards/00002-of-00002: was there"]
    assert "(persona 0), writing" in typed(lines[-1]).out
    last = personamem("generate", "mine.yaml", "--shard", "2/2")
    assert (last.out, last.err) == (first.out, "next: personamem assemble runs/mine\n")


def test_an_estimate_of_a_shard_is_of_its_users(here: Path) -> None:
    flags = [[], ["--shard", "1/2"], ["--shard", "2/2"]]
    texts = [personamem("generate", "mine.yaml", "--estimate", "--json", *own).out for own in flags]
    calls = [{entry["template"]: entry["calls"] for entry in json.loads(text)} for text in texts]
    assert [one["persona"] for one in calls] == [2, 1, 1]
    assert [one.get("filler", 0) for one in calls] == [2, 2, 0]
    assert not (here / "runs").exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--shard", "3/2"], "--shard '3/2' names no shard"),
        (["--shard", "1/3"], "3 shards are more than there are users (2)"),
        (["--shards", "3"], "3 shards are more than there are users (2)"),
    ],
)
def test_impossible_shards_are_an_error(here: Path, flags: list[str], message: str) -> None:
    fails(personamem("generate", "mine.yaml", *flags), message)
    assert not (here / "runs").exists()


def test_one_shard_and_all_at_once_is_a_usage_error(here: Path) -> None:
    outcome = personamem("generate", "mine.yaml", "--shard", "1/2", "--shards", "2")
    assert outcome.exit_code == 2
    assert "--shard for one shard, or --shards for all" in outcome.err
