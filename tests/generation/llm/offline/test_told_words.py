"""What is told is in the words of its telling: named, in other words, or by what somebody does."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from scipy.stats import chi2_contingency
from small_banks import TOPICS, small_banks

from generation.banks.attributions import Attributed
from generation.banks.load import Banks
from generation.banks.topic import TopicBank
from generation.content_words import content_stems
from generation.grammar import expand, mentions, pattern
from generation.history_records import History
from generation.llm.offline.told_words import ToldWords
from generation.records import TELLINGS, Persona, Telling

CIRCLE = ["my cousin Ana", "my aunt Bo", "my neighbour Cy"]
FILM = "movieRecommendation"
BANK: TopicBank = small_banks().topics[FILM]
assert FILM in TOPICS


def words(seed: int, banks: Banks | None = None) -> ToldWords:
    rng = random.Random(seed)
    banks = banks or small_banks()

    def say(deck: str, **slots: str) -> str:
        return expand(rng.choice(getattr(banks.phrases, deck)), rng, **slots)

    def tell(deck: str, **slots: str) -> str:
        return expand(rng.choice(getattr(BANK, deck)), rng, **slots)

    return ToldWords(BANK, banks, CIRCLE, say, tell, rng)


def told(kind: str, subject: str, state: str, telling: Telling, **more: Any) -> Any:
    facts = {"told_id": "x", "whose": "user", "person": "", "when": "back in May", "changed": False, "reason": ""}
    return {**facts, "kind": kind, "subject": subject, "state": state, "telling": telling, **more}


def core(facts: Any, seed: int) -> str:
    [read] = small_banks().attributions.read(words(seed).told(facts))
    assert read.whose == facts["whose"]
    return read.core


def any_told(telling: Telling, rng: random.Random, **more: Any) -> Any:
    """Return something told, of any kind."""
    kind = rng.choice(["item", "slot", "fact", "trial"])
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


def cases(telling: Telling) -> Iterator[tuple[Any, str]]:
    rng = random.Random(7)
    for seed in range(200):
        facts = any_told(telling, rng)
        yield facts, core(facts, seed)


def names(facts: Any) -> list[str]:
    return {"item": [facts["subject"]], "trial": facts["state"].split("; ")}.get(facts["kind"], [facts["state"]])


def test_what_is_named_is_named() -> None:
    recalled = {fact.recalled: fact.told for kind in BANK.facts for fact in kind.facts}
    for facts, text in cases("named"):
        if facts["kind"] == "fact":
            assert pattern(recalled[facts["state"]]).search(text)
        else:
            assert all(mentions(text.lower(), name.lower()) for name in names(facts))


@pytest.mark.parametrize("telling", ["paraphrased", "implied"])
def test_what_is_told_otherwise_has_other_words_of_the_bank_for_it(telling: Telling) -> None:
    facts_of = {fact.recalled: fact for kind in BANK.facts for fact in kind.facts}
    values = {(slot.id, value.phrase): value for slot in BANK.slots for value in slot.values}
    for facts, text in cases(telling):
        lower = text.lower()
        if facts["kind"] == "fact":
            fact = facts_of[facts["state"]]
            assert pattern(fact.retold if telling == "paraphrased" else fact.trace).search(text)
        elif facts["kind"] == "slot":
            value = values[facts["subject"], facts["state"]]
            other = value.paraphrases if telling == "paraphrased" else value.signs
            assert any(mentions(lower, words.lower()) for words in other)
        else:
            for name in names(facts):
                assert not mentions(lower, name.lower())
                assert any(mentions(lower, words.lower()) for words in BANK.item(name).paraphrases)


@pytest.mark.parametrize("state", ["like", "dislike"])
def test_a_stance_is_spoken_out_but_where_it_shows(state: str) -> None:
    phrases = small_banks().phrases
    verdicts = {"like": BANK.likes, "dislike": BANK.dislikes}
    deeds = {"like": phrases.deeds_of_liking, "dislike": phrases.deeds_of_disliking}
    other = "dislike" if state == "like" else "like"
    for telling in TELLINGS:
        for seed in range(30):
            text = core(told("item", BANK.items[0].phrase, state, telling), seed)
            said, left = (deeds, verdicts) if telling == "implied" else (verdicts, deeds)
            assert _any(said[state], text)
            assert not _any([*said[other], *left["like"], *left["dislike"]], text), text


def _any(templates: list[str], text: str) -> bool:
    return any(pattern(template).search(text) for template in templates)


@pytest.mark.parametrize("telling", TELLINGS)
@pytest.mark.parametrize("kind", ["item", "slot"])
def test_a_change_has_its_reason_in_the_same_words_and_no_other_reason(kind: str, telling: Telling) -> None:
    reasons = [reason for some in BANK.reasons.values() for reason in some]
    slot = BANK.slots[0]
    for seed in range(40):
        reason = reasons[seed % len(reasons)]
        about = (slot.id, slot.values[0].phrase) if kind == "slot" else (BANK.items[1].phrase, "dislike")
        text = core(told(kind, *about, telling, changed=True, reason=reason.recalled), seed)
        given = {r.recalled for r in reasons if _any([r.told if telling == "named" else r.retold], text)}
        assert given == {reason.recalled}
        if telling != "named":
            assert not _any([r.told for r in reasons], text)


@pytest.mark.parametrize("telling", TELLINGS)
@pytest.mark.parametrize("whose", ["other", "dropped", "past"])
def test_whose_it_is_is_said_around_it(whose: str, telling: Telling) -> None:
    rng = random.Random(8)
    for seed in range(60):
        facts = any_told(telling, rng, whose=whose, person="my aunt Bo")
        text = words(seed).told(facts)
        assert [read.whose for read in small_banks().attributions.read(text)] == [whose]
        assert "my aunt Bo" in text.replace("My aunt Bo", "my aunt Bo")


def test_a_text_of_the_users_own_has_such_words_around_it_as_well() -> None:
    for seed in range(100):
        [read] = small_banks().attributions.read(words(seed).own("It rained."))
        assert read == Attributed("It rained.", "user")


@pytest.mark.parametrize("telling", TELLINGS)
def test_the_words_of_a_thing_do_not_depend_on_whose_it_is(telling: Telling) -> None:
    """How long they are, and which content words they have, is the same for the user's own and for others'."""
    lengths: dict[str, Counter[int]] = {"user": Counter(), "other": Counter()}
    stems: dict[str, Counter[str]] = {"user": Counter(), "other": Counter()}
    slot = BANK.slots[0]
    for whose in lengths:
        for seed in range(800):
            value = slot.values[seed % 4].phrase
            text = core(told("slot", slot.id, value, telling, whose=whose, person="my aunt Bo"), seed)
            lengths[whose][len(text.split()) // 4] += 1
            stems[whose].update(content_stems(text))
    for counts in (lengths, stems):
        common = [key for key in counts["user"] | counts["other"] if sum(c[key] for c in counts.values()) > 50]  # type: ignore[operator]
        table = [[count[key] for key in common] for count in counts.values()]  # type: ignore[index]
        assert chi2_contingency(table).pvalue > 1e-4


def test_around_values_stand_rivals_of_each_kind_as_often_as_there_are_such(
    crowd: list[tuple[Persona, History]],
) -> None:
    """So by which kind of words a value stands in tells nothing of whose it is."""
    mentions_ = Counter(
        mention.whose
        for _, history in crowd
        for topic in history.topics
        for mention in topic.mentions
        if mention.kind == "slot"
    )
    bank = small_banks().attributions
    frames = {text: entry.rival for entry in bank.attributions for text in entry.texts}
    slot = BANK.slots[0]
    kinds = Counter()
    for seed in range(800):
        text = words(seed).told(told("slot", slot.id, slot.values[0].phrase, "named"))
        kinds[next((rival for frame, rival in frames.items() if _fits(frame, text)), "other")] += 1
    for rival, count in mentions_.items():
        assert abs(kinds[rival] / 800 - count / mentions_.total()) < 0.05, rival


def _fits(frame: str, text: str) -> bool:
    return bool(pattern(frame.replace("“{core}”", "")).match(text))
