from __future__ import annotations

import datetime as dt
from collections import Counter
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from small_banks import TOPICS, FreeWriter, ScriptedBackend

from generation.banks.load import Banks
from generation.config import Config
from generation.grammar import mentions
from generation.history_records import History, SessionPlan
from generation.llm.client import Account, Client, ReplyError
from generation.llm.ledger import Ledger
from generation.llm.offline.backend import OfflineBackend
from generation.llm.paid_calls import Readings, Share
from generation.prompts import render
from generation.records import Persona, Session
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
    personas = [write_persona(client, task) for task in draw_personas(CONFIG, banks)]
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


def test_a_request_tells_what_its_plan_tells_in_order(
    tasks: list[SessionTask], users: list[tuple[Persona, History]]
) -> None:
    histories = {persona.persona_id: history for persona, history in users}
    for task in tasks:
        (topic,) = [t for t in histories[task.persona_id].topics if t.topic == task.topic]
        events = {event.event_id: event for event in topic.events}
        mentions_ = {mention.mention_id: mention for mention in topic.mentions}
        assert tuple(one["told_id"] for one in task.facts["told"]) == task.plan.told
        for one in task.facts["told"]:
            planned = events.get(one["told_id"]) or mentions_[one["told_id"]]
            assert (one["state"], one["telling"], one["reason"] or None) == (
                planned.state,
                planned.telling,
                planned.reason,
            )
            assert (one["whose"] == "user") == (one["told_id"] in events) == (one["person"] == "")
            assert one["when"]


def test_a_request_tells_what_belongs_together(tasks: list[SessionTask]) -> None:
    for task in tasks:
        numbers = [one["thread"] for one in task.facts["told"]]
        assert numbers == [number for number, thread in enumerate(task.plan.threads) for _ in thread]


def test_in_a_session_each_day_has_one_phrase(tasks: list[SessionTask], users: list[tuple[Persona, History]]) -> None:
    histories = {persona.persona_id: history for persona, history in users}
    for task in tasks:
        (topic,) = [t for t in histories[task.persona_id].topics if t.topic == task.topic]
        dates = {e.event_id: e.date for e in topic.events} | {m.mention_id: m.date for m in topic.mentions}
        said = {(dates[one["told_id"]], one["when"]) for one in task.facts["told"]}
        assert len(said) == len({date for date, _ in said}) == len({when for _, when in said})


def test_a_life_is_what_it_was_at_the_start_and_what_has_happened_since(
    tasks: list[SessionTask], users: list[tuple[Persona, History]], banks: Banks
) -> None:
    entries = {event.id: event for event in banks.life.events}
    people = {persona.persona_id: (persona, history) for persona, history in users}
    for task in tasks:
        persona, history = people[task.persona_id]
        life = set(persona.life)
        for event in history.general:
            if event.date <= task.plan.date:
                life = (life - entries[event.subject].takes) | entries[event.subject].gives
        assert task.facts["life"] == sorted(life)


def test_what_is_told_otherwise_must_not_be_named(tasks: list[SessionTask]) -> None:
    for task in tasks:
        for one in task.facts["told"]:
            named = {"item": [one["subject"]], "trial": one["state"].split("; ")}.get(one["kind"], [one["state"]])
            assert one["avoid"] == ([] if one["telling"] == "named" else named)


def test_a_request_holds_no_state_of_another_session(
    tasks: list[SessionTask], users: list[tuple[Persona, History]]
) -> None:
    """Nothing of what will come is known yet, and nothing is told again but by a mention."""
    histories = {persona.persona_id: history for persona, history in users}
    for task in tasks:
        (topic,) = [t for t in histories[task.persona_id].topics if t.topic == task.topic]
        now = {one.reason for one in (*topic.events, *topic.mentions) if one.period == task.plan.period}
        other = {one.reason for one in (*topic.events, *topic.mentions)} - now - {None}
        now_ids = {*task.plan.told}
        ids = {e.event_id for e in topic.events} | {m.mention_id for m in topic.mentions}
        told = str({key: value for key, value in task.facts.items() if key not in ("profile", "life_events")})
        assert not [text for text in (*other, *(ids - now_ids)) if str(text) in told]


