"""Which questions are asked of a history, with their evidence: before any text is written."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from generation.banks.load import Banks
from generation.banks.topic import TopicBank
from generation.config import Config
from generation.option_plans import (
    OptionPlan,
    PreferenceState,
    course_options,
    reason_options,
    stance_options,
    value_options,
)
from generation.records import QUESTION_TYPES, Event, History, Motive, Persona, QuestionType, TopicHistory
from generation.seeds import rng_for
from generation.timeline import stereotyped

_SLOT_SHARE: Final = 0.75  # of the questions that could be about a slot or an item
_UPDATED_SHARE: Final = 0.8  # of the questions about a state, those where the first state no longer holds or returned
_MOTIVE_EVIDENCE: Final = 3  # reasons that show the main motive before it is asked for


class QuestionPlan(NamedTuple):
    """A question before it is put into words.

    Attributes:
        kind: What the subject is: `slot`, `item`, `fact`, `idea` or `scenario`.
        subject: Id of the slot, kind of fact or scenario, or the item; empty for an idea.
        options: Four; the first is right.
        evidence: The events that decide, in order of time.
        after_session_ids: Sessions that must lie before the question.
        before_session_id: The session that must not.
        updates_spanned: How many updates lie among the evidence.
    """

    persona_id: int
    question_type: QuestionType
    topic: str
    kind: str
    subject: str
    options: tuple[OptionPlan, ...]
    evidence: tuple[Event, ...]
    after_session_ids: tuple[str, ...]
    before_session_id: str | None
    updates_spanned: int


class _TopicContext(NamedTuple):
    """What the questions of a topic are planned from, and the items that they are about so far."""

    persona: Persona
    history: TopicHistory
    bank: TopicBank
    rng: random.Random
    items: set[str]


def plan_questions(config: Config, persona: Persona, history: History, banks: Banks) -> list[QuestionPlan]:
    """Plan a persona's questions: of each topic and type as many as the configuration asks for, or the history has."""
    plans: list[QuestionPlan] = []
    for topic in history.topics:
        items: set[str] = set()
        for question_type, planner in _PLANNERS.items():
            rng = rng_for(config.seed, "questions", persona.persona_id, topic.topic, question_type)
            context = _TopicContext(persona, topic, banks.topics[topic.topic], rng, items)
            plans += planner(context, config.questions_per_topic[question_type])
    count = config.questions_per_topic["generalize_to_new_scenarios"] * len(history.topics)
    rng = rng_for(config.seed, "questions", persona.persona_id, "generalize_to_new_scenarios")
    plans += _generalize(persona, history, banks, count, rng)
    return plans


def _plan(
    topic: _TopicContext,
    question_type: QuestionType,
    kind: str,
    subject: str,
    options: Sequence[OptionPlan],
    evidence: Sequence[Event],
    until: Event | None = None,
) -> QuestionPlan:
    """Make a plan; `until` is the event that changes the answer."""
    return QuestionPlan(
        persona_id=topic.persona.persona_id,
        question_type=question_type,
        topic=topic.history.topic,
        kind=kind,
        subject=subject,
        options=tuple(options),
        evidence=tuple(evidence),
        after_session_ids=_sessions([(topic.history, event) for event in evidence]),
        before_session_id=topic.history.session_of(until).session_id if until else None,
        updates_spanned=sum(event.previous_event_id is not None for event in evidence),
    )


def _sessions(events: Iterable[tuple[TopicHistory, Event]]) -> tuple[str, ...]:
    sessions = {history.session_of(event).session_id: history.session_of(event).date for history, event in events}
    return tuple(sorted(sessions, key=lambda session: sessions[session]))


# --- facts and ideas


def _recall_facts(topic: _TopicContext, count: int) -> list[QuestionPlan]:
    events = [(topic.history.preference(event.preference_id), event) for event in topic.history.events]
    facts = [(preference, event) for preference, event in events if preference.kind == "fact"]
    plans = []
    for preference, event in topic.rng.sample(facts, min(count, len(facts))):
        others = [fact for fact in preference.candidates if fact != event.state]
        options = [OptionPlan((event.state,), "current"), *(OptionPlan((fact,), "never") for fact in others)]
        plans.append(_plan(topic, "recall_user_shared_facts", "fact", preference.subject, options, [event]))
    return plans


