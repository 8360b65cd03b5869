"""Does the visible conversation hold an option word for word, or the persona's description an answer?"""

from __future__ import annotations

import hashlib
import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from personamem_builder.audit.records import AuditedSplit, Finding, accuracy_findings, count_finding, not_made
from personamem_builder.policies import best_credit, word_list
from personamem_builder.schema import ContextRow, QuestionRow, option_texts

_END: Final = "end_index_in_shared_context"
_GOLD: Final = "text.gold_in_context"
_OPTION: Final = "text.option_in_context"
_PERSONA: Final = "text.persona_overlap"


class _Shown(NamedTuple):
    """What becomes of a question by what its part of its context shows.

    Attributes:
        has_gold: Whether the right option stands in a message word for word.
        has_wrong: Whether a wrong one does.
        by_option: The credit of the rule that prefers an option which stands there.
        by_persona: The credit of the rule that prefers the words of the system messages.
        has_persona: Whether there are system messages.
    """

    has_gold: bool
    has_wrong: bool
    by_option: float
    by_persona: float
    has_persona: bool


def text_findings(split: AuditedSplit) -> list[Finding]:
    """Return how far answers stand in what a question shows of its context: `messages[:end_index]`.

    - `text.gold_in_context`: questions whose right option stands word for word in one of these messages. Case,
      punctuation and white space do not count.
    - `text.option_in_context`: how often the rule is right that prefers options which stand there. Where none does,
      all share the credit.
    - `text.persona_overlap`: how often the rule is right that prefers the option which shares most words with the
      system messages, where the persona is described. A word that k of the N distinct options have weighs log(N / k).

    A question whose context is missing shows nothing.

    Returns:
        The findings, or what they need where the source has no contexts, no end indices or no system messages. The
        contexts are read once, one at a time.
    """
    if split.contexts is None or split.lacking(_END):
        return not_made(split, "contexts" if split.contexts is None else _END, _GOLD, _OPTION, _PERSONA)
    weights = _weights(split)
    credits_ = {check: array("d", split.chances) for check in (_OPTION, _PERSONA)}
    with_gold: list[int] = []
    wrong, has_persona = 0, False
    for context in split.contexts():
        if own := split.asked.get(context["shared_context_id"]):
            for index, one in zip(own, _shown([split.rows[index] for index in own], context, weights), strict=True):
                credits_[_OPTION][index], credits_[_PERSONA][index] = one.by_option, one.by_persona
                with_gold += [index] if one.has_gold else []
                wrong += one.has_wrong
                has_persona |= one.has_persona

    overall, *by_type = accuracy_findings(_OPTION, split, credits_[_OPTION])
    return [
        count_finding(_GOLD, split, [split.question_ids[i] for i in sorted(with_gold)]),
        overall._replace(note=f"a wrong option stands there in {wrong} questions"),
        *by_type,
        *(
            accuracy_findings(_PERSONA, split, credits_[_PERSONA])
            if has_persona
            else not_made(split, "persona text", _PERSONA)
        ),
    ]


def _weights(split: AuditedSplit) -> dict[str, float]:
    """Return the weight of each word: log(N / k), where k of the N distinct options have it."""
    met: set[bytes] = set()  # the texts of all options would fill the memory
    frequency: Counter[str] = Counter()
    for row in split.rows:
        for text in option_texts(row):
            key = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
            if key not in met:
                met.add(key)
                frequency.update(set(word_list(text)))
    return {word: math.log(len(met) / number) for word, number in frequency.items()}


def _shown(rows: Sequence[QuestionRow], context: ContextRow, weights: Mapping[str, float]) -> Iterator[_Shown]:
    visible = context["messages"][: max(0, *(row[_END] for row in rows))]
    messages = [word_list(message["content"]) for message in visible]
    words = {text: word_list(text) for row in rows for text in option_texts(row)}
    first = _first_places(words, messages)
    described = [(at, frozenset(messages[at])) for at, message in enumerate(visible) if message["role"] == "system"]
    for row in rows:
        end, texts, gold = row[_END], option_texts(row), row["answer_index"]
        persona: frozenset[str] = frozenset().union(*(told for at, told in described if at < end))
        verbatim = [text in first and first[text] < end for text in texts]
        # fsum: the order of a set is another one in every process.
        overlap = [math.fsum(weights[word] for word in persona.intersection(words[text])) for text in texts]
        yield _Shown(
            has_gold=verbatim[gold],
            has_wrong=sum(verbatim) > verbatim[gold],
            by_option=best_credit(verbatim, gold),
            by_persona=best_credit(overlap, gold),
            has_persona=bool(persona),
        )


def _first_places(options: Mapping[str, Sequence[str]], messages: Sequence[Sequence[str]]) -> dict[str, int]:
    """Return the index of the first message in which each option stands; options that stand nowhere are absent.

    An option is compared only where its rarest word stands, so that the time is about that of one pass over the
    words of the messages, however many options there are.
    """
    counts = Counter(word for words in messages for word in words)
    by_rarest: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
    for text, words in options.items():
        if words:
            place = min(range(len(words)), key=lambda i: counts[words[i]])
            by_rarest[words[place]].append((text, place))
    first: dict[str, int] = {}
    for index, words in enumerate(messages):
        for at, word in enumerate(words):
            for text, place in by_rarest.get(word, ()):
                start, own = at - place, options[text]
                if text not in first and start >= 0 and words[start : start + len(own)] == own:
                    first[text] = index
    return first