def test_a_life_event_is_past_and_spoken_of_once_in_a_topic(
    tasks: list[SessionTask], users: list[tuple[Persona, History]]
) -> None:
    dates = {event.event_id: event.date for _, history in users for event in history.general}
    spoken = Counter()
    for task in tasks:
        for event in task.facts["life_events"]:
            assert dates[event["event_id"]] <= task.plan.date
            spoken[task.persona_id, task.topic, event["event_id"]] += 1
    assert set(spoken.values()) == {1}


def test_life_events_leave_room_for_what_must_be_told(users: list[tuple[Persona, History]], banks: Banks) -> None:
    config = CONFIG.model_copy(update={"turns_per_session": type(CONFIG.turns_per_session)(min=7, max=8)})
    for persona, history in users:
        for task in session_tasks(config, persona, history, banks):
            least = len(task.plan.threads)
            assert least + len(task.facts["life_events"]) <= max(least, task.facts["turns"])


def test_the_prompt_shows_what_is_told_whose_it_is_and_what_the_assistant_names(tasks: list[SessionTask]) -> None:
    whose = Counter()
    for task in tasks[:8]:
        request = session_request(task)
        prompt = render(request.template, request.facts)
        for one in task.facts["told"]:
            whose[one["whose"]] += 1
            assert one["told_id"] in prompt
            assert one["state"].replace("; ", ", ") in prompt
            assert one["reason"] in prompt
            assert one["person"] in prompt
        for offer in task.facts["offers"]:
            assert "; ".join(offer["names"]) in prompt
        assert all(name in prompt for name in task.facts["named"])
        assert task.facts["spoken_date"] in prompt
    assert set(whose) == {"user", "other", "dropped", "past"}


# --- what is wrong with a reply


NIGHT = {
    "told_id": "e1",
    "telling": "named",
    "kind": "item",
    "subject": "Night Trains",
    "state": "like",
    "whose": "user",
}
TEA = {"told_id": "m2", "telling": "implied", "kind": "slot", "subject": "drink", "state": "mint tea", "whose": "other"}


def a_task(**facts: Any) -> SessionTask:
    plan = SessionPlan(
        session_id="s", period=0, date=dt.date(2020, 1, 1), event_ids=("e1",), threads=(("e1", "m2"),), offers=()
    )
    more = {"turns": 3, "named": ["Night Trains", "mint tea", "house swaps"], "told": [NIGHT, TEA]}
    offers = [{"subject_name": "", "names": ["house swaps", "Night Trains"]}]
    return SessionTask(0, "chess", plan, {**more, "offers": offers, **facts})  # type: ignore[typeddict-item]


def turn(user: str = "Hello.", assistant: str = "Hello.", *told_ids: str) -> Turn:
    return Turn(user=user, assistant=assistant, told_ids=list(told_ids))


def faults(*turns: Turn) -> list[str]:
    return session_faults(SessionReply(turns=list(turns)), a_task())


E1 = turn("One night trains came.", "Yes.", "e1")
M2 = turn("Two.", "Yes, house swaps and night trains.", "m2")


def test_a_reply_that_tells_each_thing_once_has_no_faults() -> None:
    assert faults(E1, turn(), M2) == []
    assert faults(turn("Both.", "Yes.", "m2", "e1"), turn(), turn()) == []


@pytest.mark.parametrize(
    ("turns", "fault"),
    [
        ((E1, turn(), turn()), "m2 is told in no turn"),
        ((E1, E1, M2), "e1 is told in 2 turns; tell it in one"),
        ((E1, M2, turn("x", "y", "e9")), "there is no e9 to be told"),
        ((E1, M2), "there are 2 turns and not 3"),
        ((E1, M2, turn(), turn()), "there are 4 turns and not 3"),
        (
            (E1, turn("I took night trains."), M2),
            "turn 2: the user names 'night trains', which must not be named there",
        ),
        (
            (E1, turn(), turn("Mint tea!", "Yes.", "m2")),
            "turn 3: the user names 'mint tea', which must not be named there",
        ),
        ((E1, turn("House swaps?"), M2), "turn 2: the user names 'house swaps', which must not be named there"),
        ((E1, turn("x", "MINT TEA?"), M2), "turn 2: the assistant names 'mint tea', which must not be named there"),
    ],
)
def test_each_kind_of_fault_is_named(turns: tuple[Turn, ...], fault: str) -> None:
    assert faults(*turns) == [fault]


def test_all_faults_are_named_at_once() -> None:
    assert len(faults(turn("My mint tea.", "", "e1", "e1"), turn())) == 4


