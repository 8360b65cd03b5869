from __future__ import annotations

import datetime as dt

import pytest
from small_banks import TOPICS, FreeWriter, ScriptedBackend

from generation.banks.load import Banks
from generation.config import Config
from generation.history_records import History
from generation.llm.client import Client, ReplyError
from generation.llm.offline.backend import OfflineBackend
from generation.prompts import render
from generation.records import Persona
from generation.stages.histories import (
    GeneralHistoryReply,
    HistoryTask,
    draw_history,
    history_request,
    wording_faults,
    write_history,
)
from generation.stages.personas import draw_personas
from generation.timeline import session_dates

CONFIG = Config(topics=TOPICS, personas=12, seed=3)


@pytest.fixture(scope="module")
def personas(banks: Banks) -> list[Persona]:
    return [task.persona for task in draw_personas(CONFIG, banks)]


@pytest.fixture(scope="module")
def tasks(banks: Banks, personas: list[Persona]) -> list[HistoryTask]:
    return [draw_history(CONFIG, persona, banks) for persona in personas]


@pytest.fixture(scope="module")
def histories(banks: Banks, tasks: list[HistoryTask]) -> list[History]:
    client = Client(OfflineBackend(banks, CONFIG.seed))
    return [write_history(client, task) for task in tasks]


def test_a_history_has_all_topics_in_the_order_in_which_they_begin(histories: list[History]) -> None:
    for history in histories:
        assert [t.topic for t in history.topics] == list(session_dates(CONFIG, history.persona_id, list(TOPICS)))
        starts = [topic.sessions[0].date for topic in history.topics]
        assert starts == sorted(starts)


def test_the_order_of_dates_is_one_over_all_topics(histories: list[History]) -> None:
    for history in histories:
        days = [session.date for topic in history.topics for session in topic.sessions]
        assert len(set(days)) == len(days) == len(TOPICS) * CONFIG.periods


def test_no_preference_of_a_user_occurs_in_two_topics(histories: list[History]) -> None:
    for history in histories:
        subjects = [p.subject for topic in history.topics for p in topic.preferences if p.kind == "item"]
        assert len(subjects) == len(set(subjects))
        ids = [p.preference_id for topic in history.topics for p in topic.preferences]
        assert len(ids) == len(set(ids))


def test_ids_are_never_shared(histories: list[History]) -> None:
    events = [e.event_id for h in histories for t in h.topics for e in t.events]
    events += [e.event_id for h in histories for e in h.general]
    assert len(events) == len(set(events))
    sessions = [s.session_id for h in histories for t in h.topics for s in t.sessions]
    assert len(sessions) == len(set(sessions))


def test_general_events_are_told_in_sentences(histories: list[History]) -> None:
    for history in histories:
        assert history.general
        for event in history.general:
            assert event.text[0].isupper()
            assert not any(mark in event.text for mark in "{}[]|")


def test_general_events_keep_the_dates_and_the_order_of_the_timeline(
    histories: list[History], tasks: list[HistoryTask]
) -> None:
    for history, task in zip(histories, tasks, strict=True):
        drawn = [(plan.entry.id, plan.date, plan.period, plan.entry.term) for plan in task.general]
        assert [(e.subject, e.date, e.period, e.term) for e in history.general] == drawn
        dates = [event.date for event in history.general]
        assert dates == sorted(dates)


def test_general_events_speak_of_their_time_as_of_long_ago(tasks: list[HistoryTask]) -> None:
    for task in tasks:
        for plan, kernel in zip(task.general, task.kernels, strict=True):
            assert str(plan.date.year) in kernel


def test_what_is_told_fits_the_texts_of_the_bank(tasks: list[HistoryTask], banks: Banks) -> None:
    for task in tasks:
        request = history_request(task)
        prompt = render(request.template, request.facts)
        assert all(kernel in prompt for kernel in task.kernels)
        assert all(plan.date.isoformat() in prompt for plan in task.general)
        assert {plan.entry.id for plan in task.general} <= {entry.id for entry in banks.life.events}


def test_a_history_depends_on_seed_and_user_alone(
    tasks: list[HistoryTask], personas: list[Persona], banks: Banks
) -> None:
    assert draw_history(CONFIG, personas[3], banks) == tasks[3]
    assert draw_history(CONFIG.model_copy(update={"seed": 4}), personas[3], banks) != tasks[3]
    assert draw_history(CONFIG.model_copy(update={"personas": 99}), personas[3], banks) == tasks[3]


def test_a_topic_is_the_same_whatever_the_other_topics_hold(
    tasks: list[HistoryTask], personas: list[Persona], banks: Banks
) -> None:
    """Only the days, which depend on each other, may move when a topic is added."""
    fewer = banks._replace(topics={name: banks.topics[name] for name in TOPICS[:2]})
    (before, after) = (
        {t.topic: [(p.subject, p.candidates) for p in t.preferences] for t in task.topics}
        for task in (tasks[0], draw_history(CONFIG, personas[0], fewer))
    )
    assert after == {topic: before[topic] for topic in TOPICS[:2]}


def test_as_many_texts_as_events_are_wanted(tasks: list[HistoryTask]) -> None:
    task = tasks[0]
    good = [f"Event {i}." for i in range(len(task.general))]
    backend = ScriptedBackend({"texts": good[:-1]}, {"texts": [*good[:-1], " "]}, {"texts": good})
    history = write_history(Client(backend), task)
    assert [event.text for event in history.general] == good
    assert f"there are {len(good) - 1} texts for {len(good)} events" in backend.calls[1][-1].content
    assert f"text {len(good)} is empty" in backend.calls[2][-1].content


def test_a_history_that_stays_bad_is_an_error(tasks: list[HistoryTask]) -> None:
    with pytest.raises(ReplyError, match=r"general_history for general 0.*there are 0 texts"):
        write_history(Client(ScriptedBackend({"texts": []})), tasks[0])


def test_what_a_language_model_writes_of_events_is_looked_at(
    tasks: list[HistoryTask], histories: list[History]
) -> None:
    good = [event.text for event in histories[0].general]
    bad = ["User: It rained.", " ", "How can I help you?", "so " * 121, good[5], good[5], *good[6:]]
    writer = FreeWriter(general_history=[{"texts": bad}, {"texts": good}])
    assert write_history(Client(writer), tasks[0]) == histories[0]
    faults = [line for line in writer.asked("general_history")[1].splitlines() if line.startswith("- ")]
    assert faults == [
        "- text 1 has a speaker label (User:)",
        "- text 2 says nothing",
        "- text 3 speaks as the assistant ('how can i help you')",
        "- text 4 is not in English",
        "- text 4 has 121 words; one or two sentences are wanted",
        "- text 6 repeats text 5",
    ]


def test_what_is_asked_of_a_language_model_holds_for_the_offline_backend(
    tasks: list[HistoryTask], histories: list[History]
) -> None:
    for task, history in zip(tasks, histories, strict=True):
        reply = GeneralHistoryReply(texts=[event.text for event in history.general])
        assert wording_faults(reply, task) == []


def test_general_events_reach_ten_years_back_and_go_on_after_the_start(histories: list[History]) -> None:
    for history in histories:
        start = min(session.date for topic in history.topics for session in topic.sessions)
        assert all(event.date >= start - dt.timedelta(days=3660) for event in history.general)
        assert max(event.date for event in history.general) > start
