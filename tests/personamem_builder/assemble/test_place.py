"""Where questions are asked, over many users without any text."""

from __future__ import annotations

import random
from collections import Counter
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from small_contexts import Reader, whole, wordless, wordless_fillers

from generation.records import QUESTION_TYPES, Question
from generation.seeds import rng_for
from personamem_builder.assemble.layout import Layout, lay_out
from personamem_builder.assemble.place import place_questions
from personamem_builder.assemble.records import AskedQuestion, Block
from personamem_builder.assemble.run_records import PersonaRecords
from personamem_builder.assemble.select import fill, select_sessions
from personamem_builder.assemble.sizes import Size

FILLERS = wordless_fillers(200)


class Placed(NamedTuple):
    """A context and what is asked of it."""

    records: PersonaRecords
    blocks: list[Block]
    layout: Layout
    size: Size
    asked: list[AskedQuestion]
    seed: tuple[int, int]

    def __repr__(self) -> str:
        return f"Placed(seed={self.seed}, {self.size})"

    def question(self, row: AskedQuestion) -> Question:
        return next(q for q in self.records.questions if q.question_id == row.source_question_id)


def place(user: int, size: Size, seed: int) -> Placed:
    records = wordless(user)
    rng = random.Random(seed)
    lengths = records.session_tokens()
    budget = None if size.max_tokens is None else int(0.9 * size.max_tokens)
    chosen = select_sessions(records.history, lengths, records.questions, size.n_blocks, budget, rng)
    blocks = fill(records, chosen, list(FILLERS.values()), size, rng)
    layout = lay_out(records, blocks, FILLERS)
    return Placed(
        records, blocks, layout, size, place_questions(records, layout, "the context", size, rng), (user, seed)
    )


@st.composite
def placements(draw: st.DrawFn) -> Placed:
    size = Size(
        "own",
        n_blocks=draw(st.integers(1, 18)),
        max_tokens=draw(st.none() | st.integers(8_000, 60_000)),
        rows=draw(st.integers(1, 80)),
        end_points=draw(st.integers(2, 18)),
    )
    return place(draw(st.integers(0, 11)), size, draw(st.integers(0, 2**32)))


@settings(max_examples=50)
@given(placements())
def test_every_point_shows_what_the_answer_needs_and_nothing_that_changes_it(placed: Placed) -> None:
    layout = placed.layout
    starts = dict(zip([b.id for b in placed.blocks], layout.session_starts, strict=True))
    ends = dict(zip(layout.session_ids, layout.session_ends, strict=True))
    history = placed.records.history.model_dump(mode="json")
    for row in placed.asked:
        end, question = row.end_index_in_shared_context, placed.question(row)
        assert end in layout.session_ends
        assert all(ends[session_id] <= end for session_id in question.after_session_ids)
        assert starts.get(question.before_session_id or "", end) >= end
        assert len(row.evidence_message_indices) == len(question.evidence_event_ids) > 0
        for event_id, index in zip(question.evidence_event_ids, row.evidence_message_indices, strict=True):
            assert 0 <= index < end
            assert index == layout.event_places[event_id]
        # And a reader who knows what stands before the point, and no more, finds one option that holds: the right one.
        reader = Reader(history, {event_id for event_id, place in layout.event_places.items() if place < end})
        as_row = question.model_dump() | {"option_states": [list(option.states) for option in question.options]}
        assert reader.holding(as_row) == [question.answer_index]


@settings(max_examples=50)
@given(placements())
def test_the_columns_are_what_the_official_definitions_say(placed: Placed) -> None:
    """The reference is the farthest event of the evidence where all of it is needed, and else the last."""
    need_all = ("suggest_new_ideas", "track_full_preference_evolution", "generalize_to_new_scenarios")
    layout, tokens = placed.layout, placed.layout.tokens_before
    for row in placed.asked:
        end, question = row.end_index_in_shared_context, placed.question(row)
        own = question.num_tokens
        places = row.evidence_message_indices
        reference = min(places) if question.question_type in need_all else max(places)
        later = [i for i in layout.session_ends if reference < i <= end]
        assert row.context_length_in_tokens == tokens[end] + own
        assert row.context_length_in_letters == sum(len(m["content"]) for m in layout.messages[:end])
        assert row.distance_to_ref_in_tokens == tokens[end] - tokens[reference] + own
        assert row.distance_to_ref_in_blocks == len(later) >= 1
        assert row.num_irrelevant_tokens == layout.filler_tokens_before[end] < row.context_length_in_tokens


