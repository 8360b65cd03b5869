"""The offline backend's sessions tell every event once, in order, and are whole sentences without repeats."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from small_banks import TOPICS, small_banks

from generation.banks.load import Banks
from generation.banks.topic import TopicBank
from generation.config import Config
from generation.grammar import mentions, pattern
from generation.llm.client import Client
from generation.llm.offline.backend import OfflineBackend
from generation.llm.offline.session_words import session_reply
from generation.records import TopicHistory
from generation.seeds import rng_for
from generation.stages.histories import draw_history, write_history
from generation.stages.personas import draw_personas, write_persona
from generation.stages.sessions import session_tasks

CONFIG = Config(topics=TOPICS, personas=3, seed=21)


class Turn(NamedTuple):
    user: str
    assistant: str
    event_ids: list[str]


class Talk(NamedTuple):
    """A session as it was asked for and as it was written."""

    facts: Mapping[str, Any]
    history: TopicHistory
    bank: TopicBank
    turns: list[Turn]

    def told(self) -> Iterator[tuple[Mapping[str, Any], Turn]]:
        """Yield each event with the turn that tells it."""
        by_id = {event_id: turn for turn in self.turns for event_id in turn.event_ids}
        return ((event, by_id[event["event_id"]]) for event in self.facts["events"])

    @property
    def label(self) -> tuple[int, str, str]:
        return self.facts["persona_id"], self.facts["topic"], self.facts["period"]


def write(facts: Mapping[str, Any], banks: Banks, seed: int = 0) -> list[Turn]:
    return [Turn(**turn) for turn in session_reply(facts, banks, random.Random(seed), CONFIG.seed)["turns"]]


def talks_of(config: Config) -> list[Talk]:
    banks = small_banks()
    client = Client(OfflineBackend(banks, config.seed))
    talks = []
    for task in draw_personas(config, banks.people):
        persona = write_persona(client, task)
        history = write_history(client, draw_history(config, persona, banks))
        by_topic = {topic.topic: topic for topic in history.topics}
        for session in session_tasks(config, persona, history, banks):
            turns = write(session.facts, banks, len(talks))
            talks.append(Talk(session.facts, by_topic[session.topic], banks.topics[session.topic], turns))
    return talks


@pytest.fixture(scope="module")
def talks() -> list[Talk]:
    """The sessions of three users in four topics."""
    return talks_of(CONFIG)


def test_there_are_as_many_turns_as_asked_for(talks: list[Talk]) -> None:
    assert len(talks) == 3 * 4 * 4
    assert [len(talk.turns) for talk in talks] == [talk.facts["turns"] for talk in talks]
    assert len({talk.facts["turns"] for talk in talks}) > 1


@pytest.mark.parametrize("more", [0, 1, 2, 3, 10, 40])
def test_any_number_of_turns_that_holds_the_events_can_be_asked_for(talks: list[Talk], more: int) -> None:
    for talk in talks[:8]:
        told = len(talk.facts["events"]) + len(talk.facts["life"])
        turns = write({**talk.facts, "turns": told + more}, small_banks())
        assert len(turns) == told + more


def test_events_are_told_in_order_one_a_turn(talks: list[Talk]) -> None:
    for talk in talks:
        told = [turn.event_ids for turn in talk.turns if turn.event_ids]
        assert told == [[event["event_id"]] for event in talk.facts["events"]]


def test_the_message_of_an_event_says_what_happened(talks: list[Talk]) -> None:
    for talk in talks:
        facts = {fact.recalled: fact.told for kind in talk.bank.facts for fact in kind.facts}
        for event, turn in talk.told():
            text = turn.user.lower()
            if event["kind"] == "item":
                assert mentions(text, event["subject"].lower())
            elif event["kind"] == "slot":
                assert mentions(text, event["state"].lower())
            else:
                assert pattern(facts[event["state"]]).search(text)


def test_liking_and_dislike_are_told_in_their_own_words(talks: list[Talk]) -> None:
    phrases = small_banks().phrases
    for talk in talks:
        words = {
            ("like", False): talk.bank.likes,
            ("dislike", False): talk.bank.dislikes,
            ("like", True): phrases.stance_like_now,
            ("dislike", True): phrases.stance_dislike_now,
        }
        for event, turn in talk.told():
            if event["kind"] == "item":
                said = {key for key, sentences in words.items() if _any_matches(sentences, turn.user)}
                assert said == {(event["state"], event["changed"])}, turn.user


def _any_matches(templates: list[str], text: str) -> bool:
    return any(pattern(template).search(text) for template in templates)


def test_the_reason_of_a_change_is_told_in_the_same_message_and_no_other_reason(talks: list[Talk]) -> None:
    changes = 0
    for talk in talks:
        told = {reason.recalled: reason.told for reasons in talk.bank.reasons.values() for reason in reasons}
        for event, turn in talk.told():
            given = {recalled for recalled, words in told.items() if pattern(words).search(turn.user)}
            assert given == ({event["reason"]} if event["changed"] else set())
            changes += event["changed"]
    assert changes == 3 * 4 * CONFIG.updates_per_topic


def test_the_message_of_an_event_names_no_other_state(talks: list[Talk]) -> None:
    for talk in talks:
        for event, turn in talk.told():
            named = {name for name in talk.bank.names() if mentions(turn.user.lower(), name.lower())}
            assert named == {"item": {event["subject"]}, "slot": {event["state"]}, "fact": set()}[event["kind"]]


def test_no_other_message_names_an_item_or_a_value(talks: list[Talk]) -> None:
    found = [
        (*talk.label, name)
        for talk in talks
        for turn in talk.turns
        for name in talk.bank.names()
        if mentions(turn.assistant.lower(), name.lower())
        or (not turn.event_ids and mentions(turn.user.lower(), name.lower()))
    ]
    assert found == []


def test_life_events_are_told_once_and_answered(talks: list[Talk]) -> None:
    entries = {event.id: event for event in small_banks().life.events}
    assert any(talk.facts["life"] for talk in talks)
    for talk in talks[::3]:
        for life in talk.facts["life"]:
            entry = entries[life["subject"]]
            turns = [turn for turn in talk.turns if not turn.event_ids and _any_matches(entry.told, turn.user)]
            assert len(turns) == 1
            assert _any_matches(entry.replies, turns[0].assistant)


def test_a_user_asks_no_question_twice_in_the_sessions_of_a_topic(talks: list[Talk]) -> None:
    asked: dict[tuple[int, str], Counter[str]] = {}
    for talk in talks:
        counter = asked.setdefault((talk.facts["persona_id"], talk.facts["topic"]), Counter())
        for turn in talk.turns:
            counter.update(t.ask for t in talk.bank.talks if pattern(t.ask).search(turn.user))
    assert all(sum(counter.values()) > 4 * 8 for counter in asked.values())
    repeats = {key: [ask for ask, n in counter.items() if n > 1] for key, counter in asked.items()}
    assert {key: asks for key, asks in repeats.items() if asks} == {}


def test_no_answer_occurs_twice_in_a_session(talks: list[Talk]) -> None:
    for talk in talks:
        answers = Counter(
            t.answer for t in talk.bank.talks for turn in talk.turns if pattern(t.answer).search(turn.assistant)
        )
        assert set(answers.values()) <= {1}


def test_no_longer_sentence_of_the_user_occurs_twice_in_a_session(talks: list[Talk]) -> None:
    for talk in talks:
        sentences = Counter(s for turn in talk.turns for s in re.split(r"(?<=[.!?]) ", turn.user) if len(s.split()) > 7)
        assert [s for s, n in sentences.items() if n > 1] == [], talk.label


def test_small_talk_is_part_of_every_session_that_has_room(talks: list[Talk]) -> None:
    says = [entry.say for entry in small_banks().life.small_talk]
    for talk in talks:
        room = talk.facts["turns"] - len(talk.facts["events"]) - len(talk.facts["life"])
        chats = sum(_any_matches(says, turn.user) for turn in talk.turns)
        assert chats >= room // 4, talk.label


def test_a_session_begins_with_a_greeting_that_names_the_day_and_ends_with_a_farewell(talks: list[Talk]) -> None:
    phrases = small_banks().phrases
    for talk in talks:
        first, *rest = talk.turns
        assert _any_matches(phrases.greetings, first.user)
        assert talk.facts["spoken_date"] in _decapitalized(first.user)
        assert not any(talk.facts["spoken_date"] in _decapitalized(turn.user) for turn in rest)
        assert _any_matches(phrases.closers, talk.turns[-1].user)
        assert _any_matches(phrases.farewells, talk.turns[-1].assistant)


def _decapitalized(text: str) -> str:
    return text.replace("The ", "the ")


FAULTS = {
    "a character of the template language is left": r"[\[\]{}|]",
    "two blanks": r"  ",
    "a blank at an end": r"^\s|\s$",
    "a line break": r"\n",
    "a blank before a mark": r" [,.;:!?]",
    "two marks": r"[,;:.!?][,;:]|,[.!?]|[;:][.!?]|\.\.|[!?]\.",
    "no mark at the end": r"[^.!?'’”\"]$",
    "no capital at the start": r"^['\"‘“]?[^A-Z0-9'\"‘“]",
    "no capital after a full stop": r"[a-z]{3}[.!?] [a-z]",
    "a word twice": r"\b(?!(?:that|had)\b)([a-z]+) \1\b",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_messages_are_clean(talks: list[Talk], fault: str) -> None:
    found = [
        text
        for talk in talks
        for turn in talk.turns
        for text in (turn.user, turn.assistant)
        if re.search(FAULTS[fault], text)
    ]
    assert found == []


def test_sessions_are_as_long_as_wanted(talks: list[Talk]) -> None:
    words = [sum(len(f"{turn.user} {turn.assistant}".split()) for turn in talk.turns) for talk in talks]
    assert 2500 < sum(words) / len(words) < 6000


def test_the_same_request_gives_the_same_words_and_another_rng_others(talks: list[Talk]) -> None:
    facts = talks[0].facts
    assert write(facts, small_banks(), 1) == write(facts, small_banks(), 1)
    one, other = ({turn.user for turn in write(facts, small_banks(), seed)} for seed in (1, 2))
    assert not one & other


def test_which_questions_fall_to_a_period_follows_from_the_seed_and_the_user_alone(talks: list[Talk]) -> None:
    def asked(seed: int) -> list[str]:
        facts, bank = talks[0].facts, talks[0].bank
        turns = session_reply(facts, small_banks(), rng_for(seed, "any"), CONFIG.seed)["turns"]
        return sorted(t.ask for t in bank.talks for turn in turns if pattern(t.ask).search(turn["user"]))

    assert asked(1) == asked(2)


def test_the_periods_of_a_topic_are_told_one_after_the_other(talks: list[Talk]) -> None:
    for earlier, later in pairwise(talks):
        if earlier.label[:2] == later.label[:2]:
            assert earlier.facts["period_index"] + 1 == later.facts["period_index"]
            assert earlier.facts["date"] < later.facts["date"]


@pytest.mark.parametrize(("month", "said"), [("07", {"Rain fell."}), ("01", {"Snow fell.", "Rain fell."})])
def test_the_weather_fits_the_season(talks: list[Talk], month: str, said: set[str]) -> None:
    assert asides(talks, month, ["Snow fell.", "Rain fell."]) == said


def test_a_bank_with_nothing_for_the_season_is_used_as_it_is(talks: list[Talk]) -> None:
    assert asides(talks, "07", ["Snow fell."]) == {"Snow fell."}


def asides(talks: list[Talk], month: str, colour: list[str]) -> set[str]:
    """Return which of some asides occur in a session of a month."""
    banks = small_banks()
    facts = {**talks[0].facts, "date": f"2021-{month}-15"}
    bank = banks.topics[facts["topic"]].model_copy(update={"colour": colour})
    turns = write(facts, banks._replace(topics={bank.id: bank}))
    return {text for text in colour if any(text in turn.user for turn in turns)}
