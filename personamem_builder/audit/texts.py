"""Does the visible conversation hold an option word for word, or the persona's description an answer?"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from personamem_builder.audit.records import AuditedSplit, Finding, accuracy_findings, count_finding, not_made
from personamem_builder.policies import best_credit, word_list
from personamem_builder.schema import ContextRow, QuestionRow, option_texts

_END: Final = "end_index_in_shared_context"
_GOLD: Final = "text.gold_in_context"
_OPTION: Final = "text.option_in_context"
_PERSONA: Final = "text.persona_overlap"


class _Visible(NamedTuple):
    """What a question's part of its context shows of each of its options.

    Attributes:
        verbatim: Whether the option stands in a message word for word.
        persona_overlap: The weight of its words that system messages have.
        has_persona: Whether there are system messages.
    """

    verbatim: list[bool]
    persona_overlap: list[float]
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
    asked = split.asked
    words = {text: word_list(text) for row in split.rows for text in option_texts(row)}
    weights = _weights(list(words.values()))
    visible = [
        _Visible([False] * len(row["all_options"]), [0.0] * len(row["all_options"]), False) for row in split.rows
    ]
    for context in split.contexts():
        if own := asked.get(context["shared_context_id"]):
            shown = _shown([split.rows[index] for index in own], context, words, weights)
            for index, one in zip(own, shown, strict=True):
                visible[index] = one

    golds = [row["answer_index"] for row in split.rows]
    has_gold = [one.verbatim[gold] for one, gold in zip(visible, golds, strict=True)]
    wrong = sum(sum(one.verbatim) > gold for one, gold in zip(visible, has_gold, strict=True))
    by_option = [best_credit(one.verbatim, gold) for one, gold in zip(visible, golds, strict=True)]
    by_persona = [best_credit(one.persona_overlap, gold) for one, gold in zip(visible, golds, strict=True)]
    overall, *by_type = accuracy_findings(_OPTION, split, by_option)
    return [
        count_finding(_GOLD, split, [row["question_id"] for row, has in zip(split.rows, has_gold, strict=True) if has]),
        overall._replace(note=f"a wrong option stands there in {wrong} questions"),
        *by_type,
        *(
            accuracy_findings(_PERSONA, split, by_persona)
            if any(one.has_persona for one in visible)
            else not_made(split, "persona text", _PERSONA)
        ),
    ]


def _weights(options: Sequence[Sequence[str]]) -> dict[str, float]:
    frequency = Counter(word for words in options for word in set(words))
    return {word: math.log(len(options) / number) for word, number in frequency.items()}


def _shown(
    rows: Sequence[QuestionRow],
    context: ContextRow,
    words: Mapping[str, Sequence[str]],
    weights: Mapping[str, float],
) -> list[_Visible]:
    visible = context["messages"][: max(0, *(row[_END] for row in rows))]
    messages = [word_list(message["content"]) for message in visible]
    first = _first_places({text: words[text] for row in rows for text in option_texts(row)}, messages)
    described = [(at, frozenset(messages[at])) for at, message in enumerate(visible) if message["role"] == "system"]
    shown = []
    for row in rows:
        end, texts = row[_END], option_texts(row)
        persona: frozenset[str] = frozenset().union(*(told for at, told in described if at < end))
        shown.append(
            _Visible(
                verbatim=[text in first and first[text] < end for text in texts],
                # fsum: the order of a set is another one in every process.
                persona_overlap=[
                    math.fsum(weights[word] for word in persona.intersection(words[text])) for text in texts
                ],
                has_persona=bool(persona),
            )
        )
    return shown


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