def test_words_that_only_look_like_names_are_allowed() -> None:
    assert faults(E1, M2, turn("The user: a puzzle.", "One of a fortnight's trains.")) == []


def test_a_faulty_session_is_sent_back_and_a_mended_one_is_kept() -> None:
    bad = {"turns": [{"user": "x", "assistant": "y", "told_ids": ["e1"]}] * 2}
    good = {"turns": [dict(t) for t in (E1, turn(), M2)]}
    task = _renderable(a_task())
    backend = ScriptedBackend(bad, good)
    session = write_session(Client(backend), task)
    assert [message.event_ids for message in session.messages] == [("e1",), (), (), (), (), ()]
    assert [message.mention_ids for message in session.messages] == [(), (), (), (), ("m2",), ()]
    assert [message.role for message in session.messages] == ["user", "assistant"] * 3
    assert all(fault in backend.calls[1][-1].content for fault in ("m2 is told in no turn", "2 turns and not 3"))
    with pytest.raises(ReplyError, match=r"session for session 0 chess 0: .*m2 is told in no turn"):
        write_session(Client(ScriptedBackend(bad)), task)


def _renderable(task: SessionTask) -> SessionTask:
    empty: dict[str, Any] = dict.fromkeys(
        ("topic_label", "date", "spoken_date", "period", "name", "profile", "manner"), "x"
    )
    more: dict[str, Any] = {
        "life": [],
        "life_events": [],
        "voice": "brief",
        "circle": ["my aunt Bo"],
        "words": {"user": 90, "assistant": 140},
    }
    told = {
        "thread": 0,
        "person": "my aunt Bo",
        "subject_name": "x",
        "when": "x",
        "changed": False,
        "reason": "",
        "avoid": ["x"],
    }
    facts: Any = {**empty, **more, **task.facts, "told": [{**told, **one} for one in task.facts["told"]]}
    return task._replace(facts=facts)


# --- what a language model writes


def offline_reply(task: SessionTask, client: Client) -> dict[str, Any]:
    """A good session, as a language model would send it."""
    return client.ask(session_request(task), SessionReply).model_dump()


def true_reading(task: SessionTask, reply: dict[str, Any]) -> dict[str, Any]:
    messages = {id_: n for n, entry in enumerate(reply["turns"], start=1) for id_ in entry["told_ids"]}
    told = [
        {"told_id": one["told_id"], "message": messages[one["told_id"]], "whose": one["whose"]}
        for one in task.facts["told"]
    ]
    return {"told": told, "other_tastes": []}


def turns_of(reply: dict[str, Any], *numbers: int) -> dict[str, Any]:
    """Return some turns of a session, as a model sends them that wrote them anew."""
    return {"turns": [{"number": number, **reply["turns"][number - 1]} for number in numbers]}


def test_turns_that_are_written_anew_are_looked_at_together_with_the_others(
    tasks: list[SessionTask], client: Client
) -> None:
    task = tasks[1]
    good = offline_reply(task, client)
    bad = deepcopy(good)
    number = next(n for n, entry in enumerate(bad["turns"], start=1) if entry["told_ids"])
    bad["turns"][number - 1]["user"] = "User: " + bad["turns"][number - 1]["user"]
    untold = turns_of(good, number)
    untold["turns"][0]["told_ids"] = []
    absent = turns_of(good, number)
    absent["turns"][0]["number"] = len(good["turns"]) + 1
    writer = FreeWriter(
        session=[bad],
        rewrite_turns=[untold, absent, turns_of(good, number)],
        coverage=[true_reading(task, good)],
    )
    assert write_session(Client(writer), task) == write_session(client, task)
    _, first, second = writer.asked("rewrite_turns")
    assert "is told in no turn" in first
    assert f"the turns must be some of those from 1 to {len(good['turns'])}" in second


def test_another_model_may_read_back(tasks: list[SessionTask], client: Client) -> None:
    task = tasks[1]
    good = offline_reply(task, client)
    writer, reader = FreeWriter(session=[good]), FreeWriter(coverage=[true_reading(task, good)])
    assert write_session(Client(writer, reader=Client(reader)), task) == write_session(client, task)
    assert [call.request.template for call in writer.calls] == ["session"]
    assert [call.request.template for call in reader.calls] == ["coverage"]


