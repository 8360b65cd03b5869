from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import pytest
from command_line import Run, fails, personamem, typed
from small_runs import contents

from generation.store import RunStore
from personamem_builder.assemble.assemble import assemble
from personamem_builder.assemble.sizes import chosen_sizes
from personamem_builder.build.from_run import build


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `personamem export` in a folder of its own."""
    folder = tmp_path / "current"
    folder.mkdir()
    monkeypatch.chdir(folder)

    return partial(personamem, "export")


def test_it_says_what_it_made_and_what_to_type_next(run: Run, dataset_folder: Path) -> None:
    outcome = run(dataset_folder, "--out", "release")
    assert outcome == (
        0,
        "32k: 17 questions, 2 contexts\nrelease/questions_32k.csv, release/shared_contexts_32k.jsonl\n",
        "next: personamem import-official release --out imported\n",
    )
    following = typed(outcome.err)
    assert following.exit_code == 0
    assert "32k: 17 questions, 2 contexts, 0 mismatches" in following.out


def test_the_folder_is_personamem_unless_told_otherwise(
    run: Run, dataset_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(dataset_folder, "personamem")
    assert run("--out", "a", "--split", "32k").exit_code == 0
    shutil.rmtree("personamem")
    assert run("--out", "b").err.startswith("error: no dataset: ")
    monkeypatch.setenv("PERSONAMEM_DATA", str(dataset_folder))
    assert run("--out", "b").exit_code == 0
    assert contents(Path("a")) == contents(Path("b"))


def test_every_flag_can_be_set_in_the_environment(
    run: Run, dataset_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERSONAMEM_EXPORT_OUT", "from-environment")
    assert run(dataset_folder).exit_code == 0
    assert Path("from-environment/questions_32k.csv").is_file()
    monkeypatch.setenv("PERSONAMEM_EXPORT_SPLIT", "32k 1M")
    assert "has no split '1M'" in run(dataset_folder).err


def test_a_folder_that_is_no_dataset_is_an_error(run: Run) -> None:
    fails(run("nowhere", "--out", "release"), "nowhere is not a personamem dataset folder", "make one: personamem ")
    assert list(Path().iterdir()) == []


def test_a_split_that_is_not_there_is_an_error(run: Run, dataset_folder: Path) -> None:
    outcome = run(dataset_folder, "--out", "release", "--split", "1M")
    fails(outcome, f"{dataset_folder} has no split '1M', it has 32k", "choose one of these")
    assert list(Path().iterdir()) == []


def test_the_folder_of_the_dataset_is_not_written_into(run: Run, dataset_folder: Path) -> None:
    before = contents(dataset_folder)
    fails(run(dataset_folder, "--out", dataset_folder), f"{dataset_folder} holds something other", "choose another")
    assert list(Path().iterdir()) == []
    assert contents(dataset_folder) == before


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "Missing option '--out'"),
        (["--out", "x", "--format", "csv"], "No such option"),
        (["--aut"], "No such option"),
    ],
)
def test_a_wrong_flag_is_a_usage_error(run: Run, dataset_folder: Path, arguments: list[str], complaint: str) -> None:
    outcome = run(dataset_folder, *arguments)
    assert outcome.exit_code == 2
    assert complaint in outcome.err


def test_the_help_shows_an_example() -> None:
    assert "\n  personamem export personamem --out release\n" in personamem("export", "--help").out


def test_a_split_that_import_official_does_not_read_is_noted(run: Run, tiny_run: Path, tmp_path: Path) -> None:
    store = RunStore(Path(shutil.copytree(tiny_run, tmp_path / "run")))
    assemble(store, chosen_sizes([], "3", None), 1, 1)
    build(store, tmp_path / "personamem")
    outcome = run(tmp_path / "personamem", "--out", "release")
    assert outcome.exit_code == 0
    assert outcome.err == "note: import-official reads 32k, 128k, 1M, and not 3blocks\n"
    assert [path.name for path in sorted(Path("release").iterdir())] == [
        "questions_3blocks.csv",
        "shared_contexts_3blocks.jsonl",
    ]
