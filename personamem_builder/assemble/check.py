"""Every answer is checked once more against what its context shows: the visible events are replayed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

from generation.question_plans import stance_state
from generation.records import Event, History, Option, Question
from personamem_builder.assemble.layout import Layout


class _Shown(NamedTuple):
    """What the visible part of a context says about a topic, and about motives.

    Attributes:
        courses: For each preference, by kind and subject, its visible events in order.
        motives: How often each motive was the reason of a change, over all topics.
    """

    courses: dict[tuple[str, str], list[Event]]
    motives: Counter[str]

    def course(self, question: Question) -> list[Event]:
        return self.courses.get(("slot", question.subject)) or self.courses.get(("item", question.subject), [])


def contradictions(history: History, layout: Layout, question: Question, end: int) -> list[str]:
    """Return what is wrong with a question at a point: a gold that does not hold, or a wrong option that does.

    Args:
        history: Of the persona.
        layout: The context.
        question: The question.
        end: The index before which messages are visible.
    """
    hidden = [e for e in question.evidence_event_ids if layout.event_places.get(e, end) >= end]
    faults = [f"evidence {event_id} is not visible" for event_id in hidden]
    shown = _shown(history, layout, question.topic, end)
    holds = _HOLDS[question.question_type]
    for i, option in enumerate(question.options):
        if holds(shown, question, option) != (i == question.answer_index):
            says = "holds, but is no answer" if i != question.answer_index else "is the answer, but does not hold"
            faults.append(f"option {i} ({'; '.join(option.states)}) {says}")
    return faults


def _shown(history: History, layout: Layout, topic_id: str, end: int) -> _Shown:
    courses: dict[tuple[str, str], list[Event]] = {}
    motives: Counter[str] = Counter()
    for topic in history.topics:
        preferences = {p.preference_id: p for p in topic.preferences}
        for event in topic.events:
            if layout.event_places.get(event.event_id, end) >= end:
                continue
            if event.motive is not None:
                motives[event.motive] += 1
            if topic.topic == topic_id:
                preference = preferences[event.preference_id]
                courses.setdefault((preference.kind, preference.subject), []).append(event)
    for events in courses.values():
        events.sort(key=lambda event: layout.event_places[event.event_id])
    return _Shown(courses, motives)


def _fact(shown: _Shown, question: Question, option: Option) -> bool:
    events = [event for (kind, _), events in shown.courses.items() if kind == "fact" for event in events]
    return option.states[0] in {event.state for event in events}


def _new_idea(shown: _Shown, question: Question, option: Option) -> bool:
    return ("item", option.states[0]) not in shown.courses


def _latest(shown: _Shown, question: Question, option: Option) -> bool:
    return _course(shown, question, option)[-1:] == list(option.states)


def _whole_course(shown: _Shown, question: Question, option: Option) -> bool:
    return _course(shown, question, option) == list(option.states)


def _course(shown: _Shown, question: Question, option: Option) -> list[str]:
    """Return the states that the context shows for what an option speaks of, in the option's own form."""
    if ("slot", question.subject) in shown.courses:
        return [event.state for event in shown.courses["slot", question.subject]]
    item = option.states[0].partition(": ")[2]
    return [stance_state(event.state, item) for event in shown.courses.get(("item", item), [])]


def _reason(shown: _Shown, question: Question, option: Option) -> bool:
    course = shown.course(question)
    return bool(course) and course[-1].reason == option.states[0]


def _motive(shown: _Shown, question: Question, option: Option) -> bool:
    return shown.motives[option.states[0]] > 0


_HOLDS: Final[dict[str, Callable[[_Shown, Question, Option], bool]]] = {
    "recall_user_shared_facts": _fact,
    "suggest_new_ideas": _new_idea,
    "acknowledge_latest_user_preferences": _latest,
    "track_full_preference_evolution": _whole_course,
    "revisit_reasons_behind_preference_updates": _reason,
    "provide_preference_aligned_recommendations": _latest,
    "generalize_to_new_scenarios": _motive,
}
"""For each type, whether an option holds."""
