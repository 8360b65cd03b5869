"""What the shipped banks hold at least, and that no bank names what another asks about."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from small_banks import count_expansions, small_banks

import generation.banks.load
from generation.banks.load import load_banks, shipped_topics
from generation.banks.topic import TopicBank
from generation.config import Config
from generation.grammar import TemplateError, expand, mentions, parse, slot_names
from generation.records import MOTIVES

FILES = Path(generation.banks.load.__file__).parent / "files"

topics = pytest.mark.parametrize("topic", shipped_topics())


@cache
def bank_of(topic: str) -> TopicBank:
    config = Config(topics=(topic,), questions_per_topic={"generalize_to_new_scenarios": 0})
    return load_banks(config).topics[topic]


def within(texts: list[str], low: int, high: int) -> list[str]:
    """Return the texts that do not have so many words."""
    return [text for text in texts if not low <= len(text.split()) <= high]


# --- how much a bank holds


def test_the_shipped_topics_are_the_fifteen_released_ones_and_three_of_style() -> None:
    assert shipped_topics() == [
        "bookRecommendation",
        "coding",
        "datingConsultation",
        "email",
        "familyRelations",
        "financialConsultation",
        "foodRecommendation",
        "homeDecoration",
        "legalConsultation",
        "medicalConsultation",
        "movieRecommendation",
        "musicRecommendation",
        "onlineShopping",
        "sportsRecommendation",
        "studyConsultation",
        "therapy",
        "travelPlanning",
        "writing",
    ]


@topics
def test_a_bank_has_the_name_of_its_file(topic: str) -> None:
    assert bank_of(topic).id == topic


@topics
def test_a_bank_is_as_rich_as_promised(topic: str) -> None:
    """The promise: at least 60 items or values, 12 activity frames, 20 reasons."""
    bank = bank_of(topic)
    assert len(list(bank.names())) >= 60
    assert len(bank.frames) >= 12
    assert sum(map(len, bank.reasons.values())) >= 20


@topics
def test_a_bank_has_enough_of_every_kind_of_sentence(topic: str) -> None:
    bank = bank_of(topic)
    least = {"items": 28, "frames": 14, "likes": 14, "dislikes": 14, "colour": 30, "followups": 20, "talks": 50}
    assert {name: n for name in least if (n := len(getattr(bank, name))) < least[name]} == {}


@topics
def test_a_bank_has_five_slots_of_eight_values(topic: str) -> None:
    bank = bank_of(topic)
    assert len(bank.slots) >= 5
    assert {slot.id: n for slot in bank.slots if (n := len(slot.values)) < 8} == {}


@topics
def test_a_slot_has_enough_sentences(topic: str) -> None:
    least = {"first": 4, "update": 4, "queries": 3, "again": 2, "recall": 3}
    assert {
        f"{slot.id}.{name}": len(getattr(slot, name))
        for slot in bank_of(topic).slots
        for name in least
        if len(getattr(slot, name)) < least[name]
    } == {}


@topics
def test_the_values_of_a_slot_are_about_equally_long(topic: str) -> None:
    """Phrases at most two words apart, so that four of equal length can be found."""
    spread = {slot.id: {len(value.phrase.split()) for value in slot.values} for slot in bank_of(topic).slots}
    assert {name: counts for name, counts in spread.items() if max(counts) - min(counts) > 2} == {}


@topics
def test_a_value_has_two_recommendations_of_8_to_14_words(topic: str) -> None:
    values = [value for slot in bank_of(topic).slots for value in slot.values]
    assert [value.phrase for value in values if len(value.recommend) < 2] == []
    assert within([text for value in values for text in value.recommend], 8, 14) == []


@topics
def test_two_slots_know_stereotypes_of_the_young_and_of_the_old(topic: str) -> None:
    """Every user is one or the other, so every user meets a stereotype."""
    groups = [{group for value in slot.values for group in value.stereotype} for slot in bank_of(topic).slots]
    assert sum({"younger", "older"} <= some for some in groups) >= 2


@topics
def test_a_slot_has_three_values_that_no_stereotype_gives_to_a_user(topic: str) -> None:
    """Otherwise the four candidates could not have exactly one that follows a stereotype."""
    for slot in bank_of(topic).slots:
        for age in ("younger", "older"):
            for gender in ("woman", "man"):
                free = [value for value in slot.values if not {age, gender} & set(value.stereotype)]
                assert len(free) >= 3, f"{slot.id}: {age} {gender}"


@topics
def test_a_bank_has_three_kinds_of_eight_facts_of_9_to_16_words(topic: str) -> None:
    bank = bank_of(topic)
    assert len(bank.facts) >= 3
    assert {kind.id: n for kind in bank.facts if (n := len(kind.facts)) < 8} == {}
    assert within([fact.recalled for kind in bank.facts for fact in kind.facts], 9, 16) == []


@topics
def test_a_motive_has_three_reasons_of_8_to_14_words(topic: str) -> None:
    bank = bank_of(topic)
    assert {motive: n for motive in MOTIVES if (n := len(bank.reasons[motive])) < 3} == {}
    assert within([reason.recalled for reasons in bank.reasons.values() for reason in reasons], 8, 14) == []


@topics
def test_answers_about_a_topic_are_long_and_have_a_thousand_wordings(topic: str) -> None:
    answers = [talk.answer for talk in bank_of(topic).talks]
    shortest = [re.sub(r"\[([^\[\]|]*)[^\[\]]*\]", r"\1", answer) for answer in answers]
    assert [answer[:50] for answer in shortest if len(answer.split()) < 70] == []
    assert [answer[:50] for answer in answers if count_expansions(answer) < 1000] == []


@topics
def test_sentences_have_six_wordings(topic: str) -> None:
    varied = ("frames", "likes", "dislikes", "colour", "followups")
    assert [
        (where, template[:60])
        for where, template, _ in bank_of(topic).templates()
        if where in varied and count_expansions(template) < 6
    ] == []


# --- the banks that all topics share


def test_everybody_has_a_life() -> None:
    """At any age there is enough to tell for all four periods, apart from what reverses something else."""
    events = [event for event in small_banks().life.events if event.after is None]
    for age in range(18, 76):
        assert sum(event.min_age <= age <= event.max_age for event in events) >= 26, f"at {age}"


def test_a_life_event_names_the_event_that_it_follows() -> None:
    events = {event.id: event for event in small_banks().life.events}
    assert len(events) == len(small_banks().life.events)
    for event in events.values():
        assert event.after is None or events[event.after].after is None
        assert event.min_age < event.max_age


def test_life_events_say_when() -> None:
    for event in small_banks().life.events:
        assert all(slot_names(text) == {"when"} for text in event.told), event.id
        assert not any(slot_names(text) for text in (*event.asks, *event.replies)), event.id


def test_small_talk_has_no_slots() -> None:
    for entry in small_banks().life.small_talk:
        assert slot_names(entry.say) == slot_names(entry.reply) == set()


def test_phrases_have_the_slots_that_sessions_fill() -> None:
    phrases = small_banks().phrases
    needed = {
        "stance_like_now": {"item"},
        "stance_dislike_now": {"item"},
        "reason_leads": {"reason"},
        "datings": {"when"},
        "trials": {"items"},
        "trial_traces": {"items"},
        "offers_of_values": {"name", "names"},
    }
    for name in type(phrases).model_fields:
        for text in getattr(phrases, name):
            if name == "greetings":
                assert slot_names(text) <= {"date", "name"}
            elif name == "offers_of_items":
                assert {"names"} <= slot_names(text) <= {"names", "label"}
            else:
                assert slot_names(text) == needed.get(name, set()), text


def test_answers_have_the_slots_that_questions_fill() -> None:
    answers = small_banks().answers
    needed = {
        "facts": {"fact"},
        "ideas": {"item"},
        "evolutions": {"name", "steps"},
        "item_evolutions": {"item", "steps"},
        "reasons": {"reason"},
        "item_again": {"item"},
        "item_evolution_queries": {"label"},
        "go_by": {"label"},
        "recommendations": {"recommendation"},
    }
    for name in set(type(answers).model_fields) - {"stances"}:
        for text in getattr(answers, name):
            assert slot_names(text) == needed.get(name, set()), text


def test_the_two_stances_of_a_pair_use_the_same_words_but_for_the_stance() -> None:
    for pair in small_banks().answers.stances:
        for seed in range(50):
            like, dislike = (
                expand(text, random.Random(seed), item="tea").split() for text in (pair.like, pair.dislike)
            )
            assert len(like) == len(dislike)
            assert 1 <= sum(a != b for a, b in zip(like, dislike, strict=True)) <= 2


def test_scenarios_differ_in_their_advice_alone() -> None:
    scenarios = small_banks().scenarios.scenarios
    assert len({scenario.id for scenario in scenarios}) == len(scenarios) >= 18
    for scenario in scenarios:
        assert len(set(scenario.options.values())) == len(MOTIVES)
        assert all(slot_names(text) == {"advice"} for text in scenario.replies), scenario.id
        assert not any(slot_names(text) for text in scenario.messages), scenario.id


def test_scenarios_are_about_none_of_the_topics() -> None:
    assert {scenario.domain for scenario in small_banks().scenarios.scenarios}.isdisjoint(shipped_topics())


# --- across banks


def strings(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, dict):
        for value in content.values():
            yield from strings(value)
    elif isinstance(content, list):
        for value in content:
            yield from strings(value)


def shipped_files() -> dict[str, Any]:
    paths = sorted([*FILES.glob("*.yaml"), *FILES.glob("topics/*.yaml")])
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return {str(path.relative_to(FILES)): yaml.load(path.read_bytes(), loader) for path in paths}


State = tuple[str, int]
"""While a template is read: the last character, and how much of a phrase has been found (-1: nothing, -2: all)."""


def may_mention(template: str, phrase: str) -> bool:
    """Say whether some expansion of a template names a phrase as whole words."""

    def walk(parts: Any, states: set[State]) -> set[State]:
        for part in parts:
            if hasattr(part, "branches"):
                states = set.union(*(walk(branch, states) for branch in part.branches))
                continue
            for character in part if isinstance(part, str) else "\0":  # what fills a slot is a name of its own
                states = {after for state in states for after in _read(state, character, phrase)}
        return states

    ends = walk(parse(template), {("\0", -1)})
    return any(at in (-2, len(phrase)) for _, at in ends)


def _read(state: State, character: str, phrase: str) -> list[State]:
    last, at = state
    if at == -2 or last == character == " ":  # all was found before; or a double blank, which expansions do not have
        return [state]
    if at == len(phrase):
        return [] if character.isalnum() else [(character, -2)]
    if at >= 0:
        return [(character, at + 1)] if phrase[at] == character else []
    begins = phrase[0] == character and not last.isalnum()
    return [(character, -1), (character, 1)] if begins else [(character, -1)]


@pytest.mark.parametrize(
    ("template", "found"),
    [
        ("we took night trains home", True),
        ("[night|day] trains", True),
        ("night[ mail|] trains.", True),
        ("[fortnight|late night] trains", True),
        ("[fort|k]night trains", False),
        ("night {when} trains", False),
        ("night train[spotting|]", False),
        ("a [|very ] night [|train]trains", True),
    ],
)
def test_the_search_below_reads_templates(template: str, found: bool) -> None:
    assert may_mention(template, "night trains") is found
    text = [expand(template, random.Random(i), when="x").lower() for i in range(60)]
    assert any(mentions(some, "night trains") for some in text) is found


WORD = re.compile(r"[^\W_]+")


def violations(files: dict[str, Any]) -> list[str]:
    """Return where a file names an item or a value of another file's topic."""
    owners: dict[str, set[str]] = defaultdict(set)
    for file, content in files.items():
        if file.startswith("topics"):
            for item in content.get("items") or ():
                owners[item["phrase"].lower()].add(file)
            for slot in content.get("slots") or ():
                for value in slot["values"]:
                    owners[value["phrase"].lower()].add(file)
    # Each phrase is looked for only in texts that hold its longest word.
    by_word: dict[str, list[tuple[str, set[str]]]] = defaultdict(list)
    for phrase in owners:
        words = WORD.findall(phrase)
        by_word[max(words, key=len)].append((phrase, set(words)))
    found = []
    for file, content in files.items():
        for text in dict.fromkeys(strings(content)):
            words = set(WORD.findall(text.lower()))
            for word in sorted(words & by_word.keys()):
                for phrase, needed in by_word[word]:
                    if owners[phrase] - {file} and needed <= words and _names(text.lower(), phrase):
                        topics_of = ", ".join(sorted(owners[phrase] - {file}))
                        found.append(f"{file} names {phrase!r} of {topics_of}: {text}")
    return found


