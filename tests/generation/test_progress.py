"""Progress is shown for long work only, and never changes what is worked through."""

from __future__ import annotations

import time

import pytest

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
