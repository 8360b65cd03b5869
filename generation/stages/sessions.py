"""Stage 3: the conversations that tell what happened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from generation.banks.load import Banks
from generation.banks.topic import TopicBank
from generation.config import LIFE_EVENTS, Config
from generation.dates import DatePhrases, spoken_day
from generation.grammar import mentions
from generation.history_records import (
    Event,
    GeneralEvent,
    History,
    Mention,
    PreferenceKind,
    SessionPlan,
    TopicHistory,
    tried_items,
)
from generation.lives import after_events
from generation.llm.client import Client, Request
from generation.records import PERIODS, Message, Persona, Session
from generation.request_facts import SessionFacts, ToldFacts
from generation.revision import ask_and_read_back
from generation.seeds import rng_for
from generation.session_text import SessionReply, lengthened, mended, read_back, wording_faults
from generation.text_checks import AIMS
from generation.tokenizer import num_tokens

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
    told: dict[str, Event | Mention] = {event.event_id: event for event in topic.events}
    told |= {mention.mention_id: mention for mention in topic.mentions}
    turns = rng.randint(config.turns_per_session.min, config.turns_per_session.max)
    life_events = {event.id: event for event in banks.life.events}
    so_far = [life_events[event.subject] for event in history.general if event.date <= plan.date]
    dates = DatePhrases(plan.date, rng)
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
        "told": [
            _told_facts(id_, number, told[id_], topic, bank, dates.phrase(told[id_].date))
            for number, thread in enumerate(plan.threads)
            for id_ in thread
        ],
        "offers": [
            {"subject": o.subject, "subject_name": bank.name_of(o.subject), "names": list(o.names)} for o in plan.offers
        ],
        "life_events": [
            {
                "event_id": event.event_id,
                "subject": event.subject,
                "text": event.text,
                "when": dates.phrase(event.date),
            }
            for event in _life_events(history.general, topic, plan, config, banks)[: _room(turns, plan)]
        ],
        "life": sorted(after_events(frozenset(persona.life), so_far)),
        "voice": persona.voice,
        "manner": banks.voices.voice(persona.voice).manner,
        "circle": list(persona.circle),
        "named": _named(topic),
        "words": dict(AIMS),
    }


def _room(turns: int, plan: SessionPlan) -> int:
    """Return how many turns are left beside those that have to tell something."""
    return max(0, turns - len(plan.threads))


def _named(topic: TopicHistory) -> list[str]:
    """Return the items and values that options name, each once."""
    return list(dict.fromkeys(name for p in topic.preferences if p.kind != "fact" for name in p.candidates))


def _told_facts(
    id_: str, thread: int, told: Event | Mention, topic: TopicHistory, bank: TopicBank, when: str
) -> ToldFacts:
    about = topic.preference(told.preference_id) if isinstance(told, Event) else told
    return {
        "told_id": id_,
        "thread": thread,
        "whose": "user" if isinstance(told, Event) else told.whose,
        "person": "" if isinstance(told, Event) else told.person,
        "telling": told.telling,
        "kind": about.kind,
        "subject": about.subject,
        "subject_name": bank.name_of(about.subject),
        "state": told.state,
        "when": when,
        "changed": told.reason is not None,
        "reason": told.reason or "",
        "motive": told.motive or "",
        "avoid": _names(about.kind, about.subject, told.state) if told.telling != "named" else [],
    }


def _names(kind: PreferenceKind, subject: str, state: str) -> list[str]:
    """Return what something told is about, as options name it."""
    if kind == "trial":
        return tried_items(state)
    return [subject if kind == "item" else state]


def _life_events(
    general: Sequence[GeneralEvent], topic: TopicHistory, plan: SessionPlan, config: Config, banks: Banks
) -> list[GeneralEvent]:
    """Choose life events for a session: recent ones that nothing has undone, and none that the topic has had."""
    reversals = {entry.id: entry.after for entry in banks.life.events if entry.after is not None}

    def is_news(event: GeneralEvent) -> bool:
        age = (plan.date - event.date).days
        return 0 <= age <= _NEWS_DAYS[event.term] and event.subject not in undone

    undone = {reversals[event.subject] for event in general if event.date <= plan.date and event.subject in reversals}
    shares = {
        event.event_id: rng_for(config.seed, "life", topic.topic, event.event_id).randrange(len(topic.sessions))
        for event in general
    }
    news = [event for event in general if is_news(event) and shares[event.event_id] == plan.period]
    return news[-LIFE_EVENTS:]


def session_request(task: SessionTask) -> Request:
    """Return the call that writes a session."""
    return Request(
        "session",
        task.facts,
        ("session", task.persona_id, task.topic, task.plan.period),
        persona_id=task.persona_id,
        topic=task.topic,
    )


def turns_faults(reply: SessionReply, task: SessionTask) -> list[str]:
    """Return what is wrong with the number of turns."""
    if len(reply.turns) == task.facts["turns"]:
        return []
    return [f"there are {len(reply.turns)} turns and not {task.facts['turns']}"]


def session_faults(reply: SessionReply, task: SessionTask) -> list[str]:
    """Return what is wrong with a session: what is told in which turn, by id, turns, names that must not occur."""
    faults = []
    wanted, told = Counter(task.plan.told), Counter(id_ for turn in reply.turns for id_ in turn.told_ids)
    faults += [f"{id_} is told in no turn" for id_ in wanted if not told[id_]]
    faults += [f"{id_} is told in {n} turns; tell it in one" for id_, n in told.items() if n > 1]
    faults += [f"there is no {id_} to be told" for id_ in told if id_ not in wanted]
    return [*faults, *turns_faults(reply, task), *_name_faults(reply, task.facts)]


def _name_faults(reply: SessionReply, facts: SessionFacts) -> list[str]:
    """Find names where nothing told and no offer speaks of them: how often a thing is named has been drawn."""
    told = {one["told_id"]: one for one in facts["told"]}
    offered = {name.lower() for offer in facts["offers"] for name in offer["names"]}
    names = [name.lower() for name in facts["named"]]
    faults = []
    for number, turn in enumerate(reply.turns, start=1):
        own = [told[id_] for id_ in turn.told_ids if id_ in told]
        named = [one for one in own if one["telling"] == "named"]
        may = {name.lower() for one in named for name in _names(one["kind"], one["subject"], one["state"])}
        for role, text, allowed in (("user", turn.user, may), ("assistant", turn.assistant, offered)):
            lower = text.lower()
            found = [name for name in names if name not in allowed and mentions(lower, name)]
            faults += [f"turn {number}: the {role} names {name!r}, which must not be named there" for name in found]
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
        # What is wrong with single turns is mended in them; only their number is asked for again, whole.
        check=lambda reply: turns_faults(reply, task),
        read_back=lambda reply: check_words(reply) or read_back(client, request, reply),
        finish=lambda reply: reply if check_words(reply) else lengthened(client, request, reply, check_words),
        mend=lambda reply, faults, number: mended(client, request, reply, faults, number, check_words),
    )


def write_session(client: Client, task: SessionTask) -> Session:
    """Have a session written."""
    reply = _ask(client, task)
    messages: list[Message] = []
    for turn in reply.turns:
        events = tuple(id_ for id_ in turn.told_ids if id_ in task.plan.event_ids)
        beside = tuple(id_ for id_ in turn.told_ids if id_ not in task.plan.event_ids)
        messages.append(
            Message(
                role="user",
                content=turn.user,
                num_tokens=num_tokens(turn.user),
                event_ids=events,
                mention_ids=beside,
            )
        )
        messages.append(Message(role="assistant", content=turn.assistant, num_tokens=num_tokens(turn.assistant)))
    return Session(
        session_id=task.plan.session_id,
        persona_id=task.persona_id,
        topic=task.topic,
        period=task.plan.period,
        date=task.plan.date,
        messages=tuple(messages),
    )