def _suggest_ideas(topic: _TopicContext, count: int) -> list[QuestionPlan]:
    firsts = {
        topic.history.preference(event.preference_id).subject: event
        for event in topic.history.events
        if event.previous_event_id is None and topic.history.preference(event.preference_id).kind == "item"
    }
    periods = [p for p in range(len(topic.history.sessions)) if sum(e.period <= p for e in firsts.values()) >= 3]
    plans = []
    for new in topic.rng.sample(topic.history.never, min(count, len(topic.history.never))):
        period = topic.rng.choice(periods)
        mentioned = topic.rng.sample([item for item, event in firsts.items() if event.period <= period], 3)
        options = [OptionPlan((new,), "new"), *(OptionPlan((item,), "mentioned") for item in mentioned)]
        evidence = sorted((firsts[item] for item in mentioned), key=lambda event: event.date)
        plans.append(_plan(topic, "suggest_new_ideas", "idea", "", options, evidence))
    return plans


# --- states, their course, and their reasons


def _states(topic: _TopicContext, kind: str) -> list[PreferenceState]:
    return [
        PreferenceState(preference, topic.history.chain(preference.preference_id, event.period))
        for event in topic.history.events
        if (preference := topic.history.preference(event.preference_id)).kind == kind
    ]


def _draw_states(topic: _TopicContext, count: int, kinds: dict[str, list[PreferenceState]]) -> list[PreferenceState]:
    """Draw states without repeats: most of slots, and most of them after an update."""
    left = {
        (kind, updated): topic.rng.sample(some, len(some))
        for kind, states in kinds.items()
        for updated in (True, False)
        if (some := [state for state in states if (len(state.chain) > 1) == updated])
    }
    drawn: list[PreferenceState] = []
    while left and len(drawn) < count:
        shares = {
            (kind, updated): (_SLOT_SHARE if kind == "slot" else 1 - _SLOT_SHARE)
            * (_UPDATED_SHARE if updated else 1 - _UPDATED_SHARE)
            for kind, updated in left
        }
        key = topic.rng.choices(list(shares), list(shares.values()))[0]
        drawn.append(left[key].pop())
        if not left[key]:
            del left[key]
    return drawn


def _acknowledge(topic: _TopicContext, count: int) -> list[QuestionPlan]:
    kinds = {"slot": _states(topic, "slot"), "item": _states(topic, "item")}
    plans = []
    for state in _draw_states(topic, count, kinds):
        topic.items.add(state.preference.subject)
        options = value_options(state) if state.preference.kind == "slot" else stance_options(state)
        plans.append(_state_plan(topic, "acknowledge_latest_user_preferences", state, options))
    return plans


def _state_plan(
    topic: _TopicContext, question_type: QuestionType, state: PreferenceState, options: Sequence[OptionPlan]
) -> QuestionPlan:
    preference = state.preference
    until = topic.history.next_event(state.chain[-1])
    return _plan(topic, question_type, preference.kind, preference.subject, options, state.chain, until)


def _recommend(topic: _TopicContext, count: int) -> list[QuestionPlan]:
    marked = {slot.id: stereotyped(slot, topic.persona) for slot in topic.bank.slots}
    states = _states(topic, "slot")
    # Where there is a stereotype, exactly one of the four options follows it.
    with_stereotype = [s for s in states if marked[s.preference.subject] & set(s.preference.candidates)]
    plans = []
    for state in _draw_states(topic, count, {"slot": with_stereotype or states}):
        options = value_options(state, marked[state.preference.subject])
        plans.append(_state_plan(topic, "provide_preference_aligned_recommendations", state, options))
    return plans


def _track_evolution(topic: _TopicContext, count: int) -> list[QuestionPlan]:
    kinds = {kind: [s for s in _states(topic, kind) if len(s.chain) > 1] for kind in ("slot", "item")}
    plans = []
    for state in _draw_states(topic, count, kinds):
        topic.items.add(state.preference.subject)
        options = course_options(state, topic.rng)
        plans.append(_state_plan(topic, "track_full_preference_evolution", state, options))
    return plans


