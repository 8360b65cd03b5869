"""Progress is shown for long work only, and never changes what is worked through."""

from __future__ import annotations

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