def test_how_often_the_reader_disagreed_is_written_down(
    tasks: list[SessionTask], client: Client, tmp_path: Path
) -> None:
    task = tasks[1]
    good = offline_reply(task, client)
    true = true_reading(task, good)
    doubtful = {**true, "other_tastes": ["message 1: the user likes rain"]}
    reader = FreeWriter(coverage=[doubtful, true])
    changed = turns_of(good, 1)
    changed["turns"][0]["assistant"] += " Anything else can wait."
    writer = FreeWriter(session=[good], rewrite_turns=[changed])
    ledger = Ledger(tmp_path / "ledger.jsonl", {})
    reading = Client(reader, account=Account(ledger, "sessions", "owl", 100))
    write_session(Client(writer, account=Account(ledger, "sessions", "parrot", 100), reader=reading), task)
    for again in (ledger, Ledger(tmp_path / "ledger.jsonl", {})):
        assert again.readings() == {"owl": Readings(2, 1)}
        assert again.shares("topic") == {task.topic: Share(4, None)}


def shortened(reply: dict[str, Any], task: SessionTask) -> dict[str, Any]:
    """Return a session whose replies are short, but for what they offer."""
    short = deepcopy(reply)
    for entry in short["turns"]:
        text = entry["assistant"]
        offers = [offer["names"] for offer in task.facts["offers"] if all(name in text for name in offer["names"])]
        entry["assistant"] = ". ".join([" ".join(text.split()[:25]), *(", ".join(names) for names in offers)])
    return short


def test_a_session_that_is_read_as_it_says_is_kept(tasks: list[SessionTask], client: Client) -> None:
    task = tasks[1]
    good = offline_reply(task, client)
    writer = FreeWriter(session=[good], coverage=[true_reading(task, good)])
    assert write_session(Client(writer), task) == write_session(client, task)
    assert [call.request.template for call in writer.calls] == ["session", "coverage"]


def test_a_session_that_does_not_tell_something_is_rewritten(tasks: list[SessionTask], client: Client) -> None:
    task = tasks[1]
    good = offline_reply(task, client)
    bad = deepcopy(good)
    number = next(n for n, entry in enumerate(bad["turns"], start=1) if entry["told_ids"])
    told_id = bad["turns"][number - 1]["told_ids"][0]
    bad["turns"][number - 1]["user"] = "It rained all day and there was nothing to do but to look out of the window."
    true = true_reading(task, good)
    missing = deepcopy(true)
    next(one for one in missing["told"] if one["told_id"] == told_id)["message"] = None
    writer = FreeWriter(session=[bad], rewrite_turns=[turns_of(good, number)], coverage=[missing, true])
    assert write_session(Client(writer), task) == write_session(client, task)
    [prompt] = writer.asked("rewrite_turns")
    assert f"turn {number}: what the user says does not tell {told_id}, or not all of it" in prompt
    assert "It rained all day" in prompt
    assert writer.asked("session")[0] in prompt
    with pytest.raises(ReplyError, match=told_id):
        write_session(
            Client(FreeWriter(session=[bad], rewrite_turns=[turns_of(bad, number)], coverage=[missing])), task
        )


def test_a_session_of_which_something_is_taken_for_the_users_own_is_rewritten(
    tasks: list[SessionTask], client: Client
) -> None:
    task = tasks[1]
    good = offline_reply(task, client)
    true = true_reading(task, good)
    mistaken = deepcopy(true)
    taken = next(one for one in mistaken["told"] if one["whose"] == "other")
    taken["whose"] = "user"
    doubtful = deepcopy(good)
    doubtful["turns"][taken["message"] - 1]["user"] += " So it goes with all of us."
    writer = FreeWriter(session=[doubtful], rewrite_turns=[turns_of(good, taken["message"])], coverage=[mistaken, true])
    assert write_session(Client(writer), task) == write_session(client, task)
    [prompt] = writer.asked("rewrite_turns")
    fault = f"{taken['told_id']} is somebody else's; it was taken for the user's own"
    assert f"turn {taken['message']}: {fault}" in prompt


def test_the_words_of_a_session_are_looked_at_before_it_is_read(tasks: list[SessionTask], client: Client) -> None:
    task = tasks[1]
    good = offline_reply(task, client)
    bad = deepcopy(good)
    bad["turns"][0]["assistant"] = "User: I see."
    bad["turns"][1]["user"] = "Das ist " + "ganz und gar unverständlich " * 8
    mended = turns_of(good, 1, 2)
    writer = FreeWriter(session=[bad], rewrite_turns=[mended], coverage=[true_reading(task, good)])
    assert write_session(Client(writer), task) == write_session(client, task)
    assert [call.request.template for call in writer.calls] == ["session", "rewrite_turns", "coverage"]
    [repair] = writer.asked("rewrite_turns")
    assert "turn 1: the assistant's message has a speaker label (User:)" in repair
    assert "turn 2: the user's message is not in English" in repair