def _names(text: str, phrase: str) -> bool:
    try:
        return mentions(text, phrase) or may_mention(text, phrase)
    except TemplateError:
        return mentions(text, phrase)


def test_no_file_names_an_item_or_a_value_of_another_topic() -> None:
    """Or a user would seem to have spoken of it, and a session in which it must not occur could not be written."""
    found = violations(shipped_files())
    assert not found, "\n".join(["", *found])


@topics
def test_no_wording_of_a_text_names_an_item_or_a_value_of_its_own_topic(topic: str) -> None:
    bank = bank_of(topic)
    names = [(name.lower(), set(WORD.findall(name.lower()))) for name in bank.names()]
    found = []
    for where, template, _ in bank.templates():
        words = set(WORD.findall(template.lower()))
        found += [
            (where, name, template) for name, needed in names if needed <= words and may_mention(template.lower(), name)
        ]
    assert found == []


def test_no_fact_or_reason_occurs_in_two_topics() -> None:
    """Or a reason `never given` in a topic may have been given in another."""
    where: dict[str, list[str]] = defaultdict(list)
    for file, content in shipped_files().items():
        if file.startswith("topics"):
            for kind in content.get("facts") or ():
                for fact in kind["facts"]:
                    where[fact["recalled"].lower()].append(file)
            for reasons in (content.get("reasons") or {}).values():
                for reason in reasons:
                    where[reason["recalled"].lower()].append(file)
    assert {text: files for text, files in where.items() if len(files) > 1} == {}
