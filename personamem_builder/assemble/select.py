"""Which sessions a context holds, and what stands between them."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Final

from generation.errors import UserError
from generation.history_records import History, SessionPlan
from generation.records import Question
from personamem_builder.assemble.records import Block
from personamem_builder.assemble.run_records import Conversation, PersonaRecords
from personamem_builder.assemble.sizes import EMPTIEST, FULLEST, Size

_DRAWS: Final = 24  # selections among which the one with most types and questions is taken
_STAY: Final = 4  # how much likelier a topic that is in the context is to go on than another to begin


def select_sessions(
    history: History,
    lengths: Mapping[str, int],
    questions: Sequence[Question],
    n_blocks: int,
    budget: int | None,
    rng: random.Random,
    taken: Collection[Sequence[SessionPlan]] = (),
) -> list[SessionPlan]:
    """Choose the sessions of a context: of each topic the first few, so that no update comes before what it updates.

    Of several random selections the one that can hold most types of questions, and most questions, is taken.

    Args:
        history: All sessions of the persona.
        lengths: Tokens of each session, by id.
        questions: Those of the persona.
        n_blocks: How many sessions at most.
        budget: How many tokens at most; None for any.
        rng: Decides.
        taken: Selections of other contexts; one that differs from them is preferred.

    Returns:
        The sessions in order of their dates, which is one order over all topics.
    """
    cores = [question.after_session_ids for question in questions if len(question.after_session_ids) > 1]
    bits = {plan.session_id: 1 << i for i, plan in enumerate(p for topic in history.topics for p in topic.sessions)}
    needs = [(question.question_type, sum(bits[id_] for id_ in question.after_session_ids)) for question in questions]
    best: list[SessionPlan] = []
    best_score = (False, -1, -1)
    for _ in range(_DRAWS):
        core = rng.choice(cores) if cores else ()
        chosen = sorted(_draw(history, lengths, core, n_blocks, budget, rng), key=lambda plan: plan.date)
        score = (chosen not in taken, *_score(sum(bits[plan.session_id] for plan in chosen), needs))
        if score > best_score:
            best, best_score = chosen, score
    return best


def _score(held: int, needs: Sequence[tuple[str, int]]) -> tuple[int, int]:
    """Return how many types of questions can be asked, and of the rarest how many; sessions are bits of a number."""
    possible = Counter([name for name, needed in needs if needed & held == needed])
    return len(possible), min(possible.values(), default=0)


def _draw(
    history: History,
    lengths: Mapping[str, int],
    core: Sequence[str],
    n_blocks: int,
    budget: int | None,
    rng: random.Random,
) -> list[SessionPlan]:
    """Draw one selection, beginning with the sessions that `core` needs, if they fit."""
    chosen: list[SessionPlan] = []
    started: set[str] = set()
    following = {topic.topic: list(topic.sessions) for topic in history.topics}
    tokens = 0

    def take(topic: str) -> bool:
        nonlocal tokens
        plan = following[topic][0]
        if len(chosen) == n_blocks or (budget is not None and tokens + lengths[plan.session_id] > budget):
            return False
        tokens += lengths[plan.session_id]
        chosen.append(following[topic].pop(0))
        started.add(topic)
        return True

    for topic in history.topics:
        needed = [plan.period for plan in topic.sessions if plan.session_id in core]
        for _ in range(max(needed) + 1 if needed else 0):
            take(topic.topic)
    open_ = [topic for topic, plans in following.items() if plans]
    while open_:
        topic_id = rng.choices(open_, [_STAY if topic in started else 1 for topic in open_])[0]
        if not take(topic_id) or not following[topic_id]:
            open_.remove(topic_id)
    return chosen


@cache
def _filler_block(filler_id: str) -> Block:
    return Block(kind="filler", id=filler_id)


def fill(
    records: PersonaRecords,
    chosen: Sequence[SessionPlan],
    fillers: Sequence[Conversation],
    size: Size,
    rng: random.Random,
) -> list[Block]:
    """Put fillers between sessions until a context is long enough; none if it is already, and none twice.

    Returns:
        The conversations of the context in order.

    Raises:
        UserError: There are too few sessions or fillers to reach the size.
    """
    sessions = [Block(kind="session", id=plan.session_id) for plan in chosen]
    if size.max_tokens is None:
        return sessions
    lengths = records.session_tokens()
    tokens = sum(lengths[block.id] for block in sessions)
    least, most = EMPTIEST * size.max_tokens, FULLEST * size.max_tokens
    if tokens >= least:
        return sessions
    wanted = rng.uniform(least, most)
    before: list[list[Block]] = [[] for _ in sessions]
    for filler in rng.sample(fillers, len(fillers)):
        if tokens >= wanted:
            break
        if tokens + filler.num_tokens <= most:
            tokens += filler.num_tokens
            before[rng.randrange(len(sessions))].append(_filler_block(filler.id))
    if tokens < least:
        average = sum(filler.num_tokens for filler in fillers) / len(fillers) if fillers else 600
        missing = math.ceil((least - tokens) / average)
        raise UserError(
            f"persona {records.persona.persona_id} cannot fill the split {size.split}: its {len(sessions)} sessions "
            f"(of at most {size.n_blocks}) and all {len(fillers)} fillers have {tokens:,} tokens of at least "
            f"{least:,.0f}; about {missing} fillers are missing",
            "raise `fillers` in the configuration and generate again, or assemble a smaller split",
        )
    return [block for gap, session in zip(before, sessions, strict=True) for block in (*gap, session)]
