"""Words that carry what a text says: what two texts must not share if matching words is not to tell."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from generation.request_facts import SessionFacts, ToldFacts

_STEM: Final = 5  # letters that words of one stem have in common
_SHORTEST: Final = 3
_WORD: Final = re.compile(r"[^\W\d_]+")

_EVERYDAY_WORDS: Final = """
a about above after afternoon again against all also always am an and another any are around as ask at away back be
became because become been before began begin behind being below best better between both but by call called came
can cannot come could daily day days did do does doing done down during each early eight either else end enough
even evening evenings ever every few find first five for found four from full gave get gets getting give given go
goes going gone good got great had half has have having he her here hers herself him himself his home hour hours
house how i if in into is it its itself just keep keeps kept know known large last late later least left less let
like little long look made make makes making many may me mean might mine minute minutes month months more morning
most much must my myself near nearly need never new next night no nobody none nor not nothing now of off often old
on once one only onto or other others our ours out over own part people place put quite rather really right said
same saw say second see seem seen set seven several shall she should side since six small so some somebody someone
something soon still such take taken tell ten than that the their theirs them themselves then there these they
thing things think this those though three through time times to today together told too took toward towards turn
turned twice two under until up upon us use used usually very want was way we week weekend weekly weeks well went
were what when where whether which while who whole whom whose why will with within without word work would year
years yet you young your yours yourself
"""
_EVERYDAY: Final = frozenset(_EVERYDAY_WORDS.split())


def content_stems(text: str) -> frozenset[str]:
    """Return the beginnings of the content words of a text: everyday words are left out, and so are endings."""
    words = (word.lower() for word in _WORD.findall(text))
    return frozenset(_stem(word) for word in words if len(word) >= _SHORTEST and word not in _EVERYDAY)


def unwanted_names(one: ToldFacts, facts: SessionFacts, message: str) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield what a message names although it is to tell it in other words, with the words by which it does.

    It names a thing by most of the words that only it has, among those of its kind that the session tells: a single
    one may belong to something else that the message says.
    """
    there = content_stems(message) - content_stems(" ".join(facts["circle"]))
    beside = [other for other in facts["told"] if (other["kind"], other["subject"]) == (one["kind"], one["subject"])]
    texts = {text for other in beside for text in other["avoid"]} if one["kind"] in ("slot", "fact") else set[str]()
    common = frozenset[str].intersection(*map(content_stems, texts)) if len(texts) > 1 else frozenset[str]()
    for text in one["avoid"]:
        own = content_stems(text) - common
        if 2 * len(own & there) > len(own):
            yield text, own & there


def _stem(word: str) -> str:
    if word.endswith("ies"):
        word = f"{word[:-3]}y"
    if word.endswith("s") and not word.endswith("ss") and len(word) > _SHORTEST:
        word = word[:-1]
    return word[:_STEM]
