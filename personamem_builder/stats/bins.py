"""How distances are binned, in statistics of a benchmark and in what scores depend on."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import Final, NamedTuple

_SESSIONS: Final[Mapping[str, tuple[int, ...]]] = {
    "32k": (0, 2, 3, 4, 5, 6),
    "128k": (0, 3, 7, 11, 15, 19),
    "1M": (0, 8, 14, 20, 26, 32, 38, 44, 50, 56),
}
"""First number of sessions of each bin; those of 128k and 1M are the paper's."""

_TOKENS: Final[Mapping[str, int]] = {"32k": 4_000, "128k": 16_000, "1M": 125_000}
"""Width of a bin of tokens: an eighth of the split."""

_FALLBACK: Final = "128k"
_EIGHTHS: Final = 8


class Bins(NamedTuple):
    """Bins of a count, the last of which is open: where each begins, and what it is called."""

    starts: tuple[int, ...]
    labels: tuple[str, ...]

    def of(self, count: float) -> str:
        """Return the name of the bin that a count falls into."""
        return self.labels[max(0, bisect_right(self.starts, count) - 1)]


def session_bins(split: str | None) -> Bins:
    """Return the bins of sessions between reference and question; splits of other sizes have those of 128k."""
    starts = _SESSIONS.get(split or "", _SESSIONS[_FALLBACK])
    ends = [str(end - 1) for end in starts[1:]]
    names = [str(a) if str(a) == end else f"{a}–{end}" for a, end in zip(starts, ends, strict=False)]
    return Bins(starts, (*names, f"{starts[-1]}+"))


def token_bins(split: str | None) -> Bins:
    """Return the bins of tokens between reference and question; splits of other sizes have those of 128k."""
    width = _TOKENS.get(split or "", _TOKENS[_FALLBACK])
    starts = tuple(width * i for i in range(_EIGHTHS))
    names = [f"{start // 1000}–{(start + width) // 1000}k" for start in starts[:-1]]
    return Bins(starts, (*names, f"{starts[-1] // 1000}k+"))
