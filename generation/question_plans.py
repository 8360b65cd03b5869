"""Which questions are asked of a history, with their evidence: before any text is written."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from generation.banks.load import Banks
from generation.banks.topic import TopicBank
from generation.config import Config
from generation.history_records import Event, History, TopicHistory, tried_items
from generation.option_plans import (
    GENERIC,
    OptionPlan,
    PreferenceState,
    course_options,
    generic_places,
    reason_options,
    stance_options,
    value_options,
)
from generation.preference_plans import stereotyped
from generation.records import GENERIC_TYPES, QUESTION_TYPES, Motive, Persona, QuestionType
from generation.seeds import rng_for

_SLOT_SHARE: Final = 0.75  # of the questions that could be about a slot or an item
_UPDATED_SHARE: Final = 0.9  # of the questions about a state, those where the first state no longer holds or returned
_MOTIVE_EVIDENCE: Final = 2  # reasons that show what moves a user most in a topic, at least


class QuestionPlan(NamedTuple):
    """A question before it is put into words.

    Attributes:
        persona: Of whom it is asked, and who asks it.
        kind: What the subject is: `slot`, `item`, `fact`, `trial` or `scenario`.
        subject: Id of the slot, kind of fact or scenario, or the item; empty for a trial.
        about: For a scenario the topic whose changes show what moves the user; else empty.
        options: Four; the first is right. All are put into words.
        evidence: The events that decide, in order of time.
        after_session_ids: Sessions that must lie before the question.
        before_session_id: The session that must not.
        updates_spanned: How many updates lie among the evidence.
        generic: The wrong options, by their indices, whose places generic ones take in the end.
    """

    persona: Persona
    question_type: QuestionType
    topic: str
    kind: str
    subject: str
    options: tuple[OptionPlan, ...]
    evidence: tuple[Event, ...]
    after_session_ids: tuple[str, ...]
    before_session_id: str | None
    updates_spanned: int
    about: str = ""
    generic: tuple[int, ...] = ()

    @property
    def persona_id(self) -> int:
        """The id of the persona."""
        return self.persona.persona_id

    @property
    def shown(self) -> list[OptionPlan]:
        """The options as they are asked."""
        return [GENERIC if i in self.generic else option for i, option in enumerate(self.options)]


class _TopicContext(NamedTuple):
    """What the questions of a topic are planned from."""

    persona: Persona
    history: TopicHistory
    bank: TopicBank
    rng: random.Random


def plan_questions(config: Config, persona: Persona, history: History, banks: Banks) -> list[QuestionPlan]:
    """Plan a persona's questions: of each topic and type as many as the configuration asks for, or the history has."""
    plans: list[QuestionPlan] = []
    for topic in history.topics:
        for question_type, planner in _PLANNERS.items():
            rng = rng_for(config.seed, "questions", persona.persona_id, topic.topic, question_type)
            context = _TopicContext(persona, topic, banks.topics[topic.topic], rng)
            plans += planner(context, config.questions_per_topic[question_type])
    count = config.questions_per_topic["generalize_to_new_scenarios"]
    rng = rng_for(config.seed, "questions", persona.persona_id, "generalize_to_new_scenarios")
    return [_with_generic(plan, config) for plan in (*plans, *_generalize(persona, history, banks, count, rng))]


def _with_generic(plan: QuestionPlan, config: Config) -> QuestionPlan:
    if not config.generic_distractors or plan.question_type not in GENERIC_TYPES:
        return plan
    subject = () if plan.kind == "scenario" else (plan.topic, plan.subject)  # scenarios share their options
    rng = rng_for(config.seed, "generic", plan.persona_id, plan.kind, *subject)
    return plan._replace(generic=generic_places(plan.options, config.generic_distractors, rng))


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
        persona=topic.persona,
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
    trials = [event for event in topic.history.events if topic.history.preference(event.preference_id).kind == "trial"]
    plans = []
    for event in topic.rng.sample(trials, min(count, len(trials))):
        tried = tried_items(event.state)
        new = [item for item in topic.history.preference(event.preference_id).candidates if item not in tried]
        options = [*(OptionPlan((item,), "new") for item in new), *(OptionPlan((item,), "tried") for item in tried)]
        plans.append(_plan(topic, "suggest_new_ideas", "trial", "", options, [event]))
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
    if any(len(state.chain) > 1 for states in kinds.values() for state in states):
        kinds = {kind: [state for state in states if len(state.chain) > 1] for kind, states in kinds.items()}
    plans = []
    for state in _draw_states(topic, count, kinds):
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
    with_stereotype = [s for s in states if len(marked[s.preference.subject] & set(s.preference.candidates)) == 1]
    plans = []
    for state in _draw_states(topic, count, {"slot": with_stereotype or states}):
        options = value_options(state, marked[state.preference.subject])
        plans.append(_state_plan(topic, "provide_preference_aligned_recommendations", state, options))
    return plans


