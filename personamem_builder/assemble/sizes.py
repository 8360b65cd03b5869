"""The sizes of splits: how many sessions, how many tokens."""

from __future__ import annotations

from typing import Final, NamedTuple

from generation.errors import UserError

FULLEST: Final = 0.9
"""The tokens of a context are at most this part of the split's nominal size; the rest is for question and answer."""
EMPTIEST: Final = 0.8
"""And at least this part."""


_HINT: Final = "write 15, or a range such as 1-10"
_MOST_DIGITS: Final = 4  # of a number of sessions
_MOST_SIZES: Final = 100  # of a range: two files are open for each


class Size(NamedTuple):
    """The size of a split.

    Attributes:
        n_blocks: Sessions of a context, at most.
        max_tokens: Nominal size in tokens; None for contexts that are as long as their sessions.
        rows: Questions of a context, about.
        end_points: Points of a context at which questions are asked, at most.
    """

    split: str
    n_blocks: int
    max_tokens: int | None
    rows: int
    end_points: int


SIZES: Final = {
    size.split: size
    for size in (
        Size("32k", 10, 32_000, 16, 5),
        Size("128k", 20, 128_000, 72, 12),
        Size("1M", 60, 1_000_000, 72, 16),
    )
}
"""The splits of the paper."""


def chosen_sizes(splits: tuple[str, ...], n_blocks: str | None, max_tokens: int | None) -> list[Size]:
    """Return the sizes that a command line asks for: splits of the paper, or `n_blocks`, a number or range of sessions.

    Raises:
        UserError: A split is unknown, a number cannot be read, or the limit holds less than one session.
    """
    if n_blocks is None:
        if max_tokens is not None:
            raise UserError("--max-tokens goes with --n-blocks", "give both, or a --split")
        for split in splits:
            if split not in SIZES:
                hint = "or give --n-blocks N for a size of your own"
                raise UserError(f"there is no split {split!r}; the splits are {', '.join(SIZES)}", hint)
        return [SIZES[split] for split in dict.fromkeys(splits) or SIZES]
    if splits:
        raise UserError("--split and --n-blocks cannot be used together", "leave one of them out")
    first, dash, last = n_blocks.partition("-")
    numbers = [first, last] if dash else [first]
    if not all(map(str.isdecimal, numbers)):
        raise UserError(f"--n-blocks {n_blocks!r} is not a number of sessions", _HINT)
    if max(map(len, numbers)) > _MOST_DIGITS:
        raise UserError(f"--n-blocks {n_blocks[:40]} has more than {_MOST_DIGITS} digits", _HINT)
    if int(first) < 1 or (dash and int(last) < int(first)):
        raise UserError(f"--n-blocks {n_blocks!r} is not a number of sessions", _HINT)
    if dash and int(last) - int(first) >= _MOST_SIZES:
        raise UserError(f"--n-blocks {n_blocks} is a range of more than {_MOST_SIZES} sizes", _HINT)
    if max_tokens is not None and dash:
        raise UserError("--max-tokens cannot go with a range of --n-blocks", "give one number of sessions")
    counts = range(int(first), int(last or first) + 1)
    return [Size(f"{count}blocks", count, max_tokens, 40, min(count, 12)) for count in counts]
