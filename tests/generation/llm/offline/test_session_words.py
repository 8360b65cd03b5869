"""The offline backend's sessions tell everything once, in order, in stretches of chat about one concern each."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Any, NamedTuple

import pytest
from scipy.stats import chi2_contingency, mannwhitneyu
from small_banks import TOPICS, small_banks

from generation.banks.load import Banks
from generation.banks.topic import Thread, TopicBank
from generation.config import MAX_TOLD, Config
from generation.content_words import unwanted_names
from generation.grammar import mentions, pattern
from generation.llm.client import Client
from generation.llm.offline.backend import OfflineBackend
from generation.llm.offline.session_words import session_reply
from generation.prose import prose_faults
from generation.seeds import rng_for
from generation.stages.histories import draw_history, write_history
from generation.stages.personas import draw_personas, write_persona
from generation.stages.sessions import session_tasks

CONFIG = Config(topics=TOPICS, personas=3, seed=21, items_per_topic=11, questions_per_topic={"suggest_new_ideas": 3})


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
    for task in draw_personas(config, banks):
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


def replied(templates: Sequence[str], turn: Turn) -> bool:
    """Say whether a reply holds an expansion of a template; replies keep the words of the banks."""
    return any(pattern(template).search(turn.assistant) for template in templates)


def threads_in(talk: Talk) -> list[Thread]:
    """Return the threads of the bank whose first reply stands in a session, in the order of the bank."""
    return [t for t in talk.bank.threads if any(replied([t.exchanges[0].assistant], turn) for turn in talk.turns)]


# --- what is told


def test_there_are_as_many_turns_as_asked_for(talks: list[Talk]) -> None:
    assert len(talks) == 3 * 4 * 4
    assert [len(talk.turns) for talk in talks] == [talk.facts["turns"] for talk in talks]
    assert len({talk.facts["turns"] for talk in talks}) > 1


@pytest.mark.parametrize("spare", [0, 1, 2, 5, 20, 60])
def test_any_number_of_turns_that_holds_what_is_told_can_be_asked_for(talks: list[Talk], spare: int) -> None:
    for talk in talks[:8]:
        threads = {one["thread"] for one in talk.facts["told"]}
        count = max(1, len(threads) + len(talk.facts["life_events"])) + spare
        written = write({**talk.facts, "turns": count}, small_banks())
        assert len(written) == count
        assert sum(len(turn.told_ids) for turn in written) == len(talk.facts["told"])


def test_everything_is_told_in_order_and_of_one_concern_at_a_time(talks: list[Talk]) -> None:
    for talk in talks:
        assert [id_ for turn in talk.turns for id_ in turn.told_ids] == [one["told_id"] for one in talk.facts["told"]]
        thread = {one["told_id"]: one["thread"] for one in talk.facts["told"]}
        for turn in talk.turns:
            assert len(turn.told_ids) <= MAX_TOLD
            assert len({thread[id_] for id_ in turn.told_ids}) <= 1


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
            assert sum(listed.lower() in turn.assistant.lower() for turn in talk.turns) == 1


def test_what_is_told_in_other_words_is_hardly_ever_named_by_the_rest_of_the_message(talks: list[Talk]) -> None:
    named = [one for talk in talks for one, turn in talk.told() if dict(unwanted_names(one, talk.facts, turn.user))]  # type: ignore[arg-type]
    assert len(named) <= 0.003 * sum(len(talk.facts["told"]) for talk in talks)


# --- concerns


def test_what_is_told_comes_up_in_a_thread_on_it_or_in_passing(talks: list[Talk]) -> None:
    on = Counter()
    for talk in talks:
        for one, turn in talk.told():
            about = {"item": "items", "trial": "trials"}.get(one["kind"], one["subject"])
            own = [e.assistant for t in talk.bank.threads if t.about == about for e in t.exchanges]
            free = [e.assistant for t in talk.bank.threads if t.about == "free" for e in t.exchanges]
            assert replied([*own, *free], turn), turn.assistant
            on[replied(own, turn)] += 1
    assert on[True] > on[False] > 0.1 * on.total()


def test_threads_have_two_exchanges_or_more_where_there_is_room(talks: list[Talk]) -> None:
    for talk in talks:
        for thread in threads_in(talk):
            at = [
                next((i for i, turn in enumerate(talk.turns) if replied([e.assistant], turn)), None)
                for e in thread.exchanges
            ]
            written = [i for i in at if i is not None]
            assert written == [*range(written[0], written[0] + len(written))], "one after the other"
    twice = [
        len([t for t in threads_in(talk) if any(replied([t.exchanges[1].assistant], u) for u in talk.turns)])
        for talk in talks
    ]
    once = [len(threads_in(talk)) for talk in talks]
    assert sum(twice) >= 0.75 * sum(once)


def test_life_events_are_told_once_and_answered(talks: list[Talk]) -> None:
    entries = {event.id: event for event in small_banks().life.events}
    assert any(talk.facts["life_events"] for talk in talks)
    for talk in talks:
        for life in talk.facts["life_events"]:
            first = entries[life["subject"]].exchanges[0].assistant
            (turn,) = [turn for turn in talk.turns if replied([first], turn)]
            assert life["when"].lower() in turn.user.lower()
            assert not turn.told_ids


def test_threads_fit_the_life_of_the_user(talks: list[Talk]) -> None:
    for talk in talks:
        assert all(thread.fits(frozenset(talk.facts["life"])) for thread in threads_in(talk))


def test_a_user_hardly_ever_brings_up_a_concern_twice(talks: list[Talk]) -> None:
    used: dict[tuple[int, str], Counter[str]] = {}
    for talk in talks:
        counter = used.setdefault((talk.facts["persona_id"], talk.facts["topic"]), Counter())
        counter.update(thread.exchanges[0].assistant for thread in threads_in(talk))
    total = sum(counter.total() for counter in used.values())
    repeated = sum(n - 1 for counter in used.values() for n in counter.values())
    assert total > 300
    assert repeated <= 0.15 * total


def test_no_answer_occurs_twice_in_a_session(talks: list[Talk]) -> None:
    for talk in talks:
        answers = Counter(turn.assistant for turn in talk.turns)
        assert set(answers.values()) == {1}


def test_later_sessions_come_back_to_earlier_ones(talks: list[Talk]) -> None:
    labels = {bank.id: [t.label for t in bank.threads if t.about == "free"] for bank in small_banks().topics.values()}
    later = [talk for talk in talks if talk.facts["period_index"]]
    back = [
        talk for talk in later if any(label.lower() in talk.turns[0].user.lower() for label in labels[talk.bank.id])
    ]
    assert 0.3 * len(later) < len(back) < 0.9 * len(later)


# --- how it is written


def test_replies_do_not_show_whether_the_message_tells_an_event_or_something_else(talks: list[Talk]) -> None:
    """Acknowledgements come as often after one as after the other."""
    acknowledgements = small_banks().phrases.acknowledgements
    table: dict[str, list[int]] = {"event": [0, 0], "others": [0, 0]}
    for talk in talks:
        whose = {one["told_id"]: one["whose"] for one in talk.facts["told"]}
        for turn in talk.turns:
            if turn.told_ids:
                own = "user" in {whose[id_] for id_ in turn.told_ids}
                table["event" if own else "others"][replied(acknowledgements, turn)] += 1
    assert all(min(row) > 20 for row in table.values())
    assert chi2_contingency([*table.values()]).pvalue > 1e-4


def test_messages_that_tell_events_are_as_long_as_those_that_tell_of_others(talks: list[Talk]) -> None:
    lengths: dict[bool, list[int]] = {True: [], False: []}
    for talk in talks:
        told = {one["told_id"]: one for one in talk.facts["told"]}
        for turn in talk.turns:
            own = [told[id_] for id_ in turn.told_ids]
            if len(own) == 2 and not any(one["changed"] for one in own):
                lengths["user" in {one["whose"] for one in own}].append(len(turn.user.split()))
    assert all(len(some) > 100 for some in lengths.values())
    assert mannwhitneyu(*lengths.values()).pvalue > 1e-4


def test_only_what_is_told_is_acknowledged(talks: list[Talk]) -> None:
    acknowledgements = small_banks().phrases.acknowledgements
    for talk in talks:
        others = {one["person"].split()[-1] for one in talk.facts["told"] if one["whose"] == "other"}
        for turn in talk.turns:
            if not turn.told_ids:
                assert not any(re.match(pattern(text).pattern, turn.assistant) for text in acknowledgements)
                assert not any(re.search(rf"\b{name}\b", turn.assistant) for name in others)


def test_questions_in_which_nothing_is_told_are_short_once_a_concern_is_known(talks: list[Talk]) -> None:
    lengths: dict[bool, list[int]] = {True: [], False: []}
    for talk in talks:
        for turn in talk.turns[1:-1]:
            lengths[bool(turn.told_ids)].append(len(turn.user.split()))
    assert median(lengths[False]) < 0.5 * median(lengths[True])


def test_messages_break_no_rule_of_english(talks: list[Talk]) -> None:
    for talk in talks:
        assert [fault for turn in talk.turns for fault in prose_faults(turn.user)] == []


def test_a_session_ends_with_a_farewell(talks: list[Talk]) -> None:
    for talk in talks:
        assert replied(small_banks().phrases.farewells, talk.turns[-1])


def test_messages_are_clean(talks: list[Talk]) -> None:
    for talk in talks:
        for text in (text for turn in talk.turns for text in (turn.user, turn.assistant)):
            assert not re.search(r"[\[\]{}|\x02]|  |^\s|\s$|\n", CODE.sub("code", text)), text


CODE = re.compile(r"`[^`]*`")


def test_sessions_are_as_long_as_wanted(talks: list[Talk]) -> None:
    words = [sum(len(f"{turn.user} {turn.assistant}".split()) for turn in talk.turns) for talk in talks]
    assert 2500 < sum(words) / len(words) < 6000


def test_the_same_request_gives_the_same_words_and_another_rng_others(talks: list[Talk]) -> None:
    facts = talks[0].facts
    assert write(facts, small_banks(), 1) == write(facts, small_banks(), 1)
    one, other = ({turn.assistant for turn in write(facts, small_banks(), seed)} for seed in (1, 2))
    assert len(one & other) <= 2


def test_which_concerns_fall_to_a_period_follows_from_the_seed_and_the_user_alone(talks: list[Talk]) -> None:
    def concerns(seed: int, run_seed: int) -> set[str]:
        turns = session_reply(talks[0].facts, small_banks(), rng_for(seed, "any"), run_seed)["turns"]  # type: ignore[arg-type]
        return {t.label for t in threads_in(talks[0]._replace(turns=[Turn(**turn) for turn in turns]))}  # type: ignore[arg-type]

    # Whether something is told in passing is drawn for the session.
    assert len(concerns(1, CONFIG.seed) & concerns(2, CONFIG.seed)) > len(concerns(1, CONFIG.seed) & concerns(1, 99))


def test_the_periods_of_a_topic_are_told_one_after_the_other(talks: list[Talk]) -> None:
    for earlier, later in pairwise(talks):
        if earlier.label[:2] == later.label[:2]:
            assert earlier.facts["period_index"] + 1 == later.facts["period_index"]
            assert earlier.facts["date"] < later.facts["date"]