def _track_evolution(topic: _TopicContext, count: int) -> list[QuestionPlan]:
    kinds = {kind: [s for s in _states(topic, kind) if len(s.chain) > 1] for kind in ("slot", "item")}
    plans = []
    for state in _draw_states(topic, count, kinds):
        options = course_options(state)
        plans.append(_state_plan(topic, "track_full_preference_evolution", state, options))
    return plans


def _revisit_reasons(topic: _TopicContext, count: int) -> list[QuestionPlan]:
    updates = [event for event in topic.history.events if event.reason is not None]
    # Of a slot: whatever value it is left for, all reasons fit; why something is liked is no reason to dislike it.
    of_slots = [e for e in updates if topic.history.preference(e.preference_id).kind == "slot"]
    plans = []
    for event in _draw_updates(of_slots, count, topic.rng):
        preference = topic.history.preference(event.preference_id)
        given = {other.reason for other in updates if other.period <= event.period}
        options = reason_options(event, topic.history.beside(event), given)
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
    """Ask for advice in scenarios of their own, by what moves the user most in a topic.

    The options are what moves the user in this topic or another: the same four motives in all questions of a user.
    """
    shown = [(topic, found) for topic in history.topics for found in _motive_shown(topic)]
    order = rng.sample(banks.scenarios.scenarios, len(banks.scenarios.scenarios))
    chosen = _spread_over_topics(shown, count, rng)
    plans = []
    for scenario, (topic, evidence) in zip(order, chosen, strict=False):
        options = [OptionPlan((topic.motive,), "current")]
        options += [OptionPlan((motive,), "never") for motive in persona.motives if motive != topic.motive]
        plans.append(
            QuestionPlan(
                persona=persona,
                question_type="generalize_to_new_scenarios",
                topic=scenario.domain,
                kind="scenario",
                subject=scenario.id,
                options=tuple(options),
                evidence=tuple(evidence),
                after_session_ids=_sessions([(topic, event) for event in evidence]),
                before_session_id=_motive_until(topic, evidence),
                updates_spanned=len(evidence),
                about=topic.topic,
            )
        )
    return plans


def _motive_shown(topic: TopicHistory) -> list[list[Event]]:
    """Return the changes that show the main motive of a topic, up to each session by which it leads the others."""
    found: list[list[Event]] = []
    for session in topic.sessions:
        updates = [event for event in topic.events if event.motive is not None and event.period <= session.period]
        main = [event for event in updates if event.motive == topic.motive]
        if _leads(topic.motive, updates) and (not found or main != found[-1]):
            found.append(main)
    return found


def _leads(motive: Motive, updates: Sequence[Event]) -> bool:
    counts = Counter(event.motive for event in updates)
    return counts[motive] >= _MOTIVE_EVIDENCE and all(
        counts[motive] > count for other, count in counts.items() if other != motive
    )


def _motive_until(topic: TopicHistory, evidence: Sequence[Event]) -> str | None:
    """Return the first later session after which the motive of some evidence no longer leads, if there is one."""
    last = max(event.period for event in evidence)
    for session in topic.sessions:
        updates = [event for event in topic.events if event.motive is not None and event.period <= session.period]
        if session.period > last and not _leads(topic.motive, updates):
            return session.session_id
    return None


def _spread_over_topics(
    shown: Sequence[tuple[TopicHistory, list[Event]]], count: int, rng: random.Random
) -> list[tuple[TopicHistory, list[Event]]]:
    """Draw up to so many of each topic, and return them in random order."""
    chosen = []
    for name in dict.fromkeys(topic.topic for topic, _ in shown):
        of_topic = [(topic, events) for topic, events in shown if topic.topic == name]
        chosen += [of_topic[i % len(of_topic)] for i in range(count)]
    return rng.sample(chosen, len(chosen))
