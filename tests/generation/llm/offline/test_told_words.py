"""What is told is in the words of its telling, and whose it is can be read back from where it stands alone."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from scipy.stats import chi2_contingency
from small_banks import TOPICS, even, small_banks

from generation.banks.topic import TopicBank
from generation.grammar import mentions, pattern
from generation.history_records import History
from generation.llm.offline.told_words import ToldWords
from generation.records import TELLINGS, Persona, Telling
from personamem_builder.audit.told_reader import Read, TopicTells, plain_words

CIRCLE = ["my cousin Ana", "my friend Bo", "my neighbour Cy", "my schoolmate Di"]
BANK: TopicBank = small_banks().topics[TOPICS[0]]
TELLS = TopicTells(BANK, small_banks().phrases)
KINDS = ("item", "slot", "fact", "trial")


def written(seed: int, *told: Any) -> str:
    return ToldWords(BANK, small_banks(), CIRCLE, random.Random(seed)).told(told)


def told(kind: str, subject: str, state: str, telling: Telling, **more: Any) -> Any:
    facts = {"told_id": "x", "whose": "user", "person": "", "when": "back in May", "changed": False, "reason": ""}
    return {**facts, "kind": kind, "subject": subject, "state": state, "telling": telling, **more}


def any_told(kind: str, telling: Telling, rng: random.Random, **more: Any) -> Any:
    items = [item.phrase for item in BANK.items]
    if kind == "slot":
        slot = rng.choice(BANK.slots)
        return told(kind, slot.id, rng.choice(slot.values).phrase, telling, **more)
    if kind == "fact":
        facts = rng.choice(BANK.facts)
        return told(kind, facts.id, rng.choice(facts.facts).recalled, telling, **more)
    if kind == "trial":
        return told(kind, "", "; ".join(rng.sample(items, 3)), telling, **more)
    return told(kind, rng.choice(items), rng.choice(["like", "dislike"]), telling, **more)


def another(one: Any, rng: random.Random, **more: Any) -> Any:
    """Return something else of the same slot, kind of fact, or kind."""
    while True:
        other = any_told(one["kind"], one["telling"], rng, **more)
        if (other["subject"] == one["subject"] or one["kind"] in ("item", "trial")) and other["state"] != one["state"]:
            return other


def read(text: str) -> list[str]:
    """Return what a text tells as the user's own, in the words of the plans."""
    found = Read([], [], [], [], [])
    TELLS.read(plain_words(text), found)
    tried = ["; ".join(sorted(found.tried))] if found.tried else []
    return [*found.facts, *found.values, *found.stances, *tried]


def in_plan(one: Any) -> str:
    if one["kind"] == "item":
        return f"{one['state']}: {one['subject']}"
    return "; ".join(sorted(one["state"].split("; "))) if one["kind"] == "trial" else one["state"]


def names(one: Any) -> list[str]:
    return {"item": [one["subject"]], "trial": one["state"].split("; ")}.get(one["kind"], [one["state"]])


@pytest.mark.parametrize("telling", TELLINGS)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_the_users_is_read_back_and_what_is_not_is_not(kind: str, telling: Telling) -> None:
    rng = random.Random(7)
    for seed in range(120):
        own = any_told(kind, telling, rng)
        assert read(written(seed, own)) == [in_plan(own)], written(seed, own)
        other = {**own, "whose": "other", "person": "my friend Bo"}
        assert read(written(seed, other)) == [], written(seed, other)


@pytest.mark.parametrize("telling", TELLINGS)
@pytest.mark.parametrize("kind", KINDS)
def test_of_two_in_a_sentence_the_users_is_told_from_that_of_others(kind: str, telling: Telling) -> None:
    rng = random.Random(8)
    for seed in range(120):
        own = any_told(kind, telling, rng)
        other = another(own, rng, whose="other", person="my friend Bo")
        for pair in ((own, other), (other, own)):
            assert read(written(seed, *pair)) == [in_plan(own)], written(seed, *pair)
        third = another(own, rng, whose="other", person="my neighbour Cy")
        assert read(written(seed, other, third)) == [], written(seed, other, third)


@pytest.mark.parametrize("telling", ["named", "paraphrased"])
@pytest.mark.parametrize("whose", ["dropped", "past"])
def test_what_was_dropped_or_is_over_is_not_read_as_the_users(whose: str, telling: Telling) -> None:
    rng = random.Random(9)
    for seed in range(120):
        one = any_told("slot", telling, rng, whose=whose, person="my friend Bo")
        assert read(written(seed, one)) == [], written(seed, one)
        now = another(one, rng)
        assert read(written(seed, one, now)) == [in_plan(now)]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_named_is_named_and_what_is_told_otherwise_is_not(kind: str) -> None:
    rng = random.Random(10)
    facts = {fact.recalled: fact for some in BANK.facts for fact in some.facts}
    for seed in range(100):
        for telling in TELLINGS:
            one = any_told(kind, telling, rng)
            text = written(seed, one).lower()
            if kind == "fact":
                fact = facts[one["state"]]
                texts = {"named": fact.told, "paraphrased": fact.retold, "implied": fact.trace}
                assert [name for name, some in texts.items() if pattern(some).search(text)] == [telling]
            else:
                assert [mentions(text, name.lower()) for name in names(one)] == [telling == "named"] * len(names(one))


