"""At which points of a context its persona's questions are asked."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from heapq import heappop, heapreplace
from itertools import pairwise
from typing import Final, NamedTuple

from generation.records import Question, content_id
from generation.seeds import option_order
from personamem_builder.assemble.layout import Layout
from personamem_builder.assemble.records import AskedQuestion
from personamem_builder.assemble.run_records import PersonaRecords
from personamem_builder.assemble.sizes import Size

_MOST_REPEATS: Final = 0.15
"""Of the rows of a type and a persona in a split: those that ask what another row asks."""

_STRATA: Final = 10  # of the distance from the reference event to the question, as a part of the context

_FIRST_EVENT_COUNTS: Final = frozenset(
    {"suggest_new_ideas", "track_full_preference_evolution", "generalize_to_new_scenarios"}
)
"""Types whose answer needs all evidence, so that the farthest event is the reference; for the others it is the last."""


class _Placement(NamedTuple):
    """A question, and after which session it could be asked."""

    question: Question
    session: int
    stratum: int


def place_questions(
    records: PersonaRecords,
    layout: Layout,
    context_id: str,
    size: Size,
    rng: random.Random,
    asked_before: Counter[str] | None = None,
) -> list[AskedQuestion]:
    """Choose questions and points: types about equally often, distances spread over the whole context.

    A question may be asked at several points, as separate rows, but few are: rows that ask the same are one piece of
    evidence. A few points of the context serve all rows, since rows that share one share its computation.

    Args:
        records: Of the persona.
        layout: The context.
        context_id: Its id.
        size: How many rows and points there are, at most.
        rng: Decides.
        asked_before: How often each question is asked in other contexts of the split; those of this one are added.

    Returns:
        The questions asked, by point.
    """
    placements: dict[str, list[_Placement]] = defaultdict(list)
    points = sorted(_points(len(layout.session_ends), size.end_points, rng))
    order = {session_id: i for i, session_id in enumerate(layout.session_ids)}
    for question in records.questions:
        for session, stratum in _strata(question, points, order, layout):
            placements[question.question_type].append(_Placement(question, session, stratum))
    asked = _choose(placements, size.rows, rng, Counter() if asked_before is None else asked_before)
    rows = [_asked(layout, context_id, placement.question, placement.session) for placement in asked]
    return sorted(rows, key=lambda row: (row.end_index_in_shared_context, row.question_id))


def _points(sessions: int, most: int, rng: random.Random) -> set[int]:
    """Choose sessions after which questions are asked: spread over the context, the last among them."""
    if sessions <= max(most, 2):
        return set(range(sessions))
    edges = [round(i * (sessions - 1) / (most - 1)) for i in range(most)]
    return {rng.randrange(low, high) for low, high in pairwise(edges)} | {sessions - 1}


def _strata(
    question: Question, points: Sequence[int], order: Mapping[str, int], layout: Layout
) -> Iterator[tuple[int, int]]:
    """Yield the sessions among some after which a question can be asked, each with the stratum of its distance.

    Its evidence is told by then, and nothing has changed it.
    """
    if not all(session_id in order for session_id in question.after_session_ids):
        return
    first = max(order[session_id] for session_id in question.after_session_ids)
    end = order.get(question.before_session_id or "", len(order))
    before = layout.tokens_before
    told = before[layout.event_places[reference_event(question, layout)]]
    for session in points[bisect_left(points, first) : bisect_left(points, end)]:
        distance = before[layout.session_ends[session]] - told
        yield session, min(_STRATA - 1, _STRATA * distance // before[-1])


def reference_event(question: Question, layout: Layout) -> str:
    """Return the event from which the distance to a question is measured."""
    # Not by date: a session may tell of something that happened before an event of an earlier session.
    first = question.question_type in _FIRST_EVENT_COUNTS
    return (min if first else max)(question.evidence_event_ids, key=layout.event_places.__getitem__)


def _choose(
    placements: dict[str, list[_Placement]], rows: int, rng: random.Random, times: Counter[str]
) -> list[_Placement]:
    types: Counter[str] = Counter()
    repeats: Counter[str] = Counter()
    strata: Counter[int] = Counter()

    def cost(placement: _Placement) -> int:
        # A question that was asked before costs as much as two rows too many at a distance.
        return strata[placement.stratum] + 2 * times[placement.question.question_id]

    # Heaps of (cost, position, placement), all of cost 0 at first. Costs only grow: one out of date is too low.
    left = {
        name: [(0, i, placement) for i, placement in enumerate(rng.sample(found, len(found)))]
        for name, found in sorted(placements.items())
        if found
    }
    chosen: list[_Placement] = []
    while left and len(chosen) < rows:
        name = min(left, key=lambda name: types[name])
        heap = left[name]
        while (now := cost(heap[0][2])) > heap[0][0]:
            heapreplace(heap, (now, *heap[0][1:]))
        placement = heappop(heap)[2]
        if not heap:
            del left[name]
        if times[placement.question.question_id]:
            if repeats[name] + 1 > _MOST_REPEATS * (types[name] + 1):
                continue
            repeats[name] += 1
        types[name] += 1
        strata[placement.stratum] += 1
        times[placement.question.question_id] += 1
        chosen.append(placement)
    return chosen


def _asked(layout: Layout, context_id: str, question: Question, session: int) -> AskedQuestion:
    end = layout.session_ends[session]
    question_id = content_id("asked", question.question_id, context_id, end)
    tokens = question.num_tokens
    reference = reference_event(question, layout)
    return AskedQuestion(
        question_id=question_id,
        source_question_id=question.question_id,
        shared_context_id=context_id,
        end_index_in_shared_context=end,
        option_order=tuple(option_order(question_id, len(question.options))),
        context_length_in_tokens=layout.tokens_before[end] + tokens,
        context_length_in_letters=layout.letters_before[end],
        distance_to_ref_in_blocks=session + 1 - layout.event_sessions[reference],
        distance_to_ref_in_tokens=(
            layout.tokens_before[end] - layout.tokens_before[layout.event_places[reference]] + tokens
        ),
        num_irrelevant_tokens=layout.filler_tokens_before[end],
        evidence_message_indices=tuple(layout.event_places[event_id] for event_id in question.evidence_event_ids),
    )
