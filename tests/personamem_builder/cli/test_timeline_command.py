from __future__ import annotations

import json
import re
import sys
from functools import partial
from pathlib import Path

import pytest
from command_line import Run, fails, personamem
from small_runs import tiny_work

from generation.records import Persona
from generation.resources import install_hint
from generation.store import RunStore


@pytest.fixture
def folder(tiny_run: Path) -> Path:
    return tiny_run


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `personamem timeline` in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    return partial(personamem, "timeline")


def test_the_text_goes_to_stdout(run: Run, folder: Path, tmp_path: Path) -> None:
    outcome = run(folder, "--topic", "writing")
    name = next(RunStore(folder).read("personas", Persona)).name
    assert outcome.exit_code == 0
    assert outcome.out.startswith(f"{name} (persona 0), writing\n  session 1: ")
    assert ", because " in outcome.out
    assert outcome.err == ""
    assert list(tmp_path.iterdir()) == []


def test_another_persona_can_be_chosen(run: Run, folder: Path) -> None:
    first, second = (p.name for p in RunStore(folder).read("personas", Persona))
    assert first != second
    assert run(folder, "--topic", "writing", "--persona", "1").out.startswith(f"{second} (persona 1), writing\n")


@pytest.mark.parametrize("name", ["picture.svg", "picture.png"])
def test_a_picture_is_written_as_well(run: Run, folder: Path, tmp_path: Path, name: str) -> None:
    outcome = run(folder, "--topic", "writing", "--out", name)
    assert outcome.exit_code == 0
    assert outcome.out == run(folder, "--topic", "writing").out
    assert f"wrote {name}\n" in outcome.err
    assert (tmp_path / name).stat().st_size > 10_000


def test_a_topic_that_the_run_lacks_is_an_error(run: Run, folder: Path) -> None:
    fails(run(folder, "--topic", "chess"), "persona 0 has no topic 'chess'", "its topics are ")


@pytest.mark.parametrize("number", ["2", "-1"])
def test_a_persona_that_the_run_lacks_is_an_error(run: Run, folder: Path, number: str) -> None:
    outcome = run(folder, "--topic", "writing", "--persona", number)
    fails(outcome, f"{folder} has no persona {number}", "personas are numbered from 0")


def test_a_folder_without_a_run_is_an_error(run: Run, tmp_path: Path) -> None:
    fails(run(tmp_path / "nowhere", "--topic", "writing"), f"{tmp_path / 'nowhere'} is no run", "make one: personamem")


def test_another_ending_is_an_error(run: Run, folder: Path) -> None:
    outcome = run(folder, "--topic", "writing", "--out", "picture.jpg")
    fails(outcome._replace(out=""), "picture.jpg: a picture ends in .svg or .png", "give such a name to --out")


def test_without_matplotlib_the_text_is_still_shown(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    outcome = run(folder, "--topic", "writing", "--out", "picture.svg")
    assert "(persona 0), writing" in outcome.out
    fails(outcome._replace(out=""), "drawing needs matplotlib", install_hint("plots"))


def test_an_interrupted_run_says_to_finish_it(run: Run, tmp_path: Path) -> None:
    store = RunStore.open(tmp_path / "run", tiny_work().fingerprint())
    fails(run(store.folder, "--topic", "writing"), f"{store.path('personas')}: No such file", "finish the run")


def test_every_flag_can_be_set_in_the_environment(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERSONAMEM_TIMELINE_TOPIC", "writing")
    monkeypatch.setenv("PERSONAMEM_TIMELINE_PERSONA", "1")
    assert "(persona 1), writing\n" in run(folder).out


def test_the_help_shows_an_example() -> None:
    result = personamem("timeline", "--help")
    assert result.exit_code == 0
    assert re.search(r"^  personamem timeline runs/full .*--topic travelPlanning", result.out, re.MULTILINE)
    assert "[default: 0]" in result.out


def test_the_run_is_left_as_it_was(run: Run, folder: Path) -> None:
    config = (folder / "config.json").read_text()
    run(folder, "--topic", "writing")
    assert json.loads(config) == tiny_work().fingerprint()
    assert sorted(path.name for path in folder.iterdir()) == [".lock", "config.json", "stages"]
