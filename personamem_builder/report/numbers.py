"""How numbers are shown to people."""

from __future__ import annotations

from personamem_builder.statistics import Estimate


def percent(estimate: Estimate | None, sign: str = "") -> str:
    """Return a mean and its interval in per cent, a dash for none; a sign `+` stands before what is not below 0."""
    if estimate is None:
        return "-"
    # Adding 0.0 makes 0.0 of -0.0.
    value, *ends = (
        f"{round(number * 100, 1) + 0.0:{sign}.1f}"
        for number in (estimate.value, estimate.low, estimate.high)
        if number is not None
    )
    return f"{value} [{', '.join(ends)}]" if ends else value


def points(gap: Estimate) -> str:
    """Return a difference, with its interval, in points of per cent."""
    ends = "" if gap.low is None or gap.high is None else f" [{100 * gap.low:+.1f}, {100 * gap.high:+.1f}]"
    return f"{100 * gap.value:+.1f} points{ends}"


def p_text(p: float, sign: str = "") -> str:
    """Return a p value, after a sign where it is not too small for one."""
    return "< 0.001" if p < 0.001 else f"{sign}{p:.3f}"