@pytest.mark.parametrize("telling", TELLINGS)
@pytest.mark.parametrize("kind", ["item", "slot"])
def test_a_change_has_its_reason_and_no_other(kind: str, telling: Telling) -> None:
    slot, item = BANK.slots[0], BANK.items[1].phrase
    bank = slot.reasons if kind == "slot" else BANK.item_reasons.away
    reasons = [reason for some in bank.values() for reason in some]
    for seed in range(60):
        reason = reasons[seed % len(reasons)]
        about = (slot.id, slot.values[0].phrase) if kind == "slot" else (item, "dislike")
        text = written(seed, told(kind, *about, telling, changed=True, reason=reason.told))
        found = Read([], [], [], [], [])
        TELLS.read(plain_words(text), found)
        assert reason.told in {given.told for given in found.reasons}, text
        assert (reason.told.lower() in text.lower()) == (telling == "named")
        other = {**told(kind, *about, telling, changed=True, reason=reason.told), "whose": "other", "person": CIRCLE[0]}
        found = Read([], [], [], [], [])
        TELLS.read(plain_words(written(seed, other)), found)
        assert found.reasons == []


def test_no_reason_of_others_is_read_as_the_users_over_the_end_of_a_sentence() -> None:
    """Two sentences, each of which begins or ends like a frame: the user's reason is in neither."""
    slot = BANK.slots[0]
    reasons = [reason.told for some in slot.reasons.values() for reason in some]
    for seed in range(60):
        value, other = (value.phrase for value in slot.values[:2])
        told_of_others = [
            told("slot", slot.id, state, "named", changed=True, reason=reason, whose="other", person=person)
            for state, reason, person in zip((value, other), reasons, CIRCLE, strict=False)
        ]
        found = Read([], [], [], [], [])
        TELLS.read(plain_words(written(seed, *told_of_others)), found)
        assert (found.reasons, found.values) == ([], [])


@pytest.mark.parametrize("whose", ["user", "other"])
def test_in_three_holes_something_stands_at_every_place_equally_often(whose: str) -> None:
    """So neither first nor last in a sentence is the user's."""
    rng = random.Random(11)
    places: Counter[int] = Counter()
    for seed in range(900):
        one = any_told("slot", "named", rng, whose=whose, person="" if whose == "user" else CIRCLE[0])
        other = another(one, rng, whose="other", person=CIRCLE[1])
        text = written(seed, *rng.sample([one, other], 2)).lower()
        places[text.find(one["state"].lower()) < text.find(other["state"].lower())] += 1
    assert even([places[True], places[False]])


def test_the_words_around_something_are_the_same_for_the_user_and_for_others() -> None:
    """How long a sentence is does not tell whose a thing is."""
    lengths: dict[str, Counter[int]] = {"user": Counter(), "other": Counter()}
    slot = BANK.slots[0]
    for whose, counts in lengths.items():
        for seed in range(800):
            value = slot.values[seed % 4].phrase
            person = "" if whose == "user" else CIRCLE[0]
            text = written(seed, told("slot", slot.id, value, "implied", whose=whose, person=person))
            counts[len(text.split()) // 4] += 1
    common = [length for length in lengths["user"] | lengths["other"] if min(c[length] for c in lengths.values()) > 5]
    table: Sequence[Sequence[int]] = [[counts[length] for length in common] for counts in lengths.values()]
    assert chi2_contingency(table).pvalue > 1e-4


def test_a_value_of_the_users_stands_beside_rivals_of_each_kind_as_often_as_there_are_such(
    crowd: list[tuple[Persona, History]],
) -> None:
    """So by which kind of words a value stands in tells nothing of whose it is."""
    counts = Counter(
        mention.whose
        for _, history in crowd
        for topic in history.topics
        for mention in topic.mentions
        if mention.kind == "slot" and mention.beside_event_id and mention.telling != "implied"
    )
    slot = BANK.slots[0]
    frames = {"past": slot.tells.past, "dropped": slot.tells.dropped}
    kinds: Counter[str] = Counter()
    for seed in range(800):
        text = written(seed, told("slot", slot.id, slot.values[0].phrase, "named"))
        kinds[next((w for w, some in frames.items() if any(pattern(f).match(text) for f in some)), "other")] += 1
    for whose, count in counts.items():
        assert abs(kinds[whose] / 800 - count / counts.total()) < 0.05, whose