def _revisit_reasons(topic: _TopicContext, count: int) -> list[QuestionPlan]:
    updates = [event for event in topic.history.events if event.reason is not None]
    # The message names an item: not one of which another question asks whether the user has a view on it.
    open_ = [e for e in updates if topic.history.preference(e.preference_id).subject not in topic.items]
    plans = []
    for event in _draw_updates(open_, count, topic.rng):
        preference = topic.history.preference(event.preference_id)
        options = reason_options(topic.persona, topic.bank, event, updates, topic.rng)
        until = topic.history.next_event(event)
        plans.append(
            _plan(
                topic,
                "revisit_reasons_behind_preference_updates",
                preference.kind,
                preference.subject,
                options,
                [event],
                until,
            )
        )
    return plans


def _draw_updates(updates: Sequence[Event], count: int, rng: random.Random) -> list[Event]:
    """Draw updates such that each motive of the user is the reason about equally often."""
    left: dict[Motive, list[Event]] = {}
    for event in rng.sample(list(updates), len(updates)):
        assert event.motive is not None
        left.setdefault(event.motive, []).append(event)
    drawn: list[Event] = []
    while left and len(drawn) < count:
        motive = rng.choice(sorted(left))
        drawn.append(left[motive].pop())
        if not left[motive]:
            del left[motive]
    return drawn


_Planner = Callable[[_TopicContext, int], list[QuestionPlan]]
_PLANNERS: Final[dict[QuestionType, _Planner]] = {
    "recall_user_shared_facts": _recall_facts,
    "suggest_new_ideas": _suggest_ideas,
    "acknowledge_latest_user_preferences": _acknowledge,
    "track_full_preference_evolution": _track_evolution,
    "revisit_reasons_behind_preference_updates": _revisit_reasons,
    "provide_preference_aligned_recommendations": _recommend,
}
assert set(_PLANNERS) == set(QUESTION_TYPES) - {"generalize_to_new_scenarios"}


# --- motives


def _generalize(persona: Persona, history: History, banks: Banks, count: int, rng: random.Random) -> list[QuestionPlan]:
    shown = [(t, e) for t in history.topics for e in t.events if e.motive == persona.motive]
    topics = list(dict.fromkeys(topic.topic for topic, _ in shown))
    if len(topics) < 2:
        return []
    scenarios = banks.scenarios.scenarios
    order = rng.sample(scenarios, len(scenarios))
    # The same three in all questions of a user: else the motive that occurs in every one of them would be the answer.
    others = rng.sample(persona.absent_motives(), 3)
    plans = []
    for i in range(count):
        scenario = order[i % len(order)]
        if i % 2:
            # The first changes of two topics: short histories can hold them too.
            among = set(rng.sample(topics, 2))
            early = sorted((pair for pair in shown if pair[0].topic in among), key=lambda pair: pair[1].period)
            evidence = _motive_evidence(early)
        else:
            among = set(rng.sample(topics, min(_MOTIVE_EVIDENCE, len(topics))))
            pairs = [pair for pair in shown if pair[0].topic in among]
            evidence = _motive_evidence(rng.sample(pairs, len(pairs)))
        options = [OptionPlan((persona.motive,), "current"), *(OptionPlan((motive,), "never") for motive in others)]
        plans.append(
            QuestionPlan(
                persona_id=persona.persona_id,
                question_type="generalize_to_new_scenarios",
                topic=scenario.domain,
                kind="scenario",
                subject=scenario.id,
                options=tuple(options),
                evidence=tuple(event for _, event in evidence),
                after_session_ids=_sessions(evidence),
                before_session_id=None,
                updates_spanned=len(evidence),
            )
        )
    return plans


def _motive_evidence(order: Sequence[tuple[TopicHistory, Event]]) -> list[tuple[TopicHistory, Event]]:
    """Take events that show the motive, the first ones of an order, but at least one of each topic."""
    first: dict[str, tuple[TopicHistory, Event]] = {}
    for topic, event in order:
        first.setdefault(topic.topic, (topic, event))
    chosen = {event.event_id for _, event in first.values()}
    rest = [(topic, event) for topic, event in order if event.event_id not in chosen]
    evidence = [*first.values(), *rest[: max(0, _MOTIVE_EVIDENCE - len(first))]]
    return sorted(evidence, key=lambda pair: (pair[1].date, pair[1].event_id))
