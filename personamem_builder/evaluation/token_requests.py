"""Requests to a model as tokens, and the trees that they make."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from personamem_builder.evaluation.token_paths import TokenPath, Tokens
from personamem_builder.evaluation.token_tree import Request, Segment, grow_tree

_HELD_TOKENS: Final = 2**16
"""Of small groups of requests that are put together."""

Done = Callable[[int, Any], None]
"""Is given a request's index and its result."""


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """One request to the model.

    Attributes:
        index: Its place among the requests.
        path: The tokens to run through the model.
        targets: The tokens whose log-probabilities are wanted: the last of them follows the path.
        key: What lm-eval's result cache knows the request by.
        room: To generate after the path, the most tokens of the answer.
    """

    index: int
    path: TokenPath
    targets: Tokens
    key: Any
    room: int | None = None

    @property
    def first(self) -> int:
        """The position of the first output wanted."""
        return self.path.length - (len(self.targets) if self.room is None else 1)


def trees_of(
    groups: Sequence[Sequence[tuple[int, Any]]], make_job: Callable[[int, Any], TokenRequest]
) -> Iterator[tuple[list[TokenRequest], Segment, int]]:
    """Yield the requests of some groups, small ones together, their tree, and how many groups these are."""
    jobs: list[TokenRequest] = []
    count = held = 0
    for group in groups:
        # The longest history comes first: the tokens of its pieces are checked, and the others are made of them.
        own = [make_job(index, request) for index, request in reversed(group)]
        size = sum({id(part): len(part) for job in own for part in job.path.parts}.values())
        if jobs and held + size > _HELD_TOKENS:
            yield jobs, _tree(jobs), count
            jobs, count, held = [], 0, 0
        jobs, count, held = jobs + own, count + 1, held + size
    if count:
        yield jobs, _tree(jobs), count


def _tree(jobs: Sequence[TokenRequest]) -> Segment:
    return grow_tree([Request(job.path, job.first, job.room) for job in jobs])