@settings(max_examples=50)
@given(placements())
def test_the_rows_of_a_context(placed: Placed) -> None:
    rows = placed.asked
    keys = [(row.end_index_in_shared_context, row.question_id) for row in rows]
    points = {row.end_index_in_shared_context for row in rows}
    assert len(rows) <= placed.size.rows
    assert keys == sorted(keys)
    assert len({row.question_id for row in rows}) == len(rows)
    assert len({(row.source_question_id, row.end_index_in_shared_context) for row in rows}) == len(rows)
    assert len(points) <= placed.size.end_points, "rows share their points"
    for row in rows:
        order = rng_for(0, "options", row.question_id).sample(range(4), 4)
        assert list(row.option_order) == order, "the order of the options follows from the row's id"


@settings(max_examples=50)
@given(placements())
def test_a_type_is_asked_less_only_where_all_its_questions_are_asked(placed: Placed) -> None:
    counts = Counter(placed.question(row).question_type for row in placed.asked)
    points = {row.end_index_in_shared_context for row in placed.asked}
    asked = {row.source_question_id for row in placed.asked}
    starts = dict(zip([b.id for b in placed.blocks], placed.layout.session_starts, strict=True))
    ends = dict(zip(placed.layout.session_ids, placed.layout.session_ends, strict=True))
    for question in placed.records.questions:
        if all(session_id in ends for session_id in question.after_session_ids):
            first = max(ends[session_id] for session_id in question.after_session_ids)
            last = starts.get(question.before_session_id or "", len(placed.layout.messages) + 1)
            if any(first <= point < last or point == last for point in points) and question.question_id not in asked:
                assert counts[question.question_type] >= max(counts.values()) - 1


@settings(max_examples=50)
@given(placements())
def test_few_rows_ask_what_another_row_asks(placed: Placed) -> None:
    sources = {row.source_question_id: placed.question(row).question_type for row in placed.asked}
    distinct, counts = Counter(sources.values()), Counter(placed.question(row).question_type for row in placed.asked)
    assert all(counts[name] - distinct[name] <= 0.15 * counts[name] for name in counts)


def test_what_another_context_asks_is_asked_again_only_where_nothing_else_is_left() -> None:
    records = wordless(0)
    layout = whole(records)
    size = Size("own", 16, None, 14, 16)
    asked_before: Counter[str] = Counter()
    rows = [
        row
        for name in ("x", "y", "z")
        for row in place_questions(records, layout, name, size, random.Random(name), asked_before)
    ]
    assert asked_before == Counter(row.source_question_id for row in rows)
    assert len(rows) == 3 * 14
    assert max(asked_before.values()) == 1


def test_the_last_session_is_a_point() -> None:
    for seed in range(20):
        placed = place(seed % 4, Size("own", 16, None, 400, 6), seed)
        assert placed.asked[-1].end_index_in_shared_context == len(placed.layout.messages)


def test_no_question_gives_no_row() -> None:
    records = wordless(0)._replace(questions=())
    layout = lay_out(records, [Block(kind="session", id=next(iter(records.sessions)))], {})
    assert place_questions(records, layout, "x", Size("1blocks", 1, None, 40, 1), random.Random(0)) == []


def test_distances_cover_the_whole_context() -> None:
    strata: Counter[int] = Counter()
    blocks: Counter[int] = Counter()
    for seed in range(48):
        placed = place(seed % 12, Size("own", 16, None, 30, 10), seed)
        for row in placed.asked:
            strata[10 * row.distance_to_ref_in_tokens // (placed.layout.tokens_before[-1] + 40)] += 1
            blocks[(row.distance_to_ref_in_blocks - 1) // 4] += 1
    total = sum(strata.values())
    assert total > 1_300
    # The paper's figures for 128k run from 5.7 % to 17.1 % a tenth, and from 5.6 % to 23.6 % a sixth of the sessions.
    assert all(0.04 < strata[tenth] / total < 0.18 for tenth in range(10)), strata
    assert sum((strata[tenth] / total - 0.1) ** 2 / 0.1 for tenth in range(10)) < 0.1
    assert all(0.1 < blocks[fourth] / total < 0.45 for fourth in range(4)), blocks


def test_types_are_asked_about_equally_often() -> None:
    types = Counter(
        placed.question(row).question_type
        for seed in range(24)
        for placed in [place(seed % 12, Size("own", 16, None, 60, 10), seed)]
        for row in placed.asked
    )
    assert types.keys() == set(QUESTION_TYPES)
    assert max(types.values()) < 1.4 * min(types.values()), types


def test_many_questions_share_a_point() -> None:
    for seed in range(12):
        placed = place(seed % 4, Size("own", 16, None, 60, 10), seed)
        points = Counter(row.end_index_in_shared_context for row in placed.asked)
        assert len(placed.asked) >= 5 * len(points)
