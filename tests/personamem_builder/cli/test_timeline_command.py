from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner
from small_runs import make_run, tiny_work

from generation.records import Persona
from generation.resources import install_hint
from generation.store import RunStore
from personamem_builder.cli import cli, main


class Outcome(NamedTuple):
    exit_code: int
    out: str
    err: str


Run = Callable[..., Outcome]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of `examples/tiny.yaml`; tests leave it as it is."""
    return make_run(tiny_work(), tmp_path_factory.mktemp("tiny") / "run").folder


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `personamem timeline` in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def run_main(*arguments: str | Path) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["personamem", "timeline", *map(str, arguments)])
        with pytest.raises(SystemExit) as exited:
            main()
        return Outcome(exited.value.code or 0, *capsys.readouterr())  # type: ignore[arg-type]

    return run_main


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


def fails(outcome: Outcome, message: str, hint: str) -> None:
    assert outcome.exit_code == 1
    assert outcome.err.splitlines()[-2].startswith(f"error: {message}")
    assert outcome.err.splitlines()[-1].startswith(f"hint: {hint}")
    assert "Traceback" not in outcome.err


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
    fails(outcome, "picture.jpg: a picture ends in .svg or .png", "give such a name to --out")


def test_without_matplotlib_the_text_is_still_shown(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    outcome = run(folder, "--topic", "writing", "--out", "picture.svg")
    assert "(persona 0), writing" in outcome.out
    fails(outcome, "drawing needs matplotlib", install_hint("plots"))


def test_an_interrupted_run_says_to_finish_it(run: Run, tmp_path: Path) -> None:
    store = RunStore.open(tmp_path / "run", tiny_work().fingerprint())
    fails(run(store.folder, "--topic", "writing"), f"{store.path('personas')}: No such file", "finish the run")


def test_every_flag_can_be_set_in_the_environment(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERSONAMEM_TIMELINE_TOPIC", "writing")
    monkeypatch.setenv("PERSONAMEM_TIMELINE_PERSONA", "1")
    assert "(persona 1), writing\n" in run(folder).out


def test_the_help_shows_an_example() -> None:
    result = CliRunner().invoke(cli, ["timeline", "--help"])
    assert result.exit_code == 0
    assert re.search(r"^  personamem timeline runs/full .*--topic travelPlanning", result.output, re.MULTILINE)
    assert "[default: 0]" in result.output


def test_the_run_is_left_as_it_was(run: Run, folder: Path) -> None:
    config = (folder / "config.json").read_text()
    run(folder, "--topic", "writing")
    assert json.loads(config) == tiny_work().fingerprint()
    assert sorted(path.name for path in folder.iterdir()) == [".lock", "config.json", "stages"]
