"""Progress is shown for long work only, and never changes what is worked through."""

from __future__ import annotations

import io
import sys
import time
from typing import Any

import pytest
from tqdm import tqdm

from generation import progress


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that a test turns by hand."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_short_work_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(progress.track(range(1000), "counting")) == list(range(1000))
    assert capsys.readouterr().err == ""


def test_long_work_without_a_terminal_gets_a_line_now_and_then(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in progress.track(range(10), "counting"):
        clock[0] += 4
    assert capsys.readouterr().err == "counting: 4 of 10\ncounting: 7 of 10\ncounting: 10 of 10\n"


def test_long_work_on_a_terminal_gets_a_bar(
    clock: list[float], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    seen = []
    for item in progress.track(range(10), "counting"):
        clock[0] += 4
        seen.append(item)
    assert seen == list(range(10))
    assert "counting" in capsys.readouterr().err


# --- waiting


class Clock:
    def __init__(self) -> None:
        self.now = 1e9  # later than anything that was shown before

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(("terminal", "silent"), [(True, 10), (False, 60)])
def test_no_wait_is_silent_for_long(monkeypatch: pytest.MonkeyPatch, terminal: bool, silent: float) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)
    now = Clock()
    waiting = progress.Waiting("127.0.0.1:8080", now)
    assert not waiting.is_due()
    with waiting.call():
        assert not waiting.is_due()
        now.now += silent / 2
        assert not waiting.is_due()
        now.now += silent / 2 - 1
        assert waiting.is_due()
    assert not waiting.is_due()


def test_what_is_said_of_a_wait() -> None:
    now = Clock()
    waiting = progress.Waiting("host", now, lambda: "3 of 9 done")
    with waiting.call():
        assert waiting.line() == "waiting for host, 1 request under way, 3 of 9 done"
        waiting.retry(30)
        with waiting.call():
            assert waiting.line() == "waiting for host, 2 requests under way, 1 retry, next in 30 s, 3 of 9 done"
            now.now += 10
            waiting.retry(5)
            waiting.retry(50)
            assert waiting.line() == "waiting for host, 2 requests under way, 3 retries, next in 5 s, 3 of 9 done"
            now.now += 60
            assert waiting.line() == "waiting for host, 2 requests under way, 3 retries, 3 of 9 done"


def test_who_waits_says_so_again_and_again(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(progress, "_SILENT_SECONDS", {True: 0.1, False: 0.1})
    monkeypatch.setattr(progress, "_LOOK_SECONDS", 0.02)
    waiting = progress.Waiting("host")
    with waiting.call():
        waiting.retry(600)
        time.sleep(0.5)
    lines = capsys.readouterr().err.splitlines()
    assert 2 <= len(lines) <= 5
    assert set(lines) <= {f"waiting for host, 1 request under way, 1 retry, next in {left} s" for left in (599, 600)}


def test_a_bar_on_the_screen_says_enough(monkeypatch: pytest.MonkeyPatch, clock: list[float]) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    now = Clock()
    waiting = progress.Waiting("host", now)
    due = []
    with waiting.call():
        for _ in progress.track(range(5), "asking"):
            clock[0] += 4
            now.now += 100
            due.append(waiting.is_due())
        assert due[0]
        assert not any(due[2:])
        assert waiting.is_due()


# --- bars of other libraries, in files


class Written:
    """A stream for a file, with a clock, and the bars of tqdm in it."""

    def __init__(self) -> None:
        self.file = io.StringIO()
        self.now = 0.0
        self.stream = progress.BarsAsLines(self.file, lambda: self.now)

    def bar(self, states: int, seconds: float, **options: Any) -> None:
        with tqdm(total=states, file=self.stream, mininterval=0, miniters=1, **options) as bar:
            for _ in range(states):
                self.now += seconds
                bar.update()

    @property
    def lines(self) -> list[str]:
        return self.file.getvalue().splitlines()


def test_a_bar_that_is_done_soon_leaves_nothing() -> None:
    written = Written()
    written.bar(9, seconds=1)
    print("afterwards", file=written.stream)
    assert written.lines == ["afterwards"]


@pytest.mark.parametrize("leave", [True, False])
def test_a_long_bar_is_a_line_every_ten_seconds(leave: bool) -> None:
    written = Written()
    written.bar(40, seconds=1, desc="asking", leave=leave)
    assert 3 <= len(written.lines) <= 5
    assert all(line.startswith("asking: ") for line in written.lines)
    assert "\r" not in written.file.getvalue()
    assert "\x1b" not in written.file.getvalue()
    assert not leave or "40/40" in written.lines[-1]


def test_all_else_is_passed_on_also_between_the_states_of_a_bar() -> None:
    written = Written()
    with tqdm(total=3, file=written.stream, mininterval=0, miniters=1) as bar:
        bar.update()
        written.stream.write("a line of a log\n")
        bar.update()
        written.stream.write("windows\r\n")
        written.stream.write("a part")
        written.stream.write(", and the rest\n")
    written.bar(2, seconds=1)
    written.stream.write("\nafter an empty line\n")
    assert written.lines == ["a line of a log", "windows", "a part, and the rest", "", "after an empty line"]


def test_a_terminal_keeps_its_bars_and_a_closed_stream_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    for stream in (terminal, None):
        monkeypatch.setattr("sys.stderr", stream)
        progress.bars_as_lines()
        assert vars(sys)["stderr"] is stream
    monkeypatch.setattr("sys.stderr", io.StringIO())
    progress.bars_as_lines()
    assert isinstance(sys.stderr, progress.BarsAsLines)
