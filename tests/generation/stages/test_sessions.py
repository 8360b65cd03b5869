from __future__ import annotations

import datetime as dt
from collections import Counter
from copy import deepcopy
from typing import Any

import pytest
from small_banks import TOPICS, FreeWriter, ScriptedBackend

from generation.banks.load import Banks
from generation.config import Config
from generation.grammar import mentions, pattern
from generation.llm.client import Client, ReplyError
from generation.llm.offline.backend import OfflineBackend
from generation.prompts import render
from generation.records import History, Persona, Session, SessionPlan
from generation.session_text import SessionReply, Turn, lengthened, wording_faults
from generation.stages.histories import draw_history, write_history
from generation.stages.personas import draw_personas, write_persona
from generation.stages.sessions import (
    SessionTask,
    session_faults,
    session_request,
    session_tasks,
    write_session,
)

CONFIG = Config(topics=TOPICS, personas=3, seed=21)


@pytest.fixture(scope="module")
def client(banks: Banks) -> Client:
    return Client(OfflineBackend(banks, CONFIG.seed))


@pytest.fixture(scope="module")
def users(banks: Banks, client: Client) -> list[tuple[Persona, History]]:
    personas = [write_persona(client, task) for task in draw_personas(CONFIG, banks.people)]
    return [(persona, write_history(client, draw_history(CONFIG, persona, banks))) for persona in personas]


@pytest.fixture(scope="module")
def tasks(users: list[tuple[Persona, History]], banks: Banks) -> list[SessionTask]:
    return [task for persona, history in users for task in session_tasks(CONFIG, persona, history, banks)]


@pytest.fixture(scope="module")
def written(tasks: list[SessionTask], client: Client) -> list[tuple[SessionTask, Session]]:
    return [(task, write_session(client, task)) for task in tasks]


# --- what is to be written


def test_there_is_a_session_for_each_topic_and_period(
    tasks: list[SessionTask], users: list[tuple[Persona, History]]
) -> None:
    planned = [s for _, history in users for topic in history.topics for s in topic.sessions]
    assert [task.plan for task in tasks] == planned
    assert Counter((t.persona_id, t.topic, t.plan.period) for t in tasks) == Counter(
        (p.persona_id, topic, period) for p, _ in users for topic in TOPICS for period in range(4)
    )


def test_sessions_have_as_many_turns_as_configured_and_not_all_the_same(tasks: list[SessionTask]) -> None:
    assert CONFIG.turns_per_session.max - CONFIG.turns_per_session.min < 10
    possible = range(CONFIG.turns_per_session.min, CONFIG.turns_per_session.max + 1)
    assert {task.facts["turns"] for task in tasks} == set(possible)


def test_a_request_tells_its_own_events_and_only_the_past(tasks: list[SessionTask]) -> None:
    for task in tasks:
        assert tuple(event["event_id"] for event in task.facts["events"]) == task.plan.event_ids
        assert all(event["when"] for event in task.facts["events"])


def test_a_request_holds_no_state_of_another_session(
    tasks: list[SessionTask], users: list[tuple[Persona, History]]
) -> None:
    """What has changed is told without the old value, and nothing of what will come is known yet."""
    histories = {persona.persona_id: history for persona, history in users}
    for task in tasks:
        (topic,) = [t for t in histories[task.persona_id].topics if t.topic == task.topic]
        now = {event.state for event in topic.events if event.event_id in task.plan.event_ids}
        slots = {p.preference_id for p in topic.preferences if p.kind == "slot"}
        other = {e.state for e in topic.events if e.preference_id in slots} - now
        request = session_request(task)
        told = str({key: value for key, value in request.facts.items() if key not in ("profile", "life")}).lower()
        assert not [state for state in other if mentions(told, state.lower())]


def test_a_life_event_is_past_and_spoken_of_once_in_a_topic(
    tasks: list[SessionTask], users: list[tuple[Persona, History]]
) -> None:
    dates = {event.event_id: event.date for _, history in users for event in history.general}
    spoken = Counter()
    for task in tasks:
        for event in task.facts["life"]:
            assert dates[event["event_id"]] <= task.plan.date
            spoken[task.persona_id, task.topic, event["event_id"]] += 1
    assert set(spoken.values()) == {1}


