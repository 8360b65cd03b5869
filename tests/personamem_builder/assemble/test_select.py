"""Which sessions and fillers a context holds, over many users without any text."""

from __future__ import annotations

import random
from collections.abc import Mapping
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from small_contexts import wordless, wordless_fillers

from generation.errors import UserError
from generation.history_records import SessionPlan
from generation.records import QUESTION_TYPES
from personamem_builder.assemble.records import Block
from personamem_builder.assemble.run_records import PersonaRecords
from personamem_builder.assemble.select import fill, select_sessions
from personamem_builder.assemble.sizes import Size

users = st.integers(0, 11)
seeds = st.integers(0, 2**32)


def select(records: PersonaRecords, n_blocks: int, budget: int | None, seed: int) -> list[SessionPlan]:
    lengths = records.session_tokens()
    return select_sessions(records.history, lengths, records.questions, n_blocks, budget, rng=random.Random(seed))


# --- sessions


@settings(max_examples=50)
@given(users, st.integers(1, 20), st.none() | st.integers(0, 60_000), seeds)
def test_a_selection(user: int, n_blocks: int, budget: int | None, seed: int) -> None:
    records = wordless(user)
    chosen = select(records, n_blocks, budget, seed)
    lengths = records.session_tokens()
    tokens = sum(lengths[c.session_id] for c in chosen)

    assert len(chosen) <= n_blocks
    assert budget is None or tokens <= budget
    assert all(earlier.date <= later.date for earlier, later in pairwise(chosen)), "in order of dates"
    for topic in records.history.topics:
        own = [plan for plan in chosen if plan in topic.sessions]
        assert own == list(topic.sessions[: len(own)]), "the first few of each topic, in their order"
        # Nothing is left out for which there is room.
        if len(chosen) < n_blocks and len(own) < len(topic.sessions):
            assert budget is not None
            assert tokens + lengths[topic.sessions[len(own)].session_id] > budget
    assert chosen == select(records, n_blocks, budget, seed)


@settings(max_examples=50)
@given(users, seeds)
def test_without_a_limit_all_sessions_are_chosen(user: int, seed: int) -> None:
    records = wordless(user)
    assert {c.session_id for c in select(records, 1_000, None, seed)} == records.sessions.keys()


def test_several_seeds_give_several_selections() -> None:
    found = {(u, tuple(c.session_id for c in select(wordless(u), 6, None, s))) for u in range(12) for s in range(9)}
    assert len(found) >= 24


def test_sessions_of_every_period_are_chosen() -> None:
    chosen = {c.period for user in range(12) for seed in range(3) for c in select(wordless(user), 8, None, seed)}
    assert chosen == {0, 1, 2, 3}


@pytest.mark.parametrize("n_blocks", [5, 8])
def test_a_selection_can_hold_every_type_of_question_where_that_is_possible(n_blocks: int) -> None:
    found = []
    for user in range(12):
        records = wordless(user)
        needed = [_needed(records, question.after_session_ids) for question in records.questions]
        possible = {q.question_type for q, need in zip(records.questions, needed, strict=True) if len(need) <= n_blocks}
        for seed in range(2):
            held = {c.session_id for c in select(records, n_blocks, None, seed)}
            types = {q.question_type for q in records.questions if held.issuperset(q.after_session_ids)}
            found.append(len(types & possible) == len(possible))
            assert possible <= set(QUESTION_TYPES)
    assert sum(found) >= 0.8 * len(found)


def _needed(records: PersonaRecords, session_ids: tuple[str, ...]) -> set[str]:
    """The sessions of a question, and those that come before them in their topics."""
    needed = set()
    for topic in records.history.topics:
        last = max((s.period for s in topic.sessions if s.session_id in session_ids), default=-1)
        needed |= {s.session_id for s in topic.sessions if s.period <= last}
    return needed


# --- fillers


