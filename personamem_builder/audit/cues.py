"""Cue words: words that tell the right option from the wrong ones, whatever the conversation says."""

from __future__ import annotations

import hashlib
import json
import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special, stats

from personamem_builder.audit.records import ALL, EXAMPLES, AuditedSplit, Finding
from personamem_builder.schema import QuestionRow, option_texts
from personamem_builder.statistics import standard_error

_Floats = npt.NDArray[np.float64]

FALSE_DISCOVERY_RATE: Final = 0.05
"""Of the words reported, the share that may be reported by chance."""

FEWEST_QUESTIONS: Final = 10
"""A word is tested where it sets options apart in this many questions."""

_MOST_OPTIONS: Final = 256  # letters are fewer
_WORD: Final = re.compile(r"\w+(?:['’]\w+)*")
"""A contraction is one word: `m` as a cue would tell a person less than `i'm`."""


class Occurrence(NamedTuple):
    """A question in which a word stands in some options, not in all.

    Attributes:
        question_id: Of the question.
        persona: The user.
        topic: None where the source has none.
        chance: The share of options that have the word.
        hit: Whether the right option has it.
    """

    question_id: str
    persona: int
    topic: str | None
    chance: float
    hit: bool


class _TestedWord(NamedTuple):
    p: float
    word: str


class _Words:
    """In which questions of a split each word sets options apart.

    Args:
        split: The questions; equal ones of a persona count once.
    """

    def __init__(self, split: AuditedSplit) -> None:
        self._split = split
        self.asked: dict[str, list[int]] = {ALL: []}
        # A number for a question and what the word does there: whole records of each would fill the memory.
        self._places: defaultdict[str, array[int]] = defaultdict(lambda: array("Q"))
        for index, row in _once(split):
            for slice_ in (ALL, row["question_type"]):
                self.asked.setdefault(slice_, []).append(index)
            for word, options, having, hit in _telling(row):
                self._places[word].append(((index * _MOST_OPTIONS + options) * _MOST_OPTIONS + having) * 2 + hit)

    def tested(self, slice_: str) -> list[_TestedWord]:
        """Return the words of a slice that stand in enough questions."""
        tested = []
        for word in sorted(self._places):
            occurrences = self.occurrences(slice_, word)
            if len(occurrences) >= FEWEST_QUESTIONS:
                tested.append(_TestedWord(p_value(occurrences), word))
        return tested

    def occurrences(self, slice_: str, word: str) -> list[Occurrence]:
        """Return the questions of a slice in which a word sets options apart."""
        places = self._places[word]
        if len(places) < FEWEST_QUESTIONS:
            return []
        found = []
        for place in places:
            rest, hit = divmod(place, 2)
            rest, having = divmod(rest, _MOST_OPTIONS)
            index, options = divmod(rest, _MOST_OPTIONS)
            if slice_ in (ALL, self._split.types[index]):
                found.append(
                    Occurrence(
                        self._split.question_ids[index],
                        self._split.personas[index],
                        self._split.topics[index],
                        having / options,
                        bool(hit),
                    )
                )
        return found


def cue_findings(split: AuditedSplit) -> list[Finding]:
    """Return how many words tell the right option, overall and for each question type.

    A word is looked at in the questions where it stands in some options and not in all. A question that is asked of
    one persona more than once, with the same options and the same answer, counts once. `p_value` tests each word with
    `FEWEST_QUESTIONS` or more, and the false discovery rate is held to `FALSE_DISCOVERY_RATE` in each slice (Benjamini
    and Hochberg 1995).

    Returns:
        `cue.words`, `all` first: the number of cue words of n words tested, and the strongest in the note. The
        examples are questions that the strongest one answers. Then `cue.any_word`: how likely chance is to make any
        word of a split as telling, which is the least of the adjusted p values (Simes 1986); 1 where none was tested.
    """
    words = _Words(split)
    personas = {slice_: len({split.personas[i] for i in own}) for slice_, own in words.asked.items()}
    tested = {slice_: words.tested(slice_) for slice_ in words.asked}
    findings = [_finding(split, slice_, own, personas[slice_], words) for slice_, own in tested.items()]
    return [*findings, _any_word(split, tested[ALL], personas[ALL])]


