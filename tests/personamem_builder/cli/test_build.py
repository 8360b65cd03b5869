from __future__ import annotations

import re
import shutil
from functools import partial
from pathlib import Path

import pytest
from command_line import Run, fails, personamem
from small_leaks import plant
from small_runs import contents

from generation.store import RunStore
from personamem_builder.assemble.assemble import assemble
from personamem_builder.assemble.sizes import chosen_sizes
from personamem_builder.manifest import read_manifest


@pytest.fixture(scope="module")
def tiny(tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = RunStore(Path(shutil.copytree(tiny_run, tmp_path_factory.mktemp("tiny") / "run")))
    assemble(store, chosen_sizes(("32k",), None, None), 2)
    assemble(store, chosen_sizes((), "12", None), 1)
    return store.folder


@pytest.fixture
def run(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `personamem build` in a folder that holds the assembled run `tiny`."""
    shutil.copytree(tiny, tmp_path / "tiny")
    monkeypatch.chdir(tmp_path)

    return partial(personamem, "build")


def test_it_says_what_it_made_and_what_to_type_next(run: Run) -> None:
    outcome = run("tiny")
    assert outcome.exit_code == 0
    manifest = read_manifest(Path("personamem"))
    *made, audited = outcome.out.splitlines()
    assert made == [
        f"32k: {manifest['splits']['32k']['questions']} questions, 4 contexts",
        f"12blocks: {manifest['splits']['12blocks']['questions']} questions, 2 contexts",
        f"personamem: digest {manifest['digest']}",
    ]
    assert re.fullmatch(r"audit: (all \d+ limits are met|[1-9]\d* of \d+ limits are missed)", audited)
    assert ("note: what the audit found" in outcome.err) == audited.endswith("missed")
    assert outcome.err.splitlines()[-1] == (
        "next: personamem eval --tasks personamem_32k --model personamem-floor --model_args policy=longest"
    )


def test_it_says_how_many_limits_a_leak_misses(run: Run) -> None:
    store = plant(RunStore(Path("tiny")))
    assemble(store, chosen_sizes(("32k",), None, None), 2)
    outcome = run("tiny", "--split", "32k")
    assert outcome.exit_code == 0
    assert re.search(r"^audit: [1-9]\d* of \d+ limits are missed$", outcome.out, re.MULTILINE)
    assert "note: what the audit found: personamem audit personamem" in outcome.err


def test_one_split_into_another_folder(run: Run) -> None:
    outcome = run("tiny", "--split", "32k", "--out", "some/where")
    assert outcome.exit_code == 0
    assert list(read_manifest(Path("some/where"))["splits"]) == ["32k"]
    assert not Path("personamem").exists()
    assert "some/where" in outcome.err.splitlines()[-1], "the next command must find it"


def test_what_it_says_to_type_next_names_a_task_that_exists(run: Run) -> None:
    """There are tasks for the splits of the paper only."""
    assert "personamem_12blocks" not in run("tiny", "--split", "12blocks").err


@pytest.mark.slow
def test_building_twice_is_the_same_and_needs_no_leave(run: Run) -> None:
    assert run("tiny").exit_code == 0
    before = contents(Path("personamem"))
    assert {"audit.json", "README.md"} <= set(before)
    assert run("tiny").exit_code == 0
    assert contents(Path("personamem")) == before


def test_a_dataset_of_another_build_is_replaced_only_when_told(run: Run) -> None:
    run("tiny")
    before = contents(Path("personamem"))
    assemble(RunStore(Path("tiny")), chosen_sizes(("32k",), None, None), 1)
    fails(run("tiny"), "personamem was built from something else", "give another --out, or --replace it")
    assert contents(Path("personamem")) == before
    assert re.match(r"32k: \d+ questions, 2 contexts\n", run("tiny", "--replace").out)


def test_a_folder_that_is_no_dataset(run: Run) -> None:
    Path("mine").mkdir()
    Path("mine/thesis.tex").write_text("years of work")
    for flags in ([], ["--replace"]):
        fails(run("tiny", "--out", "mine", *flags), "mine exists and is not a personamem dataset folder", "choose ano")
    assert contents(Path("mine")) == {"thesis.tex": b"years of work"}


def test_a_split_that_was_not_assembled(run: Run) -> None:
    for split in ("128k", "64k"):
        fails(run("tiny", "--split", split), f"tiny has no split '{split}'", "")
    assert not Path("personamem").exists()


def test_a_run_without_splits_and_what_is_no_run(run: Run) -> None:
    shutil.rmtree("tiny/splits")
    fails(run("tiny"), "tiny has no splits", "make some: personamem assemble tiny")
    fails(run("absent"), "absent is not a run", "make one: personamem generate")
    assert not Path("personamem").exists()


def test_a_run_that_was_changed_by_hand(run: Run) -> None:
    path = Path("tiny/stages/sessions.jsonl")
    path.write_bytes(path.read_bytes().replace(b"1", b"2", 1))
    fails(
        run("tiny"), "tiny/stages/sessions.jsonl is not what the split", "assemble it again: personamem assemble tiny"
    )
    assert not Path("personamem").exists()
