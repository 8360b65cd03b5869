"""What all commands share: signals, readers that go away, full disks, keys that nobody may see."""

from __future__ import annotations

import errno
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import personamem, started
from loopback_llm import LoopbackLLM, Reply
from scripted_model import replies_of
from small_runs import CLI, TINY, contents, tiny_work

from generation.config import LLMConfig
from generation.run_lock import writing_to
from generation.store import RunStore
from personamem_builder.cli import _COMMANDS

ROOT = Path(__file__).parents[3]
KEPT = "interrupted: what was finished is kept in run; rerun the command to resume\n"

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals")


@pytest.fixture(scope="module")
def longer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A configuration whose run lasts long enough to be interrupted."""
    path = tmp_path_factory.mktemp("longer") / "longer.yaml"
    path.write_text(TINY.read_text().replace("personas: 2", "personas: 12"))
    return path


def is_writing(folder: Path) -> Callable[[], bool]:
    sessions = folder / "run" / "stages" / "sessions.jsonl"
    return lambda: sessions.exists() and sessions.stat().st_size > 0


# --- signals


@pytest.mark.parametrize(
    ("number", "workers", "to_group"),
    [
        (signal.SIGTERM, "1", True),
        *(
            pytest.param(*rest, marks=pytest.mark.slow)
            for rest in (
                (signal.SIGINT, "1", True),
                (signal.SIGINT, "2", True),
                (signal.SIGTERM, "2", True),
                *((number, workers, False) for number in (signal.SIGINT, signal.SIGTERM) for workers in ("1", "2")),
            )
        ),
    ],
)
def test_a_run_that_is_interrupted_says_what_is_kept(
    longer: Path, tmp_path: Path, number: int, workers: str, to_group: bool
) -> None:
    with started(tmp_path, "generate", longer, "--out", "run", "--workers", workers) as command:
        command.wait_for(is_writing(tmp_path))
        command.send(number, to_group=to_group)
        assert command.ends() == (128 + number, "", KEPT)
        assert command.leaves_nobody()
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names == {".lock", "config.json", "stages"}
    with writing_to(tmp_path / "run"):
        pass  # it is not locked


@pytest.mark.slow
def test_workers_that_are_starting_are_silent_too(longer: Path, tmp_path: Path) -> None:
    with started(tmp_path, "generate", longer, "--out", "run", "--workers", "2") as command:
        command.wait_for(lambda: (tmp_path / "run" / ".lock.json").exists())
        time.sleep(0.1)
        command.send(signal.SIGINT, to_group=True)
        assert command.ends() == (130, "", KEPT)
        assert command.leaves_nobody()


@pytest.mark.slow
def test_a_second_interruption_changes_nothing_but_the_time(longer: Path, tmp_path: Path) -> None:
    with started(tmp_path, "generate", longer, "--out", "run", "--workers", "2") as command:
        command.wait_for(is_writing(tmp_path))
        for _ in range(2):
            command.send(signal.SIGINT, to_group=True)
            time.sleep(0.02)
        status, out, err = command.ends()
        assert (status, out) == (130, "")
        assert err.count("interrupted: ") == 1
        assert "Traceback" not in err
        assert "Aborted" not in err
        assert command.leaves_nobody()


@pytest.mark.slow
def test_an_interruption_does_not_wait_for_a_model_that_says_nothing(tmp_path: Path) -> None:
    with LoopbackLLM(lambda body: Reply("late", delay=300)) as server:
        env = {"OPENAI_API_KEY": "sk-nobody-may-see-this", "OPENAI_BASE_URL": server.base_url}
        arguments = ("generate", TINY, "--out", "run", "--backend", "openai:parrot")
        with started(tmp_path, *arguments, **env) as command:
            command.wait_for(lambda: bool(server.requests))
            command.send(signal.SIGINT, to_group=True)
            status, out, err = command.ends(20)
        assert (status, out) == (130, "")
        assert err.endswith(KEPT)
        assert "Traceback" not in err


def test_a_command_that_writes_nothing_says_so(longer: Path, tmp_path: Path) -> None:
    fifo = tmp_path / "config.yaml"
    os.mkfifo(fifo)  # it waits here until somebody writes
    with started(tmp_path, "generate", fifo, "--preview") as command:
        opened = os.open(fifo, os.O_WRONLY)
        time.sleep(0.5)  # a signal on the last step before the read would not end the read: Python looks for it after
        command.send(signal.SIGINT, to_group=True)
        assert command.ends() == (130, "", "interrupted: nothing was written\n")
        os.close(opened)


# --- two at a time


@pytest.mark.slow
def test_of_two_runs_in_one_folder_one_is_refused_and_nothing_is_paid_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "one.yaml"
    config.write_text(TINY.read_text().replace("personas: 2", "personas: 1").replace("fillers: 60", "fillers: 4"))
    good = replies_of(tiny_work(personas=1, fillers=4, llm=LLMConfig())._replace(backend="openai:parrot"))
    with LoopbackLLM(lambda body: Reply(good[str(body["messages"][0]["content"])], delay=0.05)) as server:
        env = {"OPENAI_API_KEY": "sk-nobody-may-see-this", "OPENAI_BASE_URL": server.base_url}
        arguments = ("generate", config, "--out", "run", "--backend", "openai:parrot")
        with started(tmp_path, *arguments, **env) as first, started(tmp_path, *arguments, **env) as second:
            ends = sorted([(*first.ends(120), first.process.pid), (*second.ends(120), second.process.pid)])
        assert [status for status, *_ in ends] == [0, 1]
        assert f"error: run is being written by process {ends[0][3]} on " in ends[1][2]
        paid = len(server.requests)
        prompts = {json.dumps(request.body, sort_keys=True) for request in server.requests}
        assert paid == len(prompts)
        monkeypatch.chdir(tmp_path)
        assert personamem(*arguments, **env).exit_code == 0
        assert len(server.requests) == paid


@pytest.mark.parametrize(
    "command", [("assemble", "RUN", "--n-blocks", "3"), ("refine", "RUN", "--rounds", "0"), ("build", "RUN")]
)
def test_every_command_that_needs_the_run_to_itself_is_refused(
    tiny_run: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    folder = Path(shutil.copytree(tiny_run, tmp_path / "run"))
    store = RunStore(folder)
    hold = "import sys; from pathlib import Path; from generation.run_lock import writing_to\n"
    hold += "with writing_to(Path(sys.argv[1])): print(1, flush=True); sys.stdin.read()"
    holder = subprocess.Popen(
        [sys.executable, "-c", hold, str(folder)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        before = contents(folder)
        outcome = personamem(*(folder if word == "RUN" else word for word in command))
        holder.kill()
    assert outcome.exit_code == 1
    assert f"being written by process {holder.pid} on " in outcome.err
    assert contents(folder) == before
    store.refuse_while_written()


# --- what is printed


def test_the_help_lists_all_commands() -> None:
    shown = personamem("--help").out
    assert [name for name in _COMMANDS if f"\n  {name} " not in shown] == []


def test_a_reader_that_goes_away_is_no_error_with_a_traceback(tmp_path: Path) -> None:
    script = f'{shlex.quote(sys.executable)} -c "{CLI}" --help | head -1'
    done = subprocess.run(
        ["bash", "-c", script],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.startswith("Usage")
    assert done.stderr == ""


def test_no_output_shows_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "hx-51e0c4d2b7"
    monkeypatch.setenv("SOME_API_KEY", secret)
    config = tmp_path / "mine.yaml"
    config.write_text(TINY.read_text().replace("writing", secret))
    outcome = personamem("generate", config, "--out", tmp_path / "run")
    assert outcome.exit_code == 1
    assert "there is no bank '[redacted]'" in outcome.err
    assert secret not in outcome.out + outcome.err


def test_no_traceback_shows_a_key(tmp_path: Path) -> None:
    code = "import generation.config as c, personamem_builder.cli.generate as g\n"
    code += "def fail(path): raise ValueError('bug with hx-51e0c4d2b7')\n"
    code += f"g.load_config = fail\n{CLI}"
    done = subprocess.run(
        [sys.executable, "-c", code, "generate", str(TINY)],
        env=os.environ | {"PYTHONPATH": str(ROOT), "SOME_API_KEY": "hx-51e0c4d2b7"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert "ValueError: bug with [redacted]" in done.stderr
    assert "hx-51e0c4d2b7" not in done.stderr


def test_a_full_disk_is_one_clear_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def full(*arguments: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "some/file")

    monkeypatch.setattr(RunStore, "open", full)
    outcome = personamem("generate", TINY, "--out", tmp_path / "run")
    assert outcome.exit_code == 1
    assert outcome.err.startswith("error: some/file: the disk is full\nhint: free some space")


# --- what is refused leaves nothing behind


@pytest.mark.parametrize("budget", ["nan", "inf", "-inf", "0", "-1", "1e400"])
def test_a_budget_that_is_none_makes_no_folder(tmp_path: Path, budget: str) -> None:
    outcome = personamem("generate", TINY, "--out", tmp_path / "run", f"--budget={budget}")
    assert outcome.exit_code == 1
    assert "--budget must be above 0, and finite" in outcome.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("command", "option", "values"),
    [
        ("generate", "--workers", ["0", "257", "100000", "9" * 5_000, "x", "1.5"]),
        ("assemble", "--workers", ["0", "257"]),
        ("assemble", "--n-variants", ["0", "1001"]),
        ("assemble", "--max-tokens", ["0", "1000000001"]),
        ("build", "--workers", ["0", "257"]),
        ("refine", "--rounds", ["-1", "101"]),
    ],
)
def test_numbers_out_of_range_are_refused_with_the_range(
    tmp_path: Path, command: str, option: str, values: list[str]
) -> None:
    for value in values:
        outcome = personamem(command, tmp_path / "run", f"{option}={value}")
        assert outcome.exit_code == 2
        assert f"Invalid value for '{option}'" in outcome.err
    assert not list(tmp_path.iterdir())
