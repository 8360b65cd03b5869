"""Which questions are asked of a history, and what each option asserts: before any text is written.

Each question has four options whose states come from one source. Which of them is right was decided by the timeline's
shuffle, so given the four states alone each is right equally often.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from itertools import permutations
from typing import Final, NamedTuple

from generation.banks.load import Banks
from generation.banks.topic import TopicBank
from generation.config import Config
from generation.records import (
    QUESTION_TYPES,
    STANCES,
    Event,
    History,
    Motive,
    Persona,
    Preference,
    QuestionType,
    Role,
    TopicHistory,
)
from generation.seeds import rng_for
from generation.timeline import stereotyped

_SLOT_SHARE: Final = 0.75  # of the questions that could be about a slot or an item
_UPDATED_SHARE: Final = 0.8  # of the questions about a state, those where the first state no longer holds or returned
_MOTIVE_EVIDENCE: Final = 3  # reasons that show the main motive before it is asked for


class OptionPlan(NamedTuple):
    """What one option asserts, and how that stands to the history."""

    states: tuple[str, ...]
    role: Role
    stereotypical: bool = False


class QuestionPlan(NamedTuple):
    """A question before it is put into words.

    Attributes:
        persona_id: The user.
        question_type: One of the seven.
        topic: What it is about.
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


class _Scope(NamedTuple):
    """What a planner plans from, and the items that questions are about so far."""

    persona: Persona
    history: TopicHistory
    bank: TopicBank
    rng: random.Random
    items: set[str]


def plan_questions(config: Config, persona: Persona, history: History, banks: Banks) -> list[QuestionPlan]:
    """Plan the questions of a persona.

    Args:
        config: The configuration.
        persona: The user.
        history: What happens to them.
        banks: Where options come from.

    Returns:
        For each topic and type as many as the configuration asks for, or as many as the history gives.
    """
    plans: list[QuestionPlan] = []
    for topic in history.topics:
        items: set[str] = set()
        for question_type, planner in _PLANNERS.items():
            rng = rng_for(config.seed, "questions", persona.persona_id, topic.topic, question_type)
            scope = _Scope(persona, topic, banks.topics[topic.topic], rng, items)
            plans += planner(scope, config.questions_per_topic[question_type])
    count = config.questions_per_topic["generalize_to_new_scenarios"] * len(history.topics)
    rng = rng_for(config.seed, "questions", persona.persona_id, "generalize_to_new_scenarios")
    plans += _generalize(persona, history, banks, count, rng)
    return plans


def _plan(
    scope: _Scope,
    question_type: QuestionType,
    kind: str,
    subject: str,
    options: Sequence[OptionPlan],
    evidence: Sequence[Event],
    until: Event | None = None,
) -> QuestionPlan:
    """Make a plan; `until` is the event that changes the answer."""
    return QuestionPlan(
        persona_id=scope.persona.persona_id,
        question_type=question_type,
        topic=scope.history.topic,
        kind=kind,
        subject=subject,
        options=tuple(options),
        evidence=tuple(evidence),
        after_session_ids=_sessions([(scope.history, event) for event in evidence]),
        before_session_id=scope.history.session_of(until).session_id if until else None,
        updates_spanned=sum(event.previous_event_id is not None for event in evidence),
    )


def _sessions(events: Iterable[tuple[TopicHistory, Event]]) -> tuple[str, ...]:
    sessions = {history.session_of(event).session_id: history.session_of(event).date for history, event in events}
    return tuple(sorted(sessions, key=lambda session: sessions[session]))


# --- facts and ideas


def _recall_facts(scope: _Scope, count: int) -> list[QuestionPlan]:
    events = [(scope.history.preference(event.preference_id), event) for event in scope.history.events]
    facts = [(preference, event) for preference, event in events if preference.kind == "fact"]
    plans = []
    for preference, event in scope.rng.sample(facts, min(count, len(facts))):
        others = [fact for fact in preference.candidates if fact != event.state]
        options = [OptionPlan((event.state,), "current"), *(OptionPlan((fact,), "never") for fact in others)]
        plans.append(_plan(scope, "recall_user_shared_facts", "fact", preference.subject, options, [event]))
    return plans