def test_life_events_leave_room_for_what_must_be_told(users: list[tuple[Persona, History]], banks: Banks) -> None:
    config = CONFIG.model_copy(update={"turns_per_session": type(CONFIG.turns_per_session)(min=7, max=8)})
    for persona, history in users:
        for task in session_tasks(config, persona, history, banks):
            assert len(task.plan.event_ids) + len(task.facts["life"]) <= task.facts["turns"]


def test_the_prompt_shows_events_reasons_and_what_must_not_be_named(tasks: list[SessionTask]) -> None:
    for task in tasks[:8]:
        request = session_request(task)
        prompt = render(request.template, request.facts)
        for event in task.facts["events"]:
            assert event["event_id"] in prompt
            assert event["state"] in prompt
            assert event["reason"] in prompt
        assert all(name in prompt for name in task.facts["never"])
        assert task.facts["spoken_date"] in prompt


# --- what is wrong with a reply


def a_task(**facts: Any) -> SessionTask:
    plan = SessionPlan(session_id="s", period=0, date=dt.date(2020, 1, 1), event_ids=("e1", "e2"))
    return SessionTask(0, "chess", plan, {"turns": 3, "never": ["Night Trains"], **facts})


def turn(user: str = "Hello.", assistant: str = "Hello.", *event_ids: str) -> Turn:
    return Turn(user=user, assistant=assistant, event_ids=list(event_ids))


def faults(*turns: Turn) -> list[str]:
    return session_faults(SessionReply(turns=list(turns)), a_task())


E1 = turn("One.", "Yes.", "e1")
E2 = turn("Two.", "Yes.", "e2")


def test_a_reply_that_tells_each_event_once_has_no_faults() -> None:
    assert faults(E1, turn(), E2) == []
    assert faults(turn("Both.", "Yes.", "e2", "e1"), turn(), turn()) == []


@pytest.mark.parametrize(
    ("turns", "fault"),
    [
        ((E1, turn(), turn()), "event e2 is told in no turn"),
        ((E1, E1, E2), "event e1 is told in 2 turns; tell it in one"),
        ((E1, E2, turn("x", "y", "e9")), "there is no event e9"),
        ((E1, E2), "there are 2 turns and not 3"),
        ((E1, E2, turn(), turn()), "there are 4 turns and not 3"),
        ((E1, turn("I took night trains."), E2), "turn 2: the user mentions 'night trains', which must not occur"),
        ((E1, turn("x", "NIGHT TRAINS?"), E2), "turn 2: the assistant mentions 'night trains', which must not occur"),
    ],
)
def test_each_kind_of_fault_is_named(turns: tuple[Turn, ...], fault: str) -> None:
    assert faults(*turns) == [fault]


def test_all_faults_are_named_at_once() -> None:
    assert len(faults(turn("My night trains.", "", "e1", "e1"), turn())) == 4


def test_words_that_only_look_like_names_are_allowed() -> None:
    assert faults(E1, E2, turn("The user: a puzzle.", "One of a fortnight's trains.")) == []


def test_a_faulty_session_is_sent_back_and_a_mended_one_is_kept() -> None:
    bad = {"turns": [{"user": "x", "assistant": "y", "event_ids": ["e1"]}] * 2}
    good = {"turns": [dict(t) for t in (E1, turn(), E2)]}
    task = _renderable(a_task())
    backend = ScriptedBackend(bad, good)
    session = write_session(Client(backend), task)
    assert [message.event_ids for message in session.messages] == [("e1",), (), (), (), ("e2",), ()]
    assert [message.role for message in session.messages] == ["user", "assistant"] * 3
    assert all(fault in backend.calls[1][-1].content for fault in ("event e2 is told in no turn", "2 turns and not 3"))
    with pytest.raises(ReplyError, match=r"session for session 0 chess 0: .*event e2 is told in no turn"):
        write_session(Client(ScriptedBackend(bad)), task)


def _renderable(task: SessionTask) -> SessionTask:
    empty = dict.fromkeys(("topic_label", "date", "spoken_date", "period", "profile"), "x")
    more = {"events": [], "life": [], "words": {"user": 90, "assistant": 140}}
    return task._replace(facts={**empty, **more, **task.facts})


# --- what a language model writes


