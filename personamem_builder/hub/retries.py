"""Calls of the Hub client that are made again where the Hub is busy, and what a failed call tells."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Mapping
from typing import Final, ParamSpec, TypeVar

from generation.llm.chat_request import asked_wait
from personamem_builder.hub.failures import hub_failures

_log = logging.getLogger(__name__)

_P = ParamSpec("_P")
_T = TypeVar("_T")

BUSY: Final = (429, 500, 502, 503, 504)
"""Answers of a Hub that may have time later."""

_WAITS: Final = (2.0, 8.0)
"""Seconds before the second and the third try, where the Hub names none."""
_LONGEST_WAIT: Final = 300.0


def patiently(call: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Call the Hub, and again after a while where it says that it is busy.

    The client itself tries some requests again; which ones, and on what answers, depends on its version.
    """
    for wait in _WAITS:
        try:
            return call(*args, **kwargs)
        except hub_failures() as error:
            seconds = _asked_wait(error, wait)
            if status_of(error) not in BUSY or seconds > _LONGEST_WAIT:
                raise
            _log.warning("the Hub is busy (HTTP %s): trying again in %.0f s", status_of(error), seconds)
        time.sleep(seconds)
    return call(*args, **kwargs)


def _asked_wait(error: Exception, usual: float) -> float:
    """Return for how many seconds the Hub asks us to wait: `Retry-After: 3`, or `RateLimit: "api";r=0;t=3`."""
    headers: Mapping[str, str] = getattr(getattr(telling_error(error), "response", None), "headers", {})
    rate = re.search(r"r=0;\s*t=(\d+)", headers.get("RateLimit", ""))
    return asked_wait(headers) or float(rate[1] if rate else usual)


def telling_error(error: Exception) -> Exception:
    """Return the error, of this one and its causes, that carries the answer of the Hub; else the first cause."""
    cause: BaseException | None = error
    while isinstance(cause, Exception):
        error = cause
        if getattr(error, "response", None) is not None:
            break
        cause = error.__cause__
    return error


def status_of(error: Exception) -> int | None:
    """Return the HTTP status with which the Hub answered; None where it did not."""
    return getattr(getattr(telling_error(error), "response", None), "status_code", None)
