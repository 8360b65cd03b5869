"""The scripts of `examples/scale`: they parse, say what they need, and call commands that exist."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_readme_commands import check_click, check_lm_eval

FOLDER = Path(__file__).parents[1] / "examples" / "scale"
SHELL = sorted(FOLDER.glob("*.sh"))

needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a `personamem` before all others that only notes its arguments, and other commands that do nothing."""
    notes = tmp_path / "told"
    for name, lines in {
        "personamem": f"printf '%s\\t' \"$@\" >> {notes}; echo >> {notes}",
        "vllm": "sleep 60",
        "curl": ":",
    }.items():
        command = tmp_path / "bin" / name
        command.parent.mkdir(exist_ok=True)
        command.write_text(f"#!/bin/sh\n{lines}\n", encoding="utf-8")
        command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    return notes


def run(script: str, *arguments: str, **env: str) -> None:
    done = subprocess.run(
        ["bash", FOLDER / script, *arguments], env=os.environ | env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def commands(told: Path) -> list[list[str]]:
    return [line.split("\t")[:-1] for line in told.read_text("utf-8").splitlines()]


def check(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    if arguments[0] == "eval":
        check_lm_eval(arguments[1:], monkeypatch)
    else:
        check_click(arguments, in_sentence=False)


def test_there_are_scripts() -> None:
    assert {path.name for path in FOLDER.iterdir() if path.is_file()} == {"slurm.sh", "vllm.sh", "ray_eval.py"}


@needs_bash
@pytest.mark.parametrize("script", SHELL, ids=lambda path: path.name)
def test_shell_scripts_parse(script: Path) -> None:
    done = subprocess.run(["bash", "-n", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert os.access(script, os.X_OK)


@pytest.mark.parametrize("script", [*SHELL, FOLDER / "ray_eval.py"], ids=lambda path: path.name)
def test_a_script_says_what_it_needs_and_where_it_was_not_run(script: Path) -> None:
    head = script.read_text("utf-8").partition("set -euo")[0].partition("import argparse")[0].replace("\n# ", " ")
    assert "Needs: " in head
    assert "ot run " in head
    assert " yet" in head


@needs_bash
def test_the_steps_of_the_job_array_are_commands(told: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    array = {"SLURM_ARRAY_TASK_ID": "3", "SLURM_ARRAY_TASK_COUNT": "16"}
    run("slurm.sh", "generate", **array)
    run("slurm.sh", "eval", **array)
    run("slurm.sh", "eval", **array, PARTS="20")
    for step in ("build", "merge"):
        run("slurm.sh", step)
    (generate, first, second, *others) = commands(told)
    assert generate[-2:] == first[-2:] == ["--shard", "3/16"]
    assert second[-2:] == ["--shard", "3/20"]
    assert [words[0] for words in others] == ["assemble", "build", "merge", "report"]
    for words in (first, second, *others):
        check(words, monkeypatch)


@needs_bash
def test_the_server_is_stopped_after_its_questions(told: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("vllm.sh", "3/8", MODEL="org/model", PORT="8123")
    (words,) = commands(told)
    assert words[-2:] == ["--shard", "3/8"]
    assert "base_url=http://127.0.0.1:8123/v1/chat/completions" in words[words.index("--model_args") + 1]
    check(words, monkeypatch)


def test_the_ray_script_starts() -> None:
    pytest.importorskip("ray", reason="ray is not installed")
    done = subprocess.run(
        [sys.executable, FOLDER / "ray_eval.py", "--help"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "--parts N" in done.stdout or "--parts PARTS" in done.stdout