def offline_reply(task: SessionTask, client: Client) -> dict[str, Any]:
    """A good session, as a language model would send it."""
    return client.ask(session_request(task), SessionReply).model_dump()


def true_reading(task: SessionTask, reply: dict[str, Any]) -> dict[str, Any]:
    told = {e: n for n, entry in enumerate(reply["turns"], start=1) for e in entry["event_ids"]}
    events = [{"event_id": event_id, "message": told[event_id]} for event_id in task.plan.event_ids]
    return {"events": events, "other_tastes": []}


def test_a_session_that_is_read_as_it_says_is_kept(tasks: list[SessionTask], client: Client) -> None:
    task = tasks[1]
    good = offline_reply(task, client)
    writer = FreeWriter(session=[good], coverage=[true_reading(task, good)])
    assert write_session(Client(writer), task) == write_session(client, task)
    assert [call.request.template for call in writer.calls] == ["session", "coverage"]


def test_a_session_that_does_not_tell_an_event_is_rewritten(tasks: list[SessionTask], client: Client) -> None:
    task = tasks[1]
    good = offline_reply(task, client)
    bad = deepcopy(good)
    number = next(n for n, entry in enumerate(bad["turns"], start=1) if entry["event_ids"])
    [event_id] = bad["turns"][number - 1]["event_ids"]
    bad["turns"][number - 1]["user"] = "It rained all day and there was nothing to do but to look out of the window."
    true = true_reading(task, good)
    missing = deepcopy(true)
    next(event for event in missing["events"] if event["event_id"] == event_id)["message"] = None
    writer = FreeWriter(session=[bad], rewrite=[good], coverage=[missing, true])
    assert write_session(Client(writer), task) == write_session(client, task)
    [prompt] = writer.asked("rewrite")
    assert f"turn {number}: what the user says does not tell event {event_id}, or not all of it" in prompt
    assert "It rained all day" in prompt
    assert writer.asked("session")[0] in prompt
    with pytest.raises(ReplyError, match=event_id):
        write_session(Client(FreeWriter(session=[bad], rewrite=[good], coverage=[missing])), task)


def test_the_words_of_a_session_are_looked_at_before_it_is_read(tasks: list[SessionTask], client: Client) -> None:
    task = tasks[1]
    good = offline_reply(task, client)
    bad = deepcopy(good)
    bad["turns"][0]["assistant"] = "User: I see."
    bad["turns"][1]["user"] = "Das ist " + "ganz und gar unverständlich " * 8
    writer = FreeWriter(session=[bad, good], coverage=[true_reading(task, good)])
    write_session(Client(writer), task)
    assert [call.request.template for call in writer.calls] == ["session", "session", "coverage"]
    repair = writer.asked("session")[1]
    assert "turn 1: the assistant's message has a speaker label (User:)" in repair
    assert "turn 2: the user's message is not in English" in repair


def test_a_short_session_is_lengthened_before_it_is_read(tasks: list[SessionTask], client: Client) -> None:
    task = tasks[1]
    good = offline_reply(task, client)
    short = deepcopy(good)
    for entry in short["turns"]:
        entry["assistant"] = " ".join(entry["assistant"].split()[:12])
    longer = [{"number": n, **entry} for n, entry in enumerate(good["turns"], start=1)]
    writer = FreeWriter(session=[short], expand=[{"turns": longer}], coverage=[true_reading(task, good)])
    assert write_session(Client(writer), task) == write_session(client, task)
    assert [call.request.template for call in writer.calls] == ["session", "expand", "coverage"]


def test_what_must_not_be_named_is_not_named_in_a_longer_session_either(
    tasks: list[SessionTask], client: Client
) -> None:
    task = tasks[1]
    good = offline_reply(task, client)
    short = deepcopy(good)
    for entry in short["turns"]:
        entry["assistant"] = " ".join(entry["assistant"].split()[:12])
    longer = [{"number": n, **entry} for n, entry in enumerate(good["turns"], start=1)]
    named = deepcopy(longer)
    named[2]["assistant"] += f" Have you thought of {task.facts['never'][0]}?"
    writer = FreeWriter(
        session=[short], expand=[{"turns": named}, {"turns": longer}], coverage=[true_reading(task, good)]
    )
    assert write_session(Client(writer), task) == write_session(client, task)
    assert "turn 3: the assistant mentions" in writer.asked("expand")[1]


