"""One process at a time writes to a run folder; the others are told who does."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from generation import run_lock
from generation.errors import UserError
from generation.run_lock import HOLDER, LOCK, refuse_while_written, writing_to

ROOT = Path(__file__).parents[2]

HOLD = """
import sys
from pathlib import Path
from generation.run_lock import writing_to
with writing_to(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def held_by_another(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Hold the lock of a folder in another process."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        try:
            yield holder
        finally:
            holder.kill()


@pytest.fixture(autouse=True)
def _short_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_lock, "_WAIT_SECONDS", 0.1)


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder that another process writes to."""
    folder = tmp_path_factory.mktemp("held")
    with held_by_another(folder):
        yield folder


def refusal(folder: Path) -> str:
    with pytest.raises(UserError) as caught, writing_to(folder):
        pass
    return caught.value.message


def test_the_second_is_told_who_holds_it(tmp_path: Path) -> None:
    with held_by_another(tmp_path) as holder:
        message = refusal(tmp_path)
        assert message.startswith(
            f"{tmp_path} is being written by process {holder.pid} on {socket.gethostname()} since 2"
        )
        with pytest.raises(UserError, match=f"process {holder.pid} "):
            refuse_while_written(tmp_path)


def test_it_is_free_again_when_the_block_ends_however_it_ends(tmp_path: Path) -> None:
    def fail() -> None:
        with writing_to(tmp_path):
            assert json.loads((tmp_path / HOLDER).read_text())["pid"] == os.getpid()
            raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        fail()
    with writing_to(tmp_path):
        pass
    refuse_while_written(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {LOCK: b""}


def test_it_is_free_again_when_its_holder_was_killed(tmp_path: Path) -> None:
    with held_by_another(tmp_path) as holder:
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        assert (tmp_path / HOLDER).exists(), "the text of a killed process stays"
        with writing_to(tmp_path):
            assert json.loads((tmp_path / HOLDER).read_text())["pid"] == os.getpid()


@pytest.mark.parametrize(
    "text", ["", "{", "null", "[]", '{"pid": "x"}', '{"pid": 99999999999999999999}', "\udcff", "[" * 10_000]
)
def test_a_text_that_says_nothing_misleads_nobody(held: Path, text: str) -> None:
    (held / HOLDER).write_bytes(text.encode("utf-8", "surrogateescape"))
    assert refusal(held) == f"{held} is being written by another process"


def test_the_text_of_a_process_that_is_gone_is_not_taken_for_the_holder(tmp_path: Path) -> None:
    with held_by_another(tmp_path) as first:
        gone = (tmp_path / HOLDER).read_text()
        first.kill()
    with held_by_another(tmp_path) as second:
        (tmp_path / HOLDER).write_text(gone)
        message = refusal(tmp_path)
        assert str(first.pid) not in message
        assert message.endswith("by another process")
        second.kill()


def test_who_holds_it_on_another_computer_is_named(held: Path) -> None:
    holder = {"pid": 1, "host": "elsewhere", "since": "2026-01-02T03:04:05Z", "command": "personamem generate"}
    (held / HOLDER).write_text(json.dumps(holder))
    assert refusal(held).endswith("by process 1 on elsewhere since 2026-01-02 03:04:05 UTC: personamem generate")


def test_a_folder_that_cannot_be_locked_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / LOCK).mkdir()
    assert refusal(tmp_path).startswith(f"{tmp_path / LOCK} cannot be locked: ")
    assert [path.name for path in tmp_path.iterdir()] == [LOCK]
    refuse_while_written(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_can_be_read_and_not_written(tmp_path: Path) -> None:
    (tmp_path / LOCK).touch(0o400)
    tmp_path.chmod(0o500)
    try:
        assert "cannot be locked: Permission denied" in refusal(tmp_path)
        refuse_while_written(tmp_path)
    finally:
        tmp_path.chmod(0o700)


def test_a_lock_is_not_inherited_by_processes_that_outlive_it(tmp_path: Path) -> None:
    child = 'subprocess.Popen(["sleep", "30"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)'
    code = "import subprocess, sys\n" + HOLD.replace(
        '    print("held"', f'    print({child}.pid, flush=True)\n    print("held"'
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        input="",
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    try:
        with writing_to(tmp_path):
            pass
    finally:
        os.kill(int(done.stdout.split()[0]), signal.SIGKILL)