def _suggest_ideas(scope: _Scope, count: int) -> list[QuestionPlan]:
    firsts = {
        scope.history.preference(event.preference_id).subject: event
        for event in scope.history.events
        if event.previous_event_id is None and scope.history.preference(event.preference_id).kind == "item"
    }
    periods = [p for p in range(len(scope.history.sessions)) if sum(e.period <= p for e in firsts.values()) >= 3]
    plans = []
    for new in scope.rng.sample(scope.history.never, min(count, len(scope.history.never))):
        period = scope.rng.choice(periods)
        mentioned = scope.rng.sample([item for item, event in firsts.items() if event.period <= period], 3)
        options = [OptionPlan((new,), "new"), *(OptionPlan((item,), "mentioned") for item in mentioned)]
        evidence = sorted((firsts[item] for item in mentioned), key=lambda event: event.date)
        plans.append(_plan(scope, "suggest_new_ideas", "idea", "", options, evidence))
    return plans


# --- states, their course, and their reasons


class _State(NamedTuple):
    """A preference as it stands after the last event of a chain."""

    preference: Preference
    chain: list[Event]

    @property
    def current(self) -> str:
        return self.chain[-1].state


def _states(scope: _Scope, kind: str) -> list[_State]:
    return [
        _State(preference, scope.history.chain(preference.preference_id, event.period))
        for event in scope.history.events
        if (preference := scope.history.preference(event.preference_id)).kind == kind
    ]


def _draw_states(scope: _Scope, count: int, kinds: dict[str, list[_State]]) -> list[_State]:
    """Draw states without repeats: most of slots, and most of them after an update."""
    left = {
        (kind, updated): scope.rng.sample(some, len(some))
        for kind, states in kinds.items()
        for updated in (True, False)
        if (some := [state for state in states if (len(state.chain) > 1) == updated])
    }
    drawn: list[_State] = []
    while left and len(drawn) < count:
        shares = {
            (kind, updated): (_SLOT_SHARE if kind == "slot" else 1 - _SLOT_SHARE)
            * (_UPDATED_SHARE if updated else 1 - _UPDATED_SHARE)
            for kind, updated in left
        }
        key = scope.rng.choices(list(shares), list(shares.values()))[0]
        drawn.append(left[key].pop())
        if not left[key]:
            del left[key]
    return drawn


def _acknowledge(scope: _Scope, count: int) -> list[QuestionPlan]:
    kinds = {"slot": _states(scope, "slot"), "item": _states(scope, "item")}
    plans = []
    for state in _draw_states(scope, count, kinds):
        scope.items.add(state.preference.subject)
        options = _value_options(state) if state.preference.kind == "slot" else _stance_options(state)
        plans.append(_state_plan(scope, "acknowledge_latest_user_preferences", state, options))
    return plans


def _state_plan(
    scope: _Scope, question_type: QuestionType, state: _State, options: Sequence[OptionPlan]
) -> QuestionPlan:
    preference = state.preference
    until = scope.history.next_event(state.chain[-1])
    return _plan(scope, question_type, preference.kind, preference.subject, options, state.chain, until)


def _value_options(state: _State, marked: Iterable[str] = ()) -> list[OptionPlan]:
    held = {event.state for event in state.chain}
    options = [OptionPlan((state.current,), "current", state.current in marked)]
    for value in state.preference.candidates:
        if value != state.current:
            options.append(OptionPlan((value,), "outdated" if value in held else "never", value in marked))
    return options


def _stance_options(state: _State) -> list[OptionPlan]:
    """Both stances on the item, and both on one that the user never mentions."""
    item = state.preference.subject
    options = [OptionPlan((stance_state(state.current, item),), "current")]
    for candidate in state.preference.candidates:
        for stance in STANCES:
            if (candidate, stance) != (item, state.current):
                role: Role = "outdated" if candidate == item and len(state.chain) > 1 else "never"
                options.append(OptionPlan((stance_state(stance, candidate),), role))
    return options


def stance_state(stance: str, item: str) -> str:
    """Return how a stance on an item is recorded: `like: night trains`."""
    return f"{stance}: {item}"


