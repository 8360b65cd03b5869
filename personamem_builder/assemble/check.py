"""Every answer is checked once more against what its context shows: the visible events are replayed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from generation.history_records import Event, History, tried_items
from generation.option_plans import stance_state
from generation.records import Option, Question
from personamem_builder.assemble.layout import Layout


class _ToldEvent(NamedTuple):
    """An event that a context tells, what it is about, and the index of its message."""

    place: int
    kind: str
    subject: str
    event: Event


class _VisibleHistory(NamedTuple):
    """What the visible part of a context says of a topic: the events of each preference, and the motives of changes."""

    courses: dict[tuple[str, str], list[Event]]
    motives: Sequence[str]


class Replay:
    """The events that a context tells, to be replayed up to any point."""

    def __init__(self, history: History, layout: Layout) -> None:
        self._places = layout.event_places
        self._topics: dict[str, list[_ToldEvent]] = {}
        self._topic_of: dict[str, str] = {}
        for topic in history.topics:
            preferences = {p.preference_id: p for p in topic.preferences}
            told = self._topics[topic.topic] = []
            for event in topic.events:
                if (place := layout.event_places.get(event.event_id)) is not None:
                    preference = preferences[event.preference_id]
                    told.append(_ToldEvent(place, preference.kind, preference.subject, event))
                    self._topic_of[event.event_id] = topic.topic
            told.sort(key=lambda entry: entry.place)

    def contradictions(self, question: Question, end: int) -> list[str]:
        """Return what is wrong before message `end`: a gold that does not hold, or a wrong option that does."""
        hidden = [event_id for event_id in question.evidence_event_ids if self._places.get(event_id, end) >= end]
        faults = [f"evidence {event_id} is not visible" for event_id in hidden]
        # A new scenario is no topic of the history: what moves the user is shown in that of the evidence.
        first = question.evidence_event_ids[0] if question.evidence_event_ids else ""
        shown = self._visible(self._topic_of.get(first, question.topic), end)
        holds = _HOLDS[question.question_type]
        for i, option in enumerate(question.options):
            held = option.role != "generic" and holds(shown, question, option)
            if held != (i == question.answer_index):
                says = "holds, but is no answer" if i != question.answer_index else "is the answer, but does not hold"
                faults.append(f"option {i} ({'; '.join(option.states)}) {says}")
        return faults

    def _visible(self, topic: str, end: int) -> _VisibleHistory:
        courses: dict[tuple[str, str], list[Event]] = {}
        motives = []
        for told in self._topics.get(topic, []):
            if told.place < end:
                courses.setdefault((told.kind, told.subject), []).append(told.event)
                if told.event.motive is not None:
                    motives.append(told.event.motive)
        return _VisibleHistory(courses, motives)


def _fact(shown: _VisibleHistory, question: Question, option: Option) -> bool:
    events = [event for (kind, _), events in shown.courses.items() if kind == "fact" for event in events]
    return option.states[0] in {event.state for event in events}


def _new_idea(shown: _VisibleHistory, question: Question, option: Option) -> bool:
    trials = [event.state for (kind, _), events in shown.courses.items() if kind == "trial" for event in events]
    return option.states[0] not in {item for state in trials for item in tried_items(state)}


def _latest(shown: _VisibleHistory, question: Question, option: Option) -> bool:
    return _course(shown, question, option)[-1:] == list(option.states)


def _whole_course(shown: _VisibleHistory, question: Question, option: Option) -> bool:
    return _course(shown, question, option) == list(option.states)


def _course(shown: _VisibleHistory, question: Question, option: Option) -> list[str]:
    """Return the states that the context shows for what an option speaks of, in the option's own form."""
    if ("slot", question.subject) in shown.courses:
        return [event.state for event in shown.courses["slot", question.subject]]
    item = option.states[0].partition(": ")[2]
    return [stance_state(event.state, item) for event in shown.courses.get(("item", item), [])]


def _reason(shown: _VisibleHistory, question: Question, option: Option) -> bool:
    course = next(
        (shown.courses[k, question.subject] for k in ("slot", "item") if (k, question.subject) in shown.courses), []
    )
    return bool(course) and course[-1].reason == option.states[0]


def _motive(shown: _VisibleHistory, question: Question, option: Option) -> bool:
    counts = Counter(shown.motives)
    own = counts[option.states[0]]
    return own > max((count for motive, count in counts.items() if motive != option.states[0]), default=0)


_HOLDS: Final[dict[str, Callable[[_VisibleHistory, Question, Option], bool]]] = {
    "recall_user_shared_facts": _fact,
    "suggest_new_ideas": _new_idea,
    "acknowledge_latest_user_preferences": _latest,
    "track_full_preference_evolution": _whole_course,
    "revisit_reasons_behind_preference_updates": _reason,
    "provide_preference_aligned_recommendations": _latest,
    "generalize_to_new_scenarios": _motive,
}
"""For each type, whether an option holds."""
