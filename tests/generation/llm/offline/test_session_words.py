"""The offline backend's sessions tell everything once, in order, and are whole sentences without repeats."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from scipy.stats import chi2_contingency, mannwhitneyu
from small_banks import TOPICS, small_banks

from generation.banks.load import Banks
from generation.banks.topic import TopicBank
from generation.config import MAX_TOLD, Config
from generation.content_words import unwanted_names
from generation.grammar import mentions, pattern
from generation.llm.client import Client
from generation.llm.offline.backend import OfflineBackend
from generation.llm.offline.session_words import session_reply
from generation.seeds import rng_for
from generation.stages.histories import draw_history, write_history
from generation.stages.personas import draw_personas, write_persona
from generation.stages.sessions import session_tasks

CONFIG = Config(topics=TOPICS, personas=3, seed=21)


class Turn(NamedTuple):
    user: str
    assistant: str
    told_ids: list[str]


class Talk(NamedTuple):
    """A session as it was asked for and as it was written."""

    facts: Mapping[str, Any]
    bank: TopicBank
    turns: list[Turn]

    def told(self) -> Iterator[tuple[Mapping[str, Any], Turn]]:
        """Yield each thing told with the turn that tells it."""
        by_id = {told_id: turn for turn in self.turns for told_id in turn.told_ids}
        return ((one, by_id[one["told_id"]]) for one in self.facts["told"])

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
        for session in session_tasks(config, persona, history, banks):
            turns = write(session.facts, banks, len(talks))
            talks.append(Talk(session.facts, banks.topics[session.topic], turns))
    return talks


@pytest.fixture(scope="module")
def talks() -> list[Talk]:
    """The sessions of three users in four topics."""
    return talks_of(CONFIG)


def test_there_are_as_many_turns_as_asked_for(talks: list[Talk]) -> None:
    assert len(talks) == 3 * 4 * 4
    assert [len(talk.turns) for talk in talks] == [talk.facts["turns"] for talk in talks]
    assert len({talk.facts["turns"] for talk in talks}) > 1


@pytest.mark.parametrize("turns", [1, 2, 5, 20, 60])
def test_any_number_of_turns_that_holds_the_life_events_can_be_asked_for(talks: list[Talk], turns: int) -> None:
    for talk in talks[:8]:
        count = turns + len(talk.facts["life"])
        written = write({**talk.facts, "turns": count}, small_banks())
        assert len(written) == count
        sizes = [len(turn.told_ids) for turn in written]
        assert sum(sizes) == len(talk.facts["told"])
        assert max(sizes) <= -(-len(talk.facts["told"]) // turns)


def test_everything_is_told_in_order_at_most_three_things_a_turn(talks: list[Talk]) -> None:
    for talk in talks:
        assert [id_ for turn in talk.turns for id_ in turn.told_ids] == [one["told_id"] for one in talk.facts["told"]]
        assert max(len(turn.told_ids) for turn in talk.turns) <= MAX_TOLD


def test_a_message_tells_whose_each_thing_is_in_the_order_of_its_ids(talks: list[Talk]) -> None:
    for talk in talks:
        whose = {one["told_id"]: one["whose"] for one in talk.facts["told"]}
        for turn in talk.turns:
            read = [told.whose for told in small_banks().attributions.read(turn.user)]
            assert read == ([whose[id_] for id_ in turn.told_ids] or ["user"]), turn.user


def test_no_other_message_names_an_item_or_a_value_and_no_reply_but_by_an_offer(talks: list[Talk]) -> None:
    found = []
    for talk in talks:
        told = {one["told_id"]: one for one in talk.facts["told"]}
        offered = {name for offer in talk.facts["offers"] for name in offer["names"]}
        for turn in talk.turns:
            own = [told[id_] for id_ in turn.told_ids if told[id_]["telling"] == "named"]
            may = {name for one in own for name in (one["subject"], *one["state"].split("; "))}
            names = [
                name for name in talk.bank.names() if name not in may and mentions(turn.user.lower(), name.lower())
            ]
            said = {name for name in talk.bank.names() if mentions(turn.assistant.lower(), name.lower())}
            found += [(*talk.label, name) for name in (*names, *(said - offered))]
    assert found == []


def test_each_offer_stands_in_one_reply_in_its_order(talks: list[Talk]) -> None:
    for talk in talks:
        for offer in talk.facts["offers"]:
            *names, last = offer["names"]
            listed = f"{', '.join(names)} and {last}"
            assert sum(listed in turn.assistant for turn in talk.turns) == 1


def test_what_is_told_in_other_words_is_not_named_by_the_rest_of_the_message(talks: list[Talk]) -> None:
    for talk in talks:
        for one, turn in talk.told():
            assert not dict(unwanted_names(one, talk.facts, turn.user)), turn.user  # type: ignore[arg-type]


def _any_matches(templates: list[str], text: str) -> bool:
    return any(pattern(template).search(text) for template in templates)


def test_life_events_are_told_once_and_answered(talks: list[Talk]) -> None:
    entries = {event.id: event for event in small_banks().life.events}
    assert any(talk.facts["life"] for talk in talks)
    for talk in talks[::3]:
        for life in talk.facts["life"]:
            entry = entries[life["subject"]]
            turns = [turn for turn in talk.turns if not turn.told_ids and _any_matches(entry.told, turn.user)]
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
    """But for those that say whose something is: there are more things told than ways to say it."""
    bank = small_banks().attributions
    texts = [text for entry in bank.attributions for text in entry.texts]
    whose = [sentence for text in texts for sentence in re.split(r"(?<=[.!?]) ", text) if "core" not in sentence]
    for talk in talks:
        sentences = Counter(s for turn in talk.turns for s in re.split(r"(?<=[.!?]) ", turn.user) if len(s.split()) > 7)
        twice = [s for s, n in sentences.items() if n > 1]
        assert [s for s in twice if not any(pattern(text).fullmatch(s) for text in whose)] == [], talk.label


def test_small_talk_is_part_of_every_session_that_has_room(talks: list[Talk]) -> None:
    says = [entry.say for entry in small_banks().life.small_talk]
    for talk in talks:
        chats = sum(_any_matches(says, turn.user) for turn in talk.turns)
        assert chats >= talk.facts["turns"] // 4, talk.label


def test_replies_do_not_show_whether_the_message_tells_an_event_something_else_or_nothing(talks: list[Talk]) -> None:
    """Acknowledgements, answers and offers come as often after one as after the other."""
    acknowledgements = small_banks().phrases.acknowledgements
    table: dict[str, list[int]] = {"event": [0, 0], "others": [0, 0], "nothing": [0, 0]}
    for talk in talks:
        whose = {one["told_id"]: one["whose"] for one in talk.facts["told"]}
        for turn in talk.turns:
            own = "user" in {whose[id_] for id_ in turn.told_ids}
            kind = "event" if own else "others" if turn.told_ids else "nothing"
            table[kind][_any_matches(acknowledgements, turn.assistant)] += 1
    assert all(min(row) > 20 for row in table.values())
    assert chi2_contingency([*table.values()]).pvalue > 1e-4


def test_messages_that_tell_events_are_as_long_as_those_that_tell_of_others(talks: list[Talk]) -> None:
    lengths: dict[bool, list[int]] = {True: [], False: []}
    for talk in talks:
        whose = {one["told_id"]: one["whose"] for one in talk.facts["told"]}
        for turn in talk.turns:
            if len(turn.told_ids) == 1:
                lengths[whose[turn.told_ids[0]] == "user"].append(len(turn.user.split()))
    assert all(len(some) > 100 for some in lengths.values())
    assert mannwhitneyu(*lengths.values()).pvalue > 1e-4


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