def _recommend(scope: _Scope, count: int) -> list[QuestionPlan]:
    marked = {slot.id: stereotyped(slot, scope.persona) for slot in scope.bank.slots}
    states = _states(scope, "slot")
    # Where there is a stereotype, exactly one of the four options follows it.
    with_stereotype = [s for s in states if marked[s.preference.subject] & set(s.preference.candidates)]
    plans = []
    for state in _draw_states(scope, count, {"slot": with_stereotype or states}):
        options = _value_options(state, marked[state.preference.subject])
        plans.append(_state_plan(scope, "provide_preference_aligned_recommendations", state, options))
    return plans


def _track_evolution(scope: _Scope, count: int) -> list[QuestionPlan]:
    kinds = {kind: [s for s in _states(scope, kind) if len(s.chain) > 1] for kind in ("slot", "item")}
    plans = []
    for state in _draw_states(scope, count, kinds):
        scope.items.add(state.preference.subject)
        true = tuple(event.state for event in state.chain)
        if state.preference.kind == "slot":
            others = _other_courses(true, state.preference.candidates, scope.rng)
        else:
            item = state.preference.subject
            course = [true, tuple(STANCES[1 - STANCES.index(stance)] for stance in true)]
            accounts = [
                tuple(stance_state(stance, candidate) for stance in stances)
                for candidate in state.preference.candidates
                for stances in course
            ]
            true = tuple(stance_state(event.state, item) for event in state.chain)
            others = [account for account in accounts if account != true]
        options = [OptionPlan(true, "current"), *(OptionPlan(account, "never") for account in others)]
        plans.append(_state_plan(scope, "track_full_preference_evolution", state, options))
    return plans


def _other_courses(true: tuple[str, ...], candidates: Sequence[str], rng: random.Random) -> list[tuple[str, ...]]:
    """Return three other courses of as many steps, such that each of the four could as well be the true one."""
    held = list(dict.fromkeys(true))
    pairs: list[tuple[str, ...]]
    if len(held) == 2:
        # Both orders of the two values, and both of the two that were not held: all four candidates occur alike.
        first, second = rng.sample([value for value in candidates if value not in held], 2)
        pairs = [(held[0], held[1]), (held[1], held[0]), (first, second), (second, first)]
    else:
        pairs = list(permutations(held, len(held)))
    courses = [tuple(pair[held.index(value)] for value in true) for pair in pairs]
    wrong = [course for course in courses if course != true]
    return rng.sample(wrong, 3)


def _revisit_reasons(scope: _Scope, count: int) -> list[QuestionPlan]:
    updates = [event for event in scope.history.events if event.reason is not None]
    # The message names an item: not one of which another question asks whether the user has a view on it.
    open_ = [e for e in updates if scope.history.preference(e.preference_id).subject not in scope.items]
    plans = []
    for event in _draw_updates(open_, count, scope.rng):
        preference = scope.history.preference(event.preference_id)
        options = _reason_options(scope, event, updates)
        until = scope.history.next_event(event)
        plans.append(
            _plan(
                scope,
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


def _reason_options(scope: _Scope, event: Event, updates: Sequence[Event]) -> list[OptionPlan]:
    """The true reason, one of another motive of the user's, and two of motives that they never show.

    So each motive occurs in half of a user's questions, and how often it does tells nothing. The reason of another
    motive is that of another change where the user has told one.
    """
    assert event.reason is not None
    persona = scope.persona
    given = {update.reason for update in updates}
    told: dict[Motive, list[str]] = {}
    for other in updates:
        if other.period <= event.period and other.motive is not None and other.reason is not None:
            told.setdefault(other.motive, []).append(other.reason)
    free = {motive: [r.recalled for r in rs if r.recalled not in given] for motive, rs in scope.bank.reasons.items()}
    own = [m for m in (persona.motive, *persona.secondary_motives) if m != event.motive and (m in told or free[m])]
    options = [OptionPlan((event.reason,), "current")]
    if own:
        motive = scope.rng.choice(own)
        if motive in told:
            options.append(OptionPlan((scope.rng.choice(told[motive]),), "other"))
        else:
            options.append(OptionPlan((scope.rng.choice(free[motive]),), "never"))
    for foreign in scope.rng.sample(persona.absent_motives(), 4 - len(options)):
        options.append(OptionPlan((scope.rng.choice(free[foreign]),), "never"))
    return options


_Planner = Callable[[_Scope, int], list[QuestionPlan]]
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
