"""At which points of a context its persona's questions are asked."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from heapq import heappop, heapreplace
from itertools import pairwise
from typing import Final, NamedTuple

from generation.records import Question, content_id
from generation.seeds import rng_for
from personamem_builder.assemble.layout import Layout
from personamem_builder.assemble.material import Material
from personamem_builder.assemble.records import AskedQuestion
from personamem_builder.assemble.sizes import Size

_STRATA: Final = 10  # of the distance from the reference event to the question, as a part of the context

_FIRST_EVENT_COUNTS: Final = frozenset(
    {"suggest_new_ideas", "track_full_preference_evolution", "generalize_to_new_scenarios"}
)
"""Types whose answer needs all evidence, so that the farthest event is the reference; for the others it is the last."""


class _Place(NamedTuple):
    """A question, and after which session it could be asked."""

    question: Question
    session: int
    stratum: int


def place_questions(
    material: Material, layout: Layout, context_id: str, size: Size, rng: random.Random
) -> list[AskedQuestion]:
    """Choose questions and points: types about equally often, distances spread over the whole context.

    A question may be asked at several points, as separate rows; a few points of the context serve all rows, since rows
    that share one share its computation.

    Args:
        material: The persona.
        layout: The context.
        context_id: Its id.
        size: The split.
        rng: Decides among equals.

    Returns:
        The questions asked, by point.
    """
    places: dict[str, list[_Place]] = defaultdict(list)
    points = _points(len(layout.session_ends), size.end_points, rng)
    for question in material.questions:
        for session in _sessions(question, layout):
            if session in points:
                stratum = _stratum(question, layout, layout.session_ends[session])
                places[question.question_type].append(_Place(question, session, stratum))
    asked = _choose(places, size.rows, rng)
    rows = [_asked(material, layout, context_id, place.question, place.session) for place in asked]
    return sorted(rows, key=lambda row: (row.end_index_in_shared_context, row.question_id))


def _points(sessions: int, most: int, rng: random.Random) -> set[int]:
    """Choose sessions after which questions are asked: spread over the context, the last among them."""
    if sessions <= max(most, 2):
        return set(range(sessions))
    edges = [round(i * (sessions - 1) / (most - 1)) for i in range(most)]
    return {rng.randrange(low, high) for low, high in pairwise(edges)} | {sessions - 1}


def _sessions(question: Question, layout: Layout) -> range:
    """Return the sessions after which a question can be asked: its evidence is told, and nothing has changed it."""
    order = {session_id: i for i, session_id in enumerate(layout.session_ids)}
    if not all(session_id in order for session_id in question.after_session_ids):
        return range(0)
    first = max(order[session_id] for session_id in question.after_session_ids)
    return range(first, order.get(question.before_session_id or "", len(order)))


def reference_event(question: Question, layout: Layout) -> str:
    """Return the event from which the distance to a question is measured."""
    # Not by date: a session may tell of something that happened before an event of an earlier session.
    first = question.question_type in _FIRST_EVENT_COUNTS
    return (min if first else max)(question.evidence_event_ids, key=layout.event_places.__getitem__)


def _stratum(question: Question, layout: Layout, end: int) -> int:
    place = layout.event_places[reference_event(question, layout)]
    distance = layout.tokens_before[end] - layout.tokens_before[place]
    return min(_STRATA - 1, _STRATA * distance // layout.tokens_before[-1])


def _choose(places: dict[str, list[_Place]], rows: int, rng: random.Random) -> list[_Place]:
    types: Counter[str] = Counter()
    strata: Counter[int] = Counter()
    times: Counter[str] = Counter()

    def cost(place: _Place) -> int:
        # A question that was asked before costs as much as two rows too many at a distance.
        return strata[place.stratum] + 2 * times[place.question.question_id]

    # Heaps of (cost, position, place), all of cost 0 at first. Costs only grow, so one that is out of date is too low.
    left = {
        name: [(0, i, place) for i, place in enumerate(rng.sample(found, len(found)))]
        for name, found in sorted(places.items())
        if found
    }
    chosen: list[_Place] = []
    while left and len(chosen) < rows:
        name = min(left, key=lambda name: types[name])
        heap = left[name]
        while (now := cost(heap[0][2])) > heap[0][0]:
            heapreplace(heap, (now, *heap[0][1:]))
        place = heappop(heap)[2]
        if not heap:
            del left[name]
        types[name] += 1
        strata[place.stratum] += 1
        times[place.question.question_id] += 1
        chosen.append(place)
    return chosen


def _asked(material: Material, layout: Layout, context_id: str, question: Question, session: int) -> AskedQuestion:
    end = layout.session_ends[session]
    question_id = content_id("asked", question.question_id, context_id, end)
    tokens = material.question_tokens[question.question_id]
    reference = reference_event(question, layout)
    order = rng_for(0, "options", question_id).sample(range(len(question.options)), len(question.options))
    return AskedQuestion(
        question_id=question_id,
        source_question_id=question.question_id,
        shared_context_id=context_id,
        end_index_in_shared_context=end,
        option_order=tuple(order),
        context_length_in_tokens=layout.tokens_before[end] + tokens,
        context_length_in_letters=layout.letters_before[end],
        distance_to_ref_in_blocks=session + 1 - layout.event_sessions[reference],
        distance_to_ref_in_tokens=(
            layout.tokens_before[end] - layout.tokens_before[layout.event_places[reference]] + tokens
        ),
        num_irrelevant_tokens=layout.filler_tokens_before[end],
        evidence_message_indices=tuple(layout.event_places[event_id] for event_id in question.evidence_event_ids),
    )
