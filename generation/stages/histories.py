"""Stage 2: what happens to each user, over all topics."""

from __future__ import annotations

import datetime as dt
from typing import Final, NamedTuple

from pydantic import BaseModel

from generation.banks.load import Banks
from generation.config import Config
from generation.dates import spoken_past
from generation.grammar import expand
from generation.history_records import GeneralEvent, History, TopicHistory
from generation.llm.client import Client, Request
from generation.records import PERIODS, Persona, content_id
from generation.request_facts import GeneralEventFacts, HistoryFacts
from generation.seeds import rng_for
from generation.text_checks import near_duplicates, num_words, role_faults, text_faults
from generation.timeline import GeneralPlan, draw_general, session_dates
from generation.topic_history import draw_topic, topic_motives

_LONGEST: Final = 120  # words of one event, of which one or two sentences tell


class GeneralHistoryReply(BaseModel):
    """What the model writes: a text for each event, in order."""

    texts: list[str]


class HistoryTask(NamedTuple):
    """A history that lacks only the texts of its general events."""

    persona: Persona
    general: tuple[GeneralPlan, ...]
    kernels: tuple[str, ...]
    topics: tuple[TopicHistory, ...]


def draw_history(config: Config, persona: Persona, banks: Banks) -> HistoryTask:
    """Draw the timeline of a persona."""
    general = draw_general(config, persona, banks.life.events)
    dates = session_dates(config, persona.persona_id, list(banks.topics))
    motives = topic_motives(config, persona, list(banks.topics))
    rng = rng_for(config.seed, "kernels", persona.persona_id)
    end = max(days[-1] for days in dates.values())
    return HistoryTask(
        persona=persona,
        general=tuple(general),
        kernels=tuple(expand(plan.entry.told[0], rng, when=_when(plan.date, end)) for plan in general),
        topics=tuple(
            draw_topic(config, persona, banks.topics[topic], days, motives[topic]) for topic, days in dates.items()
        ),
    )


def _when(date: dt.date, end: dt.date) -> str:
    return spoken_past(date, end + dt.timedelta(days=400), rng_for(0, "when", date.isoformat()))


def history_request(task: HistoryTask) -> Request:
    """Return the call that puts the general events of a history into words."""
    events: list[GeneralEventFacts] = [
        {"date": plan.date.isoformat(), "period": PERIODS[plan.period], "term": plan.entry.term, "kernel": kernel}
        for plan, kernel in zip(task.general, task.kernels, strict=True)
    ]
    facts: HistoryFacts = {"name": task.persona.name, "profile": task.persona.profile, "events": events}
    return Request("general_history", facts, ("general", task.persona.persona_id), task.persona.persona_id)


def wording_faults(reply: GeneralHistoryReply, task: HistoryTask) -> list[str]:
    """Return what is wrong with the words of general events: each by itself, and repeats."""
    names = [task.persona.name, task.persona.name.split()[0]]
    faults: list[str] = []
    for number, text in enumerate(reply.texts, start=1):
        faults += [f"text {number} {fault}" for fault in (*text_faults(text, names), *role_faults(text, "user"))]
        if num_words(text) > _LONGEST:
            faults.append(f"text {number} has {num_words(text)} words; one or two sentences are wanted")
    pairs = near_duplicates(reply.texts)
    return faults + [f"text {later + 1} repeats text {earlier + 1}" for earlier, later in pairs]


def write_history(client: Client, task: HistoryTask) -> History:
    """Have the general events of a history put into words."""

    def check(reply: GeneralHistoryReply) -> list[str]:
        if len(reply.texts) != len(task.general):
            return [f"there are {len(reply.texts)} texts for {len(task.general)} events"]
        if client.is_free_writer:
            return wording_faults(reply, task)
        return [f"text {i} is empty" for i, text in enumerate(reply.texts, start=1) if not text.strip()]

    reply = client.ask(history_request(task), GeneralHistoryReply, check)
    persona_id = task.persona.persona_id
    general = [
        GeneralEvent(
            event_id=content_id("general", persona_id, task.persona.name, plan.entry.id, plan.date),
            period=plan.period,
            date=plan.date,
            subject=plan.entry.id,
            term=plan.entry.term,
            text=text,
        )
        for plan, text in zip(task.general, reply.texts, strict=True)
    ]
    return History(persona_id=persona_id, general=tuple(general), topics=task.topics)
