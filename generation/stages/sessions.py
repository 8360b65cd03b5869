"""Stage 3: the conversations that tell what happened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from generation.banks.load import Banks
from generation.banks.topic import TopicBank
from generation.config import Config
from generation.dates import spoken_day, spoken_past
from generation.grammar import mentions
from generation.llm.client import Client, Request
from generation.records import (
    PERIODS,
    Event,
    GeneralEvent,
    History,
    Message,
    Persona,
    Session,
    SessionPlan,
    TopicHistory,
)
from generation.request_facts import EventFacts, SessionFacts
from generation.revision import ask_and_read_back
from generation.seeds import rng_for
from generation.session_text import SessionReply, lengthened, read_back, wording_faults
from generation.text_checks import AIMS
from generation.tokenizer import num_tokens

_LIFE_EVENTS: Final = 3  # of the general history, that a session speaks of at most
_NEWS_DAYS: Final = {"short": 120, "long": 365}  # how long people go on telling of something


class SessionTask(NamedTuple):
    """A session to be written."""

    persona_id: int
    topic: str
    plan: SessionPlan
    facts: SessionFacts


def session_tasks(config: Config, persona: Persona, history: History, banks: Banks) -> list[SessionTask]:
    """Return the sessions of a persona that are to be written, topic by topic."""
    return [
        SessionTask(
            persona_id=persona.persona_id,
            topic=topic.topic,
            plan=plan,
            facts=_facts(config, persona, history, topic, plan, banks),
        )
        for topic in history.topics
        for plan in topic.sessions
    ]


def _facts(
    config: Config, persona: Persona, history: History, topic: TopicHistory, plan: SessionPlan, banks: Banks
) -> SessionFacts:
    rng = rng_for(config.seed, "session", persona.persona_id, topic.topic, plan.period)
    bank = banks.topics[topic.topic]
    reversals = {entry.id: entry.after for entry in banks.life.events if entry.after is not None}
    events = {event.event_id: event for event in topic.events}
    turns = rng.randint(config.turns_per_session.min, config.turns_per_session.max)
    return {
        "persona_id": persona.persona_id,
        "name": persona.name,
        "profile": persona.profile,
        "topic": topic.topic,
        "topic_label": bank.label,
        "period": PERIODS[plan.period],
        "period_index": plan.period,
        "date": plan.date.isoformat(),
        "spoken_date": spoken_day(plan.date),
        "turns": turns,
        "events": [
            _event_facts(events[event_id], topic, bank, spoken_past(events[event_id].date, plan.date, rng))
            for event_id in plan.event_ids
        ],
        "life": [
            {
                "event_id": event.event_id,
                "subject": event.subject,
                "text": event.text,
                "when": spoken_past(event.date, plan.date, rng),
            }
            for event in _life_events(config, history.general, topic, plan, reversals)[: turns - len(plan.event_ids)]
        ],
        "never": _never(topic),
        "words": dict(AIMS),
    }


def _never(topic: TopicHistory) -> list[str]:
    """Return the items that the user never mentions and the values that options name but the user never holds."""
    held = {event.state for event in topic.events}
    slots = [preference for preference in topic.preferences if preference.kind == "slot"]
    return [*topic.never, *(value for slot in slots for value in slot.candidates if value not in held)]


def _event_facts(event: Event, topic: TopicHistory, bank: TopicBank, when: str) -> EventFacts:
    preference = topic.preference(event.preference_id)
    names = {slot.id: slot.name for slot in bank.slots}
    return {
        "event_id": event.event_id,
        "kind": preference.kind,
        "subject": preference.subject,
        "subject_name": names.get(preference.subject, preference.subject),
        "state": event.state,
        "when": when,
        "changed": event.previous_event_id is not None,
        "reason": event.reason or "",
        "motive": event.motive or "",
    }


def _life_events(
    config: Config, general: Sequence[GeneralEvent], topic: TopicHistory, plan: SessionPlan, reversals: dict[str, str]
) -> list[GeneralEvent]:
    """Choose life events for a session: recent ones that nothing has undone, and none that the topic has had."""

    def is_news(event: GeneralEvent) -> bool:
        age = (plan.date - event.date).days
        return 0 <= age <= _NEWS_DAYS[event.term] and event.subject not in undone

    undone = {reversals[event.subject] for event in general if event.date <= plan.date and event.subject in reversals}
    shares = {
        event.event_id: rng_for(config.seed, "life", topic.topic, event.event_id).randrange(len(topic.sessions))
        for event in general
    }
    news = [event for event in general if is_news(event) and shares[event.event_id] == plan.period]
    return news[-_LIFE_EVENTS:]


def session_request(task: SessionTask) -> Request:
    """Return the call that writes a session."""
    return Request("session", task.facts, ("session", task.persona_id, task.topic, task.plan.period))


def session_faults(reply: SessionReply, task: SessionTask) -> list[str]:
    """Return what is wrong with a session: coverage of its events by id, turns, names that must not occur."""
    faults = []
    wanted, told = Counter(task.plan.event_ids), Counter(e for turn in reply.turns for e in turn.event_ids)
    faults += [f"event {event_id} is told in no turn" for event_id in wanted if not told[event_id]]
    faults += [f"event {event_id} is told in {n} turns; tell it in one" for event_id, n in told.items() if n > 1]
    faults += [f"there is no event {event_id}" for event_id in told if event_id not in wanted]
    if len(reply.turns) != task.facts["turns"]:
        faults.append(f"there are {len(reply.turns)} turns and not {task.facts['turns']}")
    never = [name.lower() for name in task.facts["never"]]
    for number, turn in enumerate(reply.turns, start=1):
        for role, text in (("user", turn.user), ("assistant", turn.assistant)):
            lower = text.lower()
            faults += [
                f"turn {number}: the {role} mentions {name!r}, which must not occur"
                for name in never
                if mentions(lower, name)
            ]
    return faults


def _ask(client: Client, task: SessionTask) -> SessionReply:
    request = session_request(task)

    def check(reply: SessionReply) -> list[str]:
        return session_faults(reply, task)

    def check_words(reply: SessionReply) -> list[str]:
        return [*check(reply), *wording_faults(reply, task.facts)]

    if not client.is_free_writer:
        return client.ask(request, SessionReply, check)
    return ask_and_read_back(
        client,
        request,
        SessionReply,
        check_words,
        read_back=lambda reply: read_back(client, request, reply),
        finish=lambda reply: lengthened(client, request, reply, check_words),
    )


def write_session(client: Client, task: SessionTask) -> Session:
    """Have a session written."""
    reply = _ask(client, task)
    messages: list[Message] = []
    for turn in reply.turns:
        told = tuple(turn.event_ids)
        messages.append(Message(role="user", content=turn.user, num_tokens=num_tokens(turn.user), event_ids=told))
        messages.append(Message(role="assistant", content=turn.assistant, num_tokens=num_tokens(turn.assistant)))
    return Session(
        session_id=task.plan.session_id,
        persona_id=task.persona_id,
        topic=task.topic,
        period=task.plan.period,
        date=task.plan.date,
        messages=tuple(messages),
    )
