"""A reader without understanding: where words stand, and whether the words around them are kind or unkind.

It knows the question types and the lexicon of VADER (Hutto and Gilbert 2014, MIT licence), and nothing of how any
benchmark was made.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Final

from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

from personamem_builder.audit.history.index import HistoryIndex, best
from personamem_builder.audit.history.reading import Values, find_mentions, rule_values
from personamem_builder.audit.history.words import EVOLUTION, Assertion, stem

IDEAS: Final = "suggest_new_ideas"
_LATEST: Final = frozenset({"acknowledge_latest_user_preferences", "provide_preference_aligned_recommendations"})

_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+")
_WORD: Final = re.compile(r"\w+")
_SENTENCES_KEPT: Final = 32_768
_WINDOW: Final = 3
"""Sentences that are read from a mention on, its own included."""


def polarity_values(
    question_type: str,
    index: HistoryIndex,
    options: Sequence[Assertion],
    asked: Sequence[str],
    end: int,
    tone: Callable[[str], float] | None = None,
) -> Values:
    """Return what the reader gives to each option of a question.

    New ideas: the least mentioned. Latest preferences and what is aligned with them: the last mentioned; the course of
    preferences: the last mentioned, from the last part on. Anything else: the best match with a single message, to
    which the words of the question add. Where options name the same thing and speak differently of it, the words for
    that are taken out of the search, and of these options the one wins that speaks of it as the user did last.

    Args:
        question_type: Of the question.
        index: Of its context.
        options: What each option asserts.
        asked: The telling stems of the question.
        end: How many messages it sees.
        tone: How kindly a few sentences speak, above 0 for kind; by the lexicon where it is None.
    """
    if question_type == IDEAS:
        return rule_values(find_mentions(index, options, end).user)["least_mentioned"]
    if question_type not in _LATEST and question_type != EVOLUTION:
        return _matches(index, options, asked, end)
    things, stances = parted(options)
    mentions = find_mentions(index, things, end).user
    agreed = [
        _agreement(stance, _feelings(index, thing, places, tone or lexicon_tone)) if stance else 0.0
        for thing, stance, places in zip(things, stances, mentions, strict=True)
    ]
    last = rule_values(mentions)["last_mentioned"]
    return [(*value, agrees) for value, agrees in zip(last, agreed, strict=True)]


def _matches(index: HistoryIndex, options: Sequence[Assertion], asked: Sequence[str], end: int) -> Values:
    """Return of each option the largest share of its words in one message, and half of that of the question's words."""
    topical = index.shares(asked, end)
    return [
        (best({i: share + topical.get(i, 0.0) / 2 for i, share in index.shares(option.stems, end).items()}),)
        for option in options
    ]


@cache
def _analyzer() -> SentimentIntensityAnalyzer:
    return SentimentIntensityAnalyzer()


@cache
def valence(word: str) -> float:
    """Return how kind a word is, from -4 to 4; 0 where the lexicon lacks it."""
    return float(_analyzer().lexicon.get(word, 0.0))


def parted(options: Sequence[Assertion]) -> tuple[Sequence[Assertion], Sequence[tuple[int, ...]]]:
    """Return what options speak of, and in which order each speaks well (1) or ill (-1) of it.

    Where no two options speak differently of the same thing, kind and unkind words are words like any other.
    """
    things, stances = [], []
    for option in options:
        kind = {stem(word): valence(word) for word in option.words if valence(word)}
        parts = [tuple(own for own in part if own not in kind) for part in option.segments]
        things.append(option._replace(segments=tuple(part for part in parts if part)))
        stances.append(tuple(1 if valence(word) > 0 else -1 for word in option.words if valence(word)))
    spoken: dict[frozenset[str], set[tuple[int, ...]]] = {}
    for thing, stance in zip(things, stances, strict=True):
        spoken.setdefault(frozenset(thing.stems), set()).add(stance)
    if all(key and len(own) > 1 for key, own in spoken.items()):
        return things, stances
    return options, [() for _ in options]


def _feelings(
    index: HistoryIndex, thing: Assertion, places: Sequence[Sequence[int]], tone: Callable[[str], float]
) -> list[float]:
    """Return how the user spoke of a thing, each time that it was mentioned."""
    stems = frozenset(thing.stems)
    return [tone(around(index.messages[i]["content"], stems)) for i in sorted({i for own in places for i in own})]


def around(text: str, stems: frozenset[str]) -> str:
    """Return the sentence that has most of some stems, and those that follow it."""
    sentences = _SENTENCE.split(text)
    shared = [len(stems & {stem(word) for word in _WORD.findall(sentence.lower())}) for sentence in sentences]
    start = shared.index(max(shared))
    return " ".join(sentences[start : start + _WINDOW])


def lexicon_tone(text: str) -> float:
    """Return the summed tone of the sentences of a text, each from -1 to 1."""
    return sum(map(_sentence_tone, _SENTENCE.split(text)))


@lru_cache(maxsize=_SENTENCES_KEPT)
def _sentence_tone(sentence: str) -> float:
    return float(_analyzer().polarity_scores(sentence)["compound"])


def _agreement(stance: Sequence[int], feelings: Sequence[float]) -> float:
    """Return how far what an option says of a thing, from last to first, is how the user spoke of it."""
    signs = list(zip(reversed(stance), reversed(feelings)))  # noqa: B905  # an option may tell less than there was
    total = sum(sign * feeling / 2**place for place, (sign, feeling) in enumerate(signs))
    return round(float(total), 9)