# --- what the offline backend writes


def test_a_session_is_the_one_that_was_planned(written: list[tuple[SessionTask, Session]]) -> None:
    for task, session in written:
        assert session.session_id == task.plan.session_id
        assert (session.persona_id, session.topic) == (task.persona_id, task.topic)
        assert (session.period, session.date) == (task.plan.period, task.plan.date)
        assert len(session.messages) == 2 * task.facts["turns"]


def test_user_messages_carry_the_events_each_once_and_in_order(written: list[tuple[SessionTask, Session]]) -> None:
    for task, session in written:
        told = [event_id for message in session.messages for event_id in message.event_ids]
        assert tuple(told) == task.plan.event_ids
        assert not any(message.event_ids for message in session.messages if message.role == "assistant")


def test_the_message_of_an_event_tells_it(written: list[tuple[SessionTask, Session]], banks: Banks) -> None:
    for task, session in written:
        messages = {e: message.content.lower() for message in session.messages for e in message.event_ids}
        bank = banks.topics[task.topic]
        facts = {fact.recalled: fact.told for kind in bank.facts for fact in kind.facts}
        reasons = {r.recalled: r.told for some in bank.reasons.values() for r in some}
        for event in task.facts["events"]:
            message = messages[event["event_id"]]
            if event["kind"] == "slot":
                assert mentions(message, event["state"].lower())
            elif event["kind"] == "item":
                assert mentions(message, event["subject"].lower())
            else:
                assert pattern(facts[event["state"]]).search(message)
            if event["changed"]:
                assert pattern(reasons[event["reason"]]).search(message)


def test_no_other_message_names_what_the_user_has_a_view_on(
    written: list[tuple[SessionTask, Session]], banks: Banks
) -> None:
    """The assistant restates nothing, and nothing is told in passing."""
    for task, session in written:
        names = [name.lower() for name in banks.topics[task.topic].names()]
        for message in session.messages:
            if not message.event_ids:
                assert not [name for name in names if mentions(message.content.lower(), name)], message.content


def test_a_message_of_an_event_names_nothing_else(written: list[tuple[SessionTask, Session]], banks: Banks) -> None:
    for task, session in written:
        states = {e["event_id"]: {e["state"].lower(), e["subject"].lower()} for e in task.facts["events"]}
        names = {name.lower() for name in banks.topics[task.topic].names()}
        for message in session.messages:
            for event_id in message.event_ids:
                assert not [n for n in names - states[event_id] if mentions(message.content.lower(), n)]


def test_what_is_asked_of_a_language_model_holds_for_the_offline_backend(
    tasks: list[SessionTask], client: Client
) -> None:
    for task in tasks[::2]:
        reply = client.ask(session_request(task), SessionReply)
        assert wording_faults(reply, task.facts) == []
        assert lengthened(client, session_request(task), reply, lambda reply: []) == reply


def test_texts_are_free_of_labels_templates_and_double_blanks(written: list[tuple[SessionTask, Session]]) -> None:
    for _, session in written:
        for message in session.messages:
            assert not any(mark in message.content for mark in ("{", "}", "[", "]", "|", "  "))
            assert message.content[0].isupper() or not message.content[0].isalpha()


def test_no_user_message_occurs_twice(written: list[tuple[SessionTask, Session]]) -> None:
    texts = Counter(m.content for _, session in written for m in session.messages if m.role == "user")
    assert [text for text, count in texts.items() if count > 1] == []


def test_a_user_asks_nothing_twice(written: list[tuple[SessionTask, Session]], banks: Banks) -> None:
    for topic in TOPICS:
        asks = [pattern(talk.ask) for talk in banks.topics[topic].talks]
        mine = [s for task, s in written if (task.persona_id, task.topic) == (0, topic)]
        messages = [m.content for s in mine for m in s.messages if m.role == "user"]
        assert max(sum(bool(ask.search(text)) for text in messages) for ask in asks) == 1


def test_a_session_depends_on_its_request_alone(tasks: list[SessionTask], banks: Banks) -> None:
    first, again = (write_session(Client(OfflineBackend(banks, 1)), tasks[5]) for _ in range(2))
    assert first == again
    assert write_session(Client(OfflineBackend(banks, 2)), tasks[5]) != first