def tokens_of(records: PersonaRecords, blocks: list[Block], fillers: Mapping[str, object]) -> int:
    lengths = records.session_tokens()
    return sum(
        lengths[block.id] if block.kind == "session" else fillers[block.id].num_tokens  # type: ignore[attr-defined]
        for block in blocks
    )


def filled(records: PersonaRecords, size: Size, fillers: int, seed: int, tokens: int | None = None) -> list[Block]:
    """Select and fill as an assembly does."""
    assert size.max_tokens is not None
    rng = random.Random(seed)
    chosen = select(records, size.n_blocks, int(0.9 * size.max_tokens), seed)
    return fill(records, chosen, list(wordless_fillers(fillers, tokens).values()), size, rng)


@settings(max_examples=50)
@given(users, st.integers(3, 16), st.integers(8_000, 60_000), seeds)
def test_a_filled_context(user: int, n_blocks: int, max_tokens: int, seed: int) -> None:
    records = wordless(user)
    size = Size("own", n_blocks, max_tokens, 40, 12)
    blocks = filled(records, size, 200, seed)
    sessions = [block.id for block in blocks if block.kind == "session"]
    fillers = [block.id for block in blocks if block.kind == "filler"]
    chosen = select(records, n_blocks, int(0.9 * max_tokens), seed)

    assert 0.8 * max_tokens <= tokens_of(records, blocks, wordless_fillers(200)) <= 0.9 * max_tokens
    assert sessions == [c.session_id for c in chosen], "fillers change nothing of the sessions"
    assert len(set(fillers)) == len(fillers), "no filler twice"
    assert blocks[-1].kind == "session"
    if sum(records.session_tokens()[id_] for id_ in sessions) >= 0.8 * max_tokens:
        assert fillers == [], "none unless needed"


def test_fillers_stand_everywhere_between_the_sessions() -> None:
    before = [0] * 4
    for seed in range(60):
        gap = 0
        for block in filled(wordless(0), Size("own", 4, 40_000, 40, 4), 200, seed):
            gap += block.kind == "session"
            if block.kind == "filler":
                before[gap] += 1
    assert min(before) > 0.8 * max(before)


def test_lengths_spread_between_the_two_limits() -> None:
    size = Size("own", 4, 100_000, 40, 4)
    lengths = [tokens_of(wordless(0), filled(wordless(0), size, 300, s), wordless_fillers(300)) for s in range(60)]
    assert min(lengths) < 83_000
    assert max(lengths) > 87_000


@settings(max_examples=50)
@given(users, seeds)
def test_without_a_limit_there_are_no_fillers(user: int, seed: int) -> None:
    records = wordless(user)
    size = Size("5blocks", 5, None, 40, 5)
    chosen = select(records, 5, None, seed)
    blocks = fill(records, chosen, list(wordless_fillers(200).values()), size, random.Random(seed))
    assert [(block.kind, block.id) for block in blocks] == [("session", c.session_id) for c in chosen]


@settings(max_examples=50)
@given(users, st.integers(0, 20), st.integers(60_000, 200_000), seeds)
@example(user=4, count=10, max_tokens=60_100, seed=0)  # with 41 more it is as long as it must be, to the token
def test_too_few_fillers_are_counted(user: int, count: int, max_tokens: int, seed: int) -> None:
    records = wordless(user)
    size = Size("own", 16, max_tokens, 40, 12)
    with pytest.raises(UserError) as raised:
        filled(records, size, count, seed, tokens=400)
    persona = records.persona.persona_id
    sessions = sum(records.session_tokens().values()) + 400 * count
    start = (
        f"persona {persona} cannot fill the split own: its 16 sessions (of at most 16) and all {count} fillers have "
        f"{sessions:,} tokens of at least {0.8 * max_tokens:,.0f}; about "
    )
    assert raised.value.message.startswith(start)
    assert "`fillers`" in raised.value.hint
    if count:  # else their size is guessed
        missing = int(raised.value.message.removeprefix(start).split()[0])
        filled(records, size, count + missing, seed, tokens=400)
        with pytest.raises(UserError):
            filled(records, size, count + missing - 1, seed, tokens=400)
