"""What the shipped banks hold at least, and that no bank names what another asks about."""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from small_banks import count_expansions, small_banks

import generation.banks.load
from generation.banks.bank_file import placed, read_bank
from generation.banks.load import load_banks, shipped_topics
from generation.banks.topic import TopicBank
from generation.banks.topic_faults import bad_prose, frame_faults
from generation.config import Config
from generation.grammar import TemplateError, expand, mentions, parse, slot_names, without_details
from generation.lives import draw_life
from generation.records import GENERIC_TYPES, MOTIVES

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
def test_a_bank_has_enough_of_everything(topic: str) -> None:
    bank = bank_of(topic)
    assert len(list(bank.names())) >= 60
    least = {"items": 28, "slots": 5, "facts": 4, "item_queries": 5, "idea_queries": 5}
    assert {name: n for name in least if (n := len(getattr(bank, name))) < least[name]} == {}
    assert {slot.id: n for slot in bank.slots if (n := len(slot.values)) < 8} == {}


@topics
def test_there_are_enough_ways_to_tell_a_thing(topic: str) -> None:
    bank = bank_of(topic)
    of_slots = {"pairs": 5, "threes": 3, "changes": 4, "past": 3, "dropped": 3, "signs": 4, "stock": 3}
    of_stances = {"likes": 6, "dislikes": 6, "turned_to": 4, "turned_from": 4, "like_signs": 5, "dislike_signs": 5}
    few = [(slot.id, name) for slot in bank.slots for name, n in of_slots.items() if len(getattr(slot.tells, name)) < n]
    few += [("stances", name) for name, n in of_stances.items() if len(getattr(bank.stances, name)) < n]
    few += [(kind.id, "pairs") for kind in bank.facts if len(kind.pairs) < 4]
    assert few == []


@topics
def test_a_slot_has_enough_sentences(topic: str) -> None:
    least = {"queries": 3, "again": 2, "recall": 3, "recommend_queries": 3}
    assert {
        f"{slot.id}.{name}": len(getattr(slot, name))
        for slot in bank_of(topic).slots
        for name in least
        if len(getattr(slot, name)) < least[name]
    } == {}


@topics
def test_there_are_enough_threads_on_everything(topic: str) -> None:
    """As many as a user has to do with in the sessions of a topic, most of two exchanges and more."""
    bank = bank_of(topic)
    counts = Counter(thread.about for thread in bank.threads)
    least = {
        "free": 12,
        "items": 10,
        "trials": 4,
        **{slot.id: 4 for slot in bank.slots},
        **{k.id: 2 for k in bank.facts},
    }
    assert {on: counts[on] for on, n in least.items() if counts[on] < n} == {}
    assert all(len(thread.exchanges) >= 2 for thread in bank.threads)
    assert len({thread.label for thread in bank.threads}) >= 0.9 * len(bank.threads)


@topics
def test_the_values_of_a_slot_are_about_equally_long(topic: str) -> None:
    """Phrases at most four words apart, so that four of about equal length can be found."""
    spread = {slot.id: {len(value.phrase.split()) for value in slot.values} for slot in bank_of(topic).slots}
    assert {name: counts for name, counts in spread.items() if max(counts) - min(counts) > 4} == {}


@topics
def test_a_value_has_two_recommendations_of_6_to_15_words(topic: str) -> None:
    values = [value for slot in bank_of(topic).slots for value in slot.values]
    assert [value.phrase for value in values if len(value.recommend) < 2] == []
    assert within([text for value in values for text in value.recommend], 6, 15) == []


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
def test_a_kind_has_twelve_facts_of_about_equal_length(topic: str) -> None:
    """So that twelve users have twelve stories, and four of them can be told apart by no length."""
    bank = bank_of(topic)
    assert {kind.id: n for kind in bank.facts if (n := len(kind.facts)) < 12} == {}
    assert within([fact.recalled for kind in bank.facts for fact in kind.facts], 5, 18) == []


@topics
def test_a_motive_has_three_reasons_for_every_slot_and_for_both_ways_of_items(topic: str) -> None:
    bank = bank_of(topic)
    groups = [bank.item_reasons.toward, bank.item_reasons.away, *(slot.reasons for slot in bank.slots)]
    assert all(len(group[motive]) >= 3 for group in groups for motive in MOTIVES)
    assert within([reason.told for _, reason in bank.all_reasons()], 5, 16) == []


