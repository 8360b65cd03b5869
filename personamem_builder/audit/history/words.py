"""What an option asserts, as a reader sees it who knows no more than the texts of the options."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Final, NamedTuple

import snowballstemmer
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from personamem_builder.schema import QuestionRow, option_texts

EVOLUTION: Final = "track_full_preference_evolution"

_TOKEN: Final = re.compile(r"\w+|[,;:.!?()–—]")
_STEMMER: Final = snowballstemmer.stemmer("english")


@cache
def stem(word: str) -> str:
    """Return the stem of a word in lower case (Porter's second English stemmer, "Snowball")."""
    return str(_STEMMER.stemWord(word))


class Assertion(NamedTuple):
    """What sets an option apart from the others.

    Attributes:
        words: The telling words in lower case, in their order: no stop words, and none that all options have.
        segments: Their stems, part by part. Only an option that tells a course of things has more than one part.
    """

    words: tuple[str, ...]
    segments: tuple[tuple[str, ...], ...]

    @property
    def stems(self) -> tuple[str, ...]:
        """The distinct stems of all parts."""
        return tuple(dict.fromkeys(stem for segment in self.segments for stem in segment))


def assertions(row: QuestionRow) -> list[Assertion]:
    """Return what each option asserts: its words without the beginning, the end and the words that all options have.

    Where nothing is left of an option, as in four orders of the same things, the words that all have are kept. An
    option of the type that asks for a course is divided where words of no account, or punctuation, stand in between.
    """
    tokens = _cut([_TOKEN.findall(text.lower()) for text in option_texts(row)])
    content = [{stem(word) for word in words if tells(word)} for words in tokens]
    common = set.intersection(*content)
    if not all(own - common for own in content):
        common = set()
    return [_assertion(words, common, row["question_type"] == EVOLUTION) for words in tokens]


def asked_stems(row: QuestionRow) -> tuple[str, ...]:
    """Return the distinct stems of the telling words of a question."""
    tokens = _TOKEN.findall(row["user_question_or_message"].lower())
    return tuple(dict.fromkeys(stem(token) for token in tokens if tells(token)))


def tells(token: str) -> bool:
    """Whether a word may set options apart: no stop word, and no single letter."""
    return token[0].isalnum() and len(token) > 1 and token not in ENGLISH_STOP_WORDS


def _cut(options: Sequence[list[str]]) -> list[list[str]]:
    """Cut what all options begin and end with."""
    shortest = min(map(len, options))
    first = options[0]
    start = 0
    while start < shortest and all(words[start] == first[start] for words in options):
        start += 1
    end = 0
    while end < shortest - start and all(words[-1 - end] == first[-1 - end] for words in options):
        end += 1
    return [words[start : len(words) - end] for words in options]


def _assertion(tokens: Sequence[str], common: set[str], divided: bool) -> Assertion:
    words: list[str] = []
    parts: list[list[str]] = [[]]
    for token in tokens:
        if tells(token) and stem(token) not in common:
            words.append(token)
            parts[-1].append(stem(token))
        elif divided and parts[-1]:
            parts.append([])
    return Assertion(tuple(words), tuple(tuple(dict.fromkeys(part)) for part in parts if part))
