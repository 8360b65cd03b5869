"""How fast calls may begin: so many requests and so many tokens in a minute."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_MINUTE: Final = 60.0
_LOOK_AGAIN: Final = 0.5  # seconds; what others give back may let the next one begin sooner than it seemed
_SHORTEST: Final = 0.001  # seconds; keeps rounding from making a wait of nothing, for ever


@dataclass
class Reservation:
    """What a call takes from the minute it begins in.

    Attributes:
        tokens: Of its prompt and its reply; a guess until the call is over.
        ends: When they no longer count.
    """

    tokens: int
    ends: float


class RateLimit:
    """Lets calls begin, in the order in which they ask, no faster than an endpoint allows; for any number of threads.

    Requests begin at even distances, since endpoints refuse bursts. Tokens are counted over the last minute: a call
    may begin while what it may take still fits; one of more than a minute's tokens begins when no other counts.
    """

    def __init__(
        self,
        requests_per_minute: int | None,
        tokens_per_minute: int | None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._distance = _MINUTE / requests_per_minute if requests_per_minute else 0.0
        self._tokens = tokens_per_minute
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._next = clock()
        self._counted: deque[Reservation] = deque()
        self._taken = 0
        self._last = threading.Event()
        self._last.set()

    def wait(self, tokens: int) -> Reservation:
        """Return when a call of at most so many tokens may begin; what is counted for it is for `settle` to correct."""
        done = threading.Event()
        with self._lock:
            before, self._last = self._last, done
        try:
            before.wait()  # each waits for the one before it, so nobody is overtaken
            while True:
                reservation, delay = self._take(tokens)
                if reservation is not None:
                    return reservation
                self._sleep(min(max(delay, _SHORTEST), _LOOK_AGAIN))
        finally:
            done.set()

    def settle(self, reservation: Reservation, tokens: int) -> None:
        """Correct what is counted for a call to the tokens that it really took."""
        with self._lock:
            now = self._clock()
            self._forget(now)
            if reservation.ends > now:
                self._taken += tokens - reservation.tokens
            reservation.tokens = tokens

    def _take(self, tokens: int) -> tuple[Reservation | None, float]:
        """Return a reservation, or None and the seconds after which there may be one."""
        with self._lock:
            now = self._clock()
            self._forget(now)
            delay = self._next - now
            if self._tokens and self._counted and self._taken + tokens > self._tokens:
                delay = max(delay, self._counted[0].ends - now)
            if delay > 0:
                return None, delay
            self._next = now + self._distance
            reservation = Reservation(tokens, now + _MINUTE)
            self._counted.append(reservation)
            self._taken += tokens
            return reservation, 0.0

    def _forget(self, now: float) -> None:
        while self._counted and self._counted[0].ends <= now:
            self._taken -= self._counted.popleft().tokens
