"""The tree of token sequences that share prefixes: each distinct prefix stands in it once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from personamem_builder.evaluation.token_paths import TokenPath, common_prefix, sorted_order


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked about one token sequence.

    Attributes:
        path: Tokens to run through a model.
        first: Position of the first token whose output is wanted; those of all later ones are, too.
        room: To generate after the path, the most tokens that the answer adds; None where outputs are all that is
            wanted.
    """

    path: TokenPath
    first: int
    room: int | None = None


@dataclass(frozen=True, slots=True)
class Ask:
    """Outputs that a request (an index) wants of one segment: those at the positions from `first` up to `stop`."""

    request: int
    first: int
    stop: int


@dataclass(eq=False, slots=True)
class Segment:
    """Tokens between two branchings: those of `path` from `start` up to `end`.

    Attributes:
        path: Any sequence that runs through it.
        asks: The outputs wanted of it.
        answers: Requests to generate after it; such a segment is the last token of one prompt.
        size: Tokens of it and of all that hangs below it.
        room: Tokens that answers below it may add, in all.
    """

    path: TokenPath
    start: int
    end: int
    parent: Segment | None = None
    children: list[Segment] = field(default_factory=list)
    asks: list[Ask] = field(default_factory=list)
    answers: int = 0
    size: int = 0
    room: int = 0

    def walk(self) -> Iterator[Segment]:
        """Yield it and all below it, parents first, in the order of their tokens."""
        stack = [self]
        while stack:
            segment = stack.pop()
            yield segment
            stack.extend(reversed(segment.children))


def grow_tree(requests: Sequence[Request]) -> Segment:
    """Return the root, without tokens, of the tree of some requests' paths; repeats are allowed."""
    root = Segment(TokenPath.of([]), 0, 0)
    line = [root]  # from the root to where the last path ends
    last: tuple[TokenPath, int] = (root.path, 0)
    for index in sorted_order([request.path for request in requests]):
        path, room = requests[index].path, requests[index].room
        if not path.length:
            continue
        # The last token of a prompt is a segment of its own, since an answer goes on from there.
        end = path.length - (room is not None)
        shared = min(common_prefix(last[0], path), last[1], end)
        while line[-1].start >= shared and line[-1] is not root:
            line.pop()
        if line[-1].end > shared:
            line[-1] = _split(line[-1], shared)
        if end > shared:
            line.append(_attach(line[-1], Segment(path, shared, end)))
        leaf = line[-1]
        if room is not None:
            leaf = _attach(leaf, Segment(path, end, path.length, answers=1, room=room))
        _ask(leaf, index, requests[index].first)
        last = (path, end)
    _measure(root)
    return root


def _split(segment: Segment, position: int) -> Segment:
    """Cut a segment in two, and return the new one, its upper part."""
    assert segment.parent is not None
    upper = Segment(segment.path, segment.start, position, segment.parent, [segment])
    segment.parent.children[-1] = upper  # in the order of tokens, the last one is split
    segment.parent, segment.start = upper, position
    upper.asks = [Ask(ask.request, ask.first, position) for ask in segment.asks if ask.first < position]
    segment.asks = [Ask(ask.request, max(ask.first, position), ask.stop) for ask in segment.asks]
    return upper


def _attach(parent: Segment, child: Segment) -> Segment:
    child.parent = parent
    parent.children.append(child)
    return child


def _ask(leaf: Segment, request: int, first: int) -> None:
    segment: Segment | None = leaf
    while segment is not None and segment.end > first:
        segment.asks.append(Ask(request, max(first, segment.start), segment.end))
        segment = segment.parent


def _measure(root: Segment) -> None:
    """Fill in the sizes, children first."""
    for segment in reversed(list(root.walk())):
        segment.size = segment.end - segment.start + sum(child.size for child in segment.children)
        segment.room += sum(child.room for child in segment.children)
        segment.answers += sum(child.answers for child in segment.children)
