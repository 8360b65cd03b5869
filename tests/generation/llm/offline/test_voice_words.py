"""A user's words are in the user's manner; what is told keeps its own."""

from __future__ import annotations

import random

import pytest
from small_banks import small_banks

from generation.banks.voices import Voice
from generation.llm.offline.voice_words import VoiceWords

ASK = "[How|In what way] do I keep it fresh<, since it's so warm>? <I've a small kitchen.>"


def voice(**changes: object) -> Voice:
    return (
        small_banks()
        .voices.voices[0]
        .model_copy(
            update={
                "details": 1.0,
                "case": "sentence",
                "contractions": "keep",
                "end": ".",
                "replacements": [],
                **changes,
            }
        )
    )


def message(template: str, told: str = "", seed: int = 0, before: list[str] | None = None, **changes: object) -> str:
    return VoiceWords(voice(**changes), random.Random(seed)).message(template, told, before or [])


def test_details_are_written_by_those_who_go_into_them() -> None:
    assert message("How? <It's warm.>", details=1.0) == "How? It's warm."
    assert message("How? <It's warm.>", details=0.0) == "How?"
    both = {message("How? <It's warm.>", seed=seed, details=0.5) for seed in range(20)}
    assert both == {"How?", "How? It's warm."}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"contractions": "none"}, "It is a lot of work, and I have no time."),
        ({"case": "lower"}, "it's a lot of work, and i've no time."),
        ({"end": "!"}, "It's a lot of work, and I've no time!"),
        ({"end": ""}, "It's a lot of work, and I've no time"),
        ({"replacements": [("a lot of", "much")]}, "It's much work, and I've no time."),
        ({"replacements": [("it's", "that is")]}, "That is a lot of work, and I've no time."),
    ],
)
def test_what_a_voice_does_to_words(changes: dict[str, object], expected: str) -> None:
    assert message("it's a lot of work, and I've no time.", **changes) == expected


def test_a_question_keeps_its_mark() -> None:
    assert message("Is it?", end="!") == "Is it?"


def test_what_is_told_stands_in_its_place_and_keeps_its_words() -> None:
    told = "With dinner Ana has a lot of tea."
    text = message("I'm planning. {told} What now?", told, replacements=[("a lot of", "much"), ("planning", "busy")])
    assert text == f"I'm busy. {told} What now?"
    assert message("What now?", told, before=["Hello."]) == f"Hello. {told} What now?"
    assert message("I'm planning. {told} What now?") == "I'm planning. What now?"


def test_words_before_stand_in_front() -> None:
    assert message("How is it?", before=["Hello.", "Quick one:"]) == "Hello. Quick one: how is it?"


def test_the_shipped_voices_are_unlike_each_other() -> None:
    """In the length of what they write of the same, at least by half."""
    words = {
        one.id: sum(
            len(VoiceWords(one, random.Random(seed)).message(ASK, "", ["Well."] * (seed % 2)).split())
            for seed in range(40)
        )
        for one in small_banks().voices.voices
    }
    assert max(words.values()) > 1.5 * min(words.values())
