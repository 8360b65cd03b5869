"""Cue words: words that tell the right option from the wrong ones, whatever the conversation says."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

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
    occurrences: Sequence[Occurrence]


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
    occurrences: dict[str, dict[str, list[Occurrence]]] = {ALL: defaultdict(list)}
    personas: dict[str, set[int]] = defaultdict(set)
    for row in _once(split.rows):
        own = occurrences.setdefault(row["question_type"], defaultdict(list))
        for slice_ in (ALL, row["question_type"]):
            personas[slice_].add(row["persona_id"])
        for word, occurrence in _occurrences(row):
            occurrences[ALL][word].append(occurrence)
            own[word].append(occurrence)
    tested = {slice_: _tested(words) for slice_, words in occurrences.items()}
    findings = [_finding(split, slice_, words, len(personas[slice_])) for slice_, words in tested.items()]
    return [*findings, _any_word(split, tested[ALL], len(personas[ALL]))]


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


def _once(rows: Sequence[QuestionRow]) -> list[QuestionRow]:
    seen: dict[tuple[Any, ...], QuestionRow] = {}
    for row in rows:
        texts = option_texts(row)
        answer = texts[row["answer_index"]]
        seen.setdefault((row["persona_id"], row["user_question_or_message"], tuple(sorted(texts)), answer), row)
    return list(seen.values())


def _occurrences(row: QuestionRow) -> Iterator[tuple[str, Occurrence]]:
    words = [frozenset(_WORD.findall(text.lower())) for text in option_texts(row)]
    right = words[row["answer_index"]]
    for word, count in Counter(word for own in words for word in own).items():
        if count < len(words):
            chance = count / len(words)
            yield word, Occurrence(row["question_id"], row["persona_id"], row.get("topic"), chance, word in right)


def _tested(words: Mapping[str, Sequence[Occurrence]]) -> list[_TestedWord]:
    return [
        _TestedWord(p_value(occurrences), word, occurrences)
        for word, occurrences in sorted(words.items())
        if len(occurrences) >= FEWEST_QUESTIONS
    ]


def _any_word(split: AuditedSplit, tested: Sequence[_TestedWord], personas: int) -> Finding:
    adjusted = stats.false_discovery_control([cue.p for cue in tested])
    least = float(min(adjusted, default=1.0))
    return Finding("cue.any_word", split.name, value=least, n=len(tested), clusters=personas, note="p value")


def _finding(split: AuditedSplit, slice_: str, tested: Sequence[_TestedWord], personas: int) -> Finding:
    adjusted = stats.false_discovery_control([cue.p for cue in tested])
    cues = sorted(cue for cue, p in zip(tested, adjusted, strict=True) if p <= FALSE_DISCOVERY_RATE)
    return Finding(
        check="cue.words",
        split=split.name,
        slice=slice_,
        value=float(len(cues)),
        n=len(tested),
        clusters=personas,
        examples=_answered(cues[0])[:EXAMPLES] if cues else (),
        note=f"the right option has {'; '.join(map(_rate, cues[:EXAMPLES]))}" if cues else "",
    )


def _rate(cue: _TestedWord) -> str:
    count = len(cue.occurrences)
    rate = sum(occurrence.hit for occurrence in cue.occurrences) / count
    chance = sum(occurrence.chance for occurrence in cue.occurrences) / count
    return f'"{cue.word}" in {100 * rate:.0f} % of {count} questions, by chance {100 * chance:.0f} %'


def _answered(cue: _TestedWord) -> tuple[str, ...]:
    favours = sum(occurrence.hit - occurrence.chance for occurrence in cue.occurrences) > 0
    return tuple(occurrence.question_id for occurrence in cue.occurrences if occurrence.hit == favours)


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