def test_a_short_session_is_lengthened_before_it_is_read(tasks: list[SessionTask], client: Client) -> None:
    task = tasks[1]
    good = offline_reply(task, client)
    short = shortened(good, task)
    longer = [{"number": n, **entry} for n, entry in enumerate(good["turns"], start=1)]
    writer = FreeWriter(session=[short], expand=[{"turns": longer}], coverage=[true_reading(task, good)])
    assert write_session(Client(writer), task) == write_session(client, task)
    assert [call.request.template for call in writer.calls] == ["session", "expand", "coverage"]


def unspoken(task: SessionTask) -> str:
    """Return a name that the assistant must not name in the session."""
    offered = {name for offer in task.facts["offers"] for name in offer["names"]}
    return next(name for name in task.facts["named"] if name not in offered)


def test_what_must_not_be_named_is_not_named_in_a_longer_session_either(
    tasks: list[SessionTask], client: Client
) -> None:
    task = tasks[1]
    good = offline_reply(task, client)
    short = shortened(good, task)
    longer = [{"number": n, **entry} for n, entry in enumerate(good["turns"], start=1)]
    named = deepcopy(longer)
    named[2]["assistant"] += f" Have you thought of {unspoken(task)}?"
    writer = FreeWriter(
        session=[short], expand=[{"turns": named}, {"turns": longer}], coverage=[true_reading(task, good)]
    )
    assert write_session(Client(writer), task) == write_session(client, task)
    assert "turn 3: the assistant names" in writer.asked("expand")[1]


# --- what the offline backend writes


def test_a_session_is_the_one_that_was_planned(written: list[tuple[SessionTask, Session]]) -> None:
    for task, session in written:
        assert session.session_id == task.plan.session_id
        assert (session.persona_id, session.topic) == (task.persona_id, task.topic)
        assert (session.period, session.date) == (task.plan.period, task.plan.date)
        assert len(session.messages) == 2 * task.facts["turns"]


def test_user_messages_carry_what_is_told_each_once_and_in_order(written: list[tuple[SessionTask, Session]]) -> None:
    for task, session in written:
        events = [id_ for message in session.messages for id_ in message.event_ids]
        mentions_ = [id_ for message in session.messages for id_ in message.mention_ids]
        assert tuple(events) == task.plan.event_ids
        assert mentions_ == [id_ for id_ in task.plan.told if id_ not in events]
        spoken = [m for m in session.messages if m.role == "assistant"]
        assert not any(message.event_ids or message.mention_ids for message in spoken)


def test_no_message_names_what_it_does_not_tell(written: list[tuple[SessionTask, Session]], banks: Banks) -> None:
    """The assistant names what it offers and nothing else, and nothing is told in passing."""
    for task, session in written:
        names = [name.lower() for name in banks.topics[task.topic].names()]
        told = {one["told_id"]: one for one in task.facts["told"]}
        offered = {name.lower() for offer in task.facts["offers"] for name in offer["names"]}
        for message in session.messages:
            may = {
                name.lower()
                for id_ in (*message.event_ids, *message.mention_ids)
                if told[id_]["telling"] == "named"
                for name in (*told[id_]["state"].split("; "), told[id_]["subject"])
            }
            may |= offered if message.role == "assistant" else set()
            lower = message.content.lower()
            assert not [n for n in names if n not in may and mentions(lower, n)], message.content


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
            assert "  " not in message.content
            assert "{told}" not in message.content


def test_no_user_message_occurs_twice(written: list[tuple[SessionTask, Session]]) -> None:
    texts = Counter(m.content for _, session in written for m in session.messages if m.role == "user")
    assert [text for text, count in texts.items() if count > 1] == []


def test_a_session_depends_on_its_request_alone(tasks: list[SessionTask], banks: Banks) -> None:
    first, again = (write_session(Client(OfflineBackend(banks, 1)), tasks[5]) for _ in range(2))
    assert first == again
    assert write_session(Client(OfflineBackend(banks, 2)), tasks[5]) != first
