"""Calls begin in order and never faster than allowed."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generation.llm.rate_limit import RateLimit


class Time:
    """A clock that moves only when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert 0 < seconds < 60
        self.now += seconds


def starts(requests: int | None, tokens: int | None, calls: list[int]) -> list[float]:
    """Return when each call begins, in seconds from the first."""
    time = Time()
    limit = RateLimit(requests, tokens, time.clock, time.sleep)
    begun = []
    for call in calls:
        limit.wait(call)
        begun.append(time.now - 1000)
    return begun


def test_without_limits_nobody_waits() -> None:
    assert starts(None, None, [10**9] * 50) == [0] * 50


def test_requests_begin_at_even_distances() -> None:
    assert starts(30, None, [1] * 5) == pytest.approx([0, 2, 4, 6, 8], abs=0.01)


def test_a_pause_is_not_made_up_for_by_a_burst() -> None:
    time = Time()
    limit = RateLimit(30, None, time.clock, time.sleep)
    limit.wait(1)
    time.now += 600
    begun = []
    for _ in range(3):
        limit.wait(1)
        begun.append(time.now)
    assert begun == pytest.approx([1600, 1602, 1604], abs=0.01)


def test_tokens_that_do_not_fit_wait_until_the_oldest_are_a_minute_old() -> None:
    assert starts(None, 1000, [400, 600, 1, 400, 599]) == pytest.approx([0, 0, 60, 60, 60], abs=0.01)


def test_both_limits_hold_at_once() -> None:
    assert starts(60, 1000, [500, 500, 500, 1]) == pytest.approx([0, 1, 60, 61], abs=0.01)


def test_a_call_larger_than_the_limit_begins_alone() -> None:
    assert starts(None, 1000, [5000, 1, 5000]) == pytest.approx([0, 60, 120], abs=0.01)


def test_what_a_call_did_not_take_is_given_back() -> None:
    time = Time()
    limit = RateLimit(None, 1000, time.clock, time.sleep)
    reservation = limit.wait(900)
    limit.settle(reservation, 100)
    limit.wait(900)
    assert time.now == 1000
    limit.wait(1)
    assert time.now == pytest.approx(1060, abs=0.01)


def test_what_a_call_took_beyond_its_guess_counts() -> None:
    time = Time()
    limit = RateLimit(None, 1000, time.clock, time.sleep)
    limit.settle(limit.wait(100), 950)
    limit.wait(100)
    assert time.now == pytest.approx(1060, abs=0.01)


def test_a_reservation_that_no_longer_counts_may_be_settled() -> None:
    time = Time()
    limit = RateLimit(None, 1000, time.clock, time.sleep)
    old = limit.wait(900)
    time.now += 61
    limit.wait(900)
    limit.settle(old, 0)
    limit.wait(900)  # were the old reservation given back now, this one would begin at once
    assert time.now == pytest.approx(1121, abs=0.01)


def test_who_waits_begins_soon_after_something_is_given_back() -> None:
    time = Time()
    first = []

    def sleep(seconds: float) -> None:
        time.sleep(seconds)
        if time.now >= 1003 and first:
            limit.settle(first.pop(), 0)

    limit = RateLimit(None, 1000, time.clock, sleep)
    first.append(limit.wait(900))
    limit.wait(900)
    assert 1003 <= time.now < 1004


@given(
    st.integers(1, 200),
    st.integers(1, 5000),
    st.lists(st.tuples(st.integers(0, 6000), st.floats(0, 5), st.integers(0, 3000)), max_size=60),
)
def test_no_minute_ever_holds_more_than_the_limits(
    requests: int, tokens: int, calls: list[tuple[int, float, int]]
) -> None:
    time = Time()
    limit = RateLimit(requests, tokens, time.clock, time.sleep)
    begun: list[tuple[float, int]] = []
    for guess, pause, actual in calls:
        reservation = limit.wait(guess)
        limit.settle(reservation, min(actual, guess))
        begun.append((time.now, min(actual, guess)))
        time.now += pause
    for start, _ in begun:
        within = [taken for at, taken in begun if start <= at < start + 59.99]
        assert len(within) <= requests
        assert sum(within) <= tokens or len([taken for taken in within if taken]) == 1


def in_threads(count: int, work: Callable[[int], object]) -> None:
    with ThreadPoolExecutor(count) as pool:
        list(pool.map(work, range(count)))


def test_threads_share_the_limits() -> None:
    time = Time()
    limit = RateLimit(60, None, time.clock, time.sleep)
    begun = []

    def work(_: int) -> None:
        for _ in range(10):
            limit.wait(1)
            begun.append(time.now)  # approximate: others may have moved the clock on

    in_threads(32, work)
    assert len(begun) == 320
    assert time.now - 1000 == pytest.approx(319, abs=0.5)


def test_nobody_is_overtaken_even_by_one_who_asks_for_less() -> None:
    time = Time()
    asked = threading.Event()
    go = threading.Event()

    def sleep(seconds: float) -> None:
        asked.set()
        assert go.wait(10)
        time.sleep(seconds)

    limit = RateLimit(None, 1000, time.clock, sleep)
    limit.wait(900)
    order: list[str] = []

    def work(name: str, tokens: int) -> None:
        limit.wait(tokens)
        order.append(name)

    large = threading.Thread(target=work, args=("large", 900))
    small = threading.Thread(target=work, args=("small", 1))
    large.start()
    assert asked.wait(10)
    small.start()  # would fit at once
    small.join(0.05)
    assert order == []
    go.set()
    for thread in (large, small):
        thread.join(10)
    assert sorted(order) == ["large", "small"]
    assert time.now >= 1060


def test_an_interrupted_wait_lets_the_next_one_in() -> None:
    time = Time()
    interrupts = itertools.chain([KeyboardInterrupt()], itertools.repeat(None))

    def sleep(seconds: float) -> None:
        if (interrupt := next(interrupts)) is not None:
            raise interrupt
        time.sleep(seconds)

    limit = RateLimit(60, None, time.clock, sleep)
    limit.wait(1)
    with pytest.raises(KeyboardInterrupt):
        limit.wait(1)
    limit.wait(1)
    assert time.now == pytest.approx(1001, abs=0.01)