@topics
def test_few_sentences_of_threads_have_few_wordings(topic: str) -> None:
    texts = [text for t in bank_of(topic).threads for e in t.exchanges for text in (e.user, e.assistant)]
    sentences = [
        sentence
        for text in texts
        for sentence in re.split(r"(?<=[.!?]) (?=[A-Z\[{])", without_details(text, lambda: True))
        if sentence.count("[") == sentence.count("]") and len(sentence.split()) >= 6
    ]
    few = [sentence for sentence in sentences if count_expansions(sentence) < 12]
    assert len(few) <= 0.35 * len(sentences)


@pytest.mark.slow
@topics
def test_the_linter_has_nothing_to_say(topic: str) -> None:
    path = FILES / "topics" / f"{topic}.yaml"
    bank, faults = read_bank(path, path.read_bytes(), TopicBank)
    assert bank is not None
    assert list(map(str, [*faults, *placed(path, path.read_bytes(), bad_prose(bank))])) == []


# --- the banks that all topics share


def test_everybody_has_a_life() -> None:
    """At any age, and in any life, there is enough to tell, apart from what reverses something else."""
    people, events = small_banks().people, small_banks().life.events
    rng = random.Random(1)
    for _ in range(400):
        age = rng.randint(18, 75)
        life = draw_life(people, age, rng)
        fitting = [event for event in events if event.after is None and event.fits_person(age, life.tags)]
        assert len(fitting) >= 8, (age, life.tags)


def test_parts_of_a_life_do_not_contradict_each_other() -> None:
    rng = random.Random(2)
    for _ in range(2000):
        age = rng.randint(18, 75)
        tags = draw_life(small_banks().people, age, rng).tags
        assert len(tags & {"job", "student", "retired"}) == 1
        assert len(tags & {"house", "flat"}) <= 1
        assert not {"alone", "partner"} <= tags
        assert not {"alone", "flatmates"} <= tags
        assert not {"alone", "children"} <= tags
        assert "boss" not in tags or "job" in tags
        assert "retired" not in tags or age >= 60


def test_a_life_event_names_the_event_that_it_follows() -> None:
    events = {event.id: event for event in small_banks().life.events}
    assert len(events) == len(small_banks().life.events)
    for event in events.values():
        assert event.after is None or event.after in events
        assert event.min_age < event.max_age
        assert event.exchanges[0].tells


@pytest.mark.parametrize("name", ["life", "people", "phrases", "voices"])
def test_the_linter_has_nothing_to_say_of_what_all_topics_share(name: str) -> None:
    bank = getattr(small_banks(), name)
    faults = [*bad_prose(bank), *frame_faults(bank)]
    assert [f"{fault.place}: {fault.message}" for fault in faults] == []


def test_small_talk_fits_any_month_and_any_life() -> None:
    for month in range(1, 13):
        fitting = [t for t in small_banks().life.small_talk if not t.needs and (not t.months or month in t.months)]
        assert len(fitting) >= 12


def test_voices_are_rich_enough_for_a_user_of_many_sessions() -> None:
    least = {"greetings": 12, "returns": 8, "leads": 12, "switches": 10, "takes": 20, "asides": 10, "closers": 12}
    assert len(small_banks().voices.voices) >= 8
    for voice in small_banks().voices.voices:
        assert {name: n for name in least if (n := len(getattr(voice, name))) < least[name]} == {}, voice.id


def test_answers_have_the_slots_that_questions_fill() -> None:
    answers = small_banks().answers
    needed = {
        "facts": {"fact"},
        "ideas": {"item"},
        "evolutions": {"name", "steps"},
        "item_evolutions": {"item", "steps"},
        "reasons": {"reason"},
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


def test_generic_replies_have_at_least_a_dozen_forms_a_type_and_plain_english() -> None:
    generic = load_banks(Config(topics=("writing",), generic_distractors=1)).generic
    assert generic is not None
    for question_type in GENERIC_TYPES:
        bodies = generic.own_bodies.get(question_type, generic.bodies)
        assert len(generic.openings[question_type]) * len(bodies) >= 36, question_type
    assert len(generic.endings) >= 6
    assert [f"{fault.place}: {fault.message}" for fault in bad_prose(generic)] == []


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


def test_no_fact_occurs_in_two_topics() -> None:
    where: dict[str, list[str]] = defaultdict(list)
    for topic in shipped_topics():
        for text in (fact.recalled for kind in bank_of(topic).facts for fact in kind.facts):
            where[text.lower()].append(topic)
    assert {text: topics for text, topics in where.items() if len(topics) > 1} == {}
