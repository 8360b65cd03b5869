"""Words that say whose something told is: they are read back as they were told, and no word of them tells."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from pydantic import ValidationError
from small_banks import small_banks

from generation.banks.attributions import CLOSE, OPEN, Attribution, Attributions, Rival
from generation.history_records import Whose

RIVALS: tuple[Rival, ...] = ("other", "dropped", "past")
CORE = "I have gone over to night trains. That is all."


@pytest.fixture(scope="module")
def bank() -> Attributions:
    return small_banks().attributions


def of_one(entry: Attribution) -> Attributions:
    """Return a bank that can say it in one way only; no bank file may hold so little."""
    return Attributions.model_construct(attributions=[entry])


@pytest.mark.parametrize("rival", RIVALS)
def test_what_is_told_is_read_back_with_whose_it_is(bank: Attributions, rival: Rival) -> None:
    whose_: tuple[Whose, ...] = ("user", rival)
    for whose in whose_:
        for seed in range(400):
            rng = random.Random(seed)
            text = bank.tell(CORE, whose, "my cousin Ana", rival, rng)
            [read] = bank.read(f"Good evening. {text} What do you think?")
            assert read == (CORE, whose), text


@pytest.mark.parametrize("place", range(len(small_banks().attributions.attributions)))
def test_every_text_is_read_back(place: int) -> None:
    entry = small_banks().attributions.attributions[place]
    whole = small_banks().attributions
    for text in entry.texts:
        alone = of_one(entry.model_copy(update={"texts": [text]}))
        for seed in range(30):
            for whose in ("user", entry.rival):
                told = alone.tell(CORE, whose, "my aunt Bo", entry.rival, random.Random(seed))
                assert list(whole.read(told)) == [(CORE, whose)], told


def test_several_things_in_a_message_are_read_in_order(bank: Attributions) -> None:
    rng = random.Random(2)
    for _ in range(200):
        told: list[tuple[str, Whose]] = []
        texts = []
        for number in range(3):
            rival = rng.choice(RIVALS)
            whose = rng.choice(["user", rival])
            told.append((f"This is thing {number}.", whose))
            texts.append(bank.tell(told[-1][0], whose, rng.choice(["my cousin Ana", "my aunt Bo"]), rival, rng))
        assert list(bank.read(" ".join(texts))) == told


@pytest.mark.parametrize(
    "message",
    ["", "I like night trains.", f"She said: {OPEN}Never.{CLOSE}", f"{OPEN}Never.", f"{CLOSE}Never.{OPEN}"],
)
def test_what_no_entry_fits_is_nobodys(bank: Attributions, message: str) -> None:
    assert list(bank.read(message)) == []


@pytest.mark.parametrize("rival", RIVALS)
def test_around_own_and_others_things_stand_the_same_words(bank: Attributions, rival: Rival) -> None:
    """By the same draws: the text is the same but for the tag that is shown."""
    for seed in range(300):
        own, other = (bank.tell(CORE, whose, "my aunt Bo", rival, random.Random(seed)) for whose in ("user", rival))
        assert own != other
        assert len(own.split()) == len(other.split()) or _without_tags(bank, own) == _without_tags(bank, other)


def _without_tags(bank: Attributions, text: str) -> Counter[str]:
    for tag in sorted((tag for entry in bank.attributions for tag in entry.tags), key=len, reverse=True):
        text = text.replace(tag, "")
    return Counter(text.split())


def test_no_word_stands_around_own_things_more_often_than_around_those_of_others(bank: Attributions) -> None:
    counts: dict[str, Counter[str]] = {"user": Counter(), "other": Counter()}
    for whose, words in counts.items():
        rng = random.Random(3)
        for _ in range(3000):
            told = bank.tell("", whose, "Bo", "other", rng).replace(OPEN, "").replace(CLOSE, "")  # type: ignore[arg-type]
            words.update(set(told.lower().replace(",", " ").replace(".", " ").replace(":", " ").split()))
    common = [word for word in counts["user"] | counts["other"] if sum(c[word] for c in counts.values()) > 300]
    assert len(common) > 40
    for word in common:
        own, other = counts["user"][word], counts["other"][word]
        assert abs(own - other) < 5 * (own + other) ** 0.5 + 3000 * 0.02, (word, own, other)


# --- what a bank must be

TEXT = f"I wrote on {{mine}}, {{person}} on {{theirs}}. On {{shown}}: {OPEN}{{core}}{CLOSE}"


def content(**changes: Any) -> dict[str, Any]:
    entries = [{"rival": rival, "tags": ["Monday", "Friday"], "texts": [TEXT]} for rival in RIVALS]
    return {"attributions": [{**entries[0], **changes}, *entries[1:]]}


def test_a_small_bank_is_valid() -> None:
    bank = Attributions.model_validate(content())
    assert [*bank.read(bank.tell(CORE, "other", "my aunt Bo", "other", random.Random(1)))] == [(CORE, "other")]


@pytest.mark.parametrize(
    "bad",
    [
        content(texts=[TEXT.replace(OPEN, "")]),
        content(texts=[TEXT.replace("{shown}", "it")]),
        content(texts=[TEXT.replace("{mine}", "a day")]),
        content(texts=[TEXT.replace("{theirs}", "a day")]),
        content(texts=[f"{TEXT} {OPEN}{{core}}{CLOSE}"]),
        content(texts=[f"{TEXT} {{when}}"]),
    ],
)
def test_a_text_without_its_slots_or_quotation_marks_is_named(bad: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=r"must have “{core}” once, and every slot"):
        Attributions.model_validate(bad)


def test_every_rival_has_an_attribution() -> None:
    with pytest.raises(ValidationError, match="there is none for the rival other"):
        Attributions.model_validate(content(rival="past"))


@pytest.mark.parametrize("bad", [content(tags=["Monday"]), content(texts=[]), content(rival="user")])
def test_two_tags_a_text_and_a_rival_are_needed(bad: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Attributions.model_validate(bad)