def p_value(occurrences: Sequence[Occurrence]) -> float:
    """Return how likely chance is to make a word's hits as many, or as few, as they are; two-sided.

    The largest of three, as each alone is too easily convinced:

    - Where every question is independent, hits are a sum of Bernoulli variables with the chances of the questions
      (Poisson-binomial); twice the smaller tail of that law, exact.
    - Where questions of a persona are not independent: t with C − 1 degrees of freedom for the mean of hit − chance,
      with its error clustered by persona. A word of one persona alone is no cue.
    - Clusters that are few may agree by luck, and then have no error at all. In the extreme, all questions of a
      persona about one topic agree (whoever likes chess likes it in each): U such pairs of persona and topic with mean
      chance q all hit with probability q^U at most, all miss with (1 − q)^U. Twice that is the least p.
    """
    chances = np.array([occurrence.chance for occurrence in occurrences])
    hits = np.array([occurrence.hit for occurrence in occurrences])
    law = _law(Counter(chances.tolist()))
    at_most, at_least = law[: hits.sum() + 1].sum(), law[hits.sum() :].sum()

    excess = hits - chances
    mean = float(excess.mean())
    personas = [occurrence.persona for occurrence in occurrences]
    error = standard_error(excess - mean, personas)
    if error is None or mean == 0:
        clustered = 1.0
    else:
        clustered = 2 * float(special.stdtr(len(set(personas)) - 1, -abs(mean) / error)) if error > 0 else 0.0

    pairs = len({(occurrence.persona, occurrence.topic) for occurrence in occurrences})
    agreement = float(chances.mean() if mean > 0 else 1 - chances.mean()) ** pairs
    return min(1.0, max(2 * float(min(at_most, at_least)), clustered, 2 * agreement))


def _once(split: AuditedSplit) -> Iterator[tuple[int, QuestionRow]]:
    """Yield each question of a persona once, with its index."""
    met: set[bytes] = set()
    for index, row in enumerate(split.rows):
        texts = option_texts(row)
        asked = [row["persona_id"], row["user_question_or_message"], sorted(texts), texts[row["answer_index"]]]
        key = hashlib.blake2b(json.dumps(asked).encode(), digest_size=16).digest()
        if key not in met:
            met.add(key)
            yield index, row


def _telling(row: QuestionRow) -> Iterator[tuple[str, int, int, bool]]:
    """Yield the words that some options have, how many there are and have it, and whether the right one does."""
    words = [frozenset(_WORD.findall(text.lower())) for text in option_texts(row)]
    right = words[row["answer_index"]]
    for word, count in Counter(word for own in words for word in own).items():
        if count < len(words):
            yield word, len(words), count, word in right


def _any_word(split: AuditedSplit, tested: Sequence[_TestedWord], personas: int) -> Finding:
    adjusted = stats.false_discovery_control([cue.p for cue in tested])
    least = float(min(adjusted, default=1.0))
    return Finding("cue.any_word", split.name, value=least, n=len(tested), clusters=personas, note="p value")


def _finding(split: AuditedSplit, slice_: str, tested: Sequence[_TestedWord], personas: int, words: _Words) -> Finding:
    adjusted = stats.false_discovery_control([cue.p for cue in tested])
    cues = sorted(cue for cue, p in zip(tested, adjusted, strict=True) if p <= FALSE_DISCOVERY_RATE)
    shown = [(cue.word, words.occurrences(slice_, cue.word)) for cue in cues[:EXAMPLES]]
    return Finding(
        check="cue.words",
        split=split.name,
        slice=slice_,
        value=float(len(cues)),
        n=len(tested),
        clusters=personas,
        examples=_answered(shown[0][1])[:EXAMPLES] if cues else (),
        note=f"the right option has {'; '.join(_rate(word, own) for word, own in shown)}" if cues else "",
    )


def _rate(word: str, occurrences: Sequence[Occurrence]) -> str:
    count = len(occurrences)
    rate = sum(occurrence.hit for occurrence in occurrences) / count
    chance = sum(occurrence.chance for occurrence in occurrences) / count
    return f'"{word}" in {100 * rate:.0f} % of {count} questions, by chance {100 * chance:.0f} %'


def _answered(occurrences: Sequence[Occurrence]) -> tuple[str, ...]:
    favours = sum(occurrence.hit - occurrence.chance for occurrence in occurrences) > 0
    return tuple(occurrence.question_id for occurrence in occurrences if occurrence.hit == favours)


def _law(counts: Mapping[float, int]) -> _Floats:
    """Return the probabilities of 0, 1, … hits, given how many questions have which chance."""
    law = np.ones(1)
    for chance, count in sorted(counts.items()):
        law = np.convolve(law, _binomial(count, chance))
    return law


@lru_cache(maxsize=4096)
def _binomial(count: int, chance: float) -> _Floats:
    law: _Floats = stats.binom.pmf(np.arange(count + 1), count, chance)
    return law
