"""A run in shards is assembled, built and audited as if it had none: the dataset is the same, byte for byte."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest
from command_line import fails, personamem
from small_runs import contents, make_run, sparse_work

from generation.records import Question
from generation.run_inputs import RunInputs
from generation.sharded_run import make_shards
from generation.shards import DONE
from generation.store import RunStore
from personamem_builder.assemble.assemble import assemble
from personamem_builder.assemble.sizes import chosen_sizes
from personamem_builder.assemble.splits import asked_questions
from personamem_builder.audit.inputs import read_splits
from personamem_builder.build.from_run import build


def work() -> RunInputs:
    return sparse_work(personas=3, topics=("writing",))


class Pair(NamedTuple):
    """The same run without shards and in three, both assembled and built."""

    whole: Path
    sharded: Path


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    pair = Pair(*(tmp_path_factory.mktemp(name) for name in Pair._fields))
    make_run(work(), pair.whole / "run")
    for _ in make_shards(work(), pair.sharded / "run", 3):
        pass
    for folder in pair:
        store = RunStore(folder / "run")
        assemble(store, chosen_sizes([], "2-3", None), 2, 1)
        build(store, folder / "personamem")
    return pair


@pytest.fixture
def sharded(pair: Pair, tmp_path: Path) -> RunStore:
    """A copy of the run in shards, to be changed."""
    return RunStore(Path(shutil.copytree(pair.sharded / "run", tmp_path / "run")))


def test_splits_and_dataset_are_the_same_byte_for_byte(pair: Pair) -> None:
    assert contents(pair.sharded / "run" / "splits") == contents(pair.whole / "run" / "splits")
    made = contents(pair.whole / "personamem")
    assert {"README.md", "manifest.json", "data/questions_2blocks.parquet"} <= set(made)
    assert contents(pair.sharded / "personamem") == made


@pytest.mark.slow
def test_workers_change_nothing(pair: Pair, sharded: RunStore, tmp_path: Path) -> None:
    assemble(sharded, chosen_sizes([], "2-3", None), 2, 2)
    build(sharded, tmp_path / "personamem", workers=2)
    assert contents(tmp_path / "personamem") == contents(pair.whole / "personamem")


@pytest.mark.parametrize("command", [["stats"], ["timeline", "--persona", "2", "--topic", "writing"]])
def test_what_commands_print_of_the_run_is_the_same(pair: Pair, command: list[str]) -> None:
    name, *flags = command
    ours, theirs = (personamem(name, folder / "run", *flags) for folder in (pair.sharded, pair.whole))
    assert ours.exit_code == 0
    assert ours == theirs


def test_the_audit_reads_the_same(pair: Pair) -> None:
    [ours], [theirs] = (read_splits(folder / "run") for folder in (pair.sharded, pair.whole))
    assert ours.rows == theirs.rows
    assert ours.contexts is not None
    assert theirs.contexts is not None
    assert list(ours.contexts()) == list(theirs.contexts())


def test_a_question_is_found_in_whatever_shard_it_is(pair: Pair) -> None:
    store = RunStore(pair.sharded / "run")
    made = [question.question_id for question in store.read("questions", Question)]
    asked = [row.question_id for row in asked_questions(store, "2blocks")]
    for question_id in (made[0], made[-1], asked[-1]):
        ours, theirs = (personamem("timeline", folder / "run", "--question", question_id[:12]) for folder in pair)
        assert f"question {question_id}" in ours.out
        assert ours == theirs


def test_a_shard_made_anew_with_other_records_is_noticed(sharded: RunStore) -> None:
    path = sharded.paths("questions")[2]
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    done = path.parents[1] / DONE
    said = json.loads(done.read_text())
    said["bytes"]["questions"] = path.stat().st_size
    done.write_text(json.dumps(said))
    fails(
        personamem("build", sharded.folder, "--out", sharded.folder.parent / "out"),
        f"{sharded.path('questions')} is not what the split 2blocks was assembled from",
    )


def test_a_shard_that_is_being_made_ends_every_command(sharded: RunStore) -> None:
    (sharded.paths("questions")[1].parents[1] / DONE).unlink()
    message = f"{sharded.folder} lacks some of its 3 shards (not finished: 2)"
    out = sharded.folder.parent / "out"
    for command in (
        ["assemble", sharded.folder, "--n-blocks", "2"],
        ["build", sharded.folder, "--out", out],
        ["audit", sharded.folder],
        ["stats", sharded.folder],
        ["timeline", sharded.folder, "--topic", "writing"],
    ):
        fails(personamem(*command), message, "make them with the same configuration")
    assert not out.exists()


def test_refine_says_why_it_needs_one_file_and_what_is_put_together_can_be_refined(
    pair: Pair, sharded: RunStore
) -> None:
    fails(personamem("refine", sharded.folder), f"{sharded.folder} is in shards", "put the shards together first")
    together = sharded.folder.parent / "together"
    (together / "stages").mkdir(parents=True)
    shutil.copy(sharded.folder / "config.json", together)
    for stage in ("personas", "histories", "sessions", "questions", "fillers"):
        parts = (path.read_bytes() for path in sharded.paths(stage))
        (together / "stages" / f"{stage}.jsonl").write_bytes(b"".join(parts))
    outcome = personamem("refine", together, "--rounds", "0")
    assert outcome.exit_code == 0, outcome.err
