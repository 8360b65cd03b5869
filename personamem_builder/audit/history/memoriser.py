"""A memoriser: a reader that has seen other datasets of the same kind, with their answers and their evidence.

It learns which phrases of messages stood for what options assert, and which phrases were kind; then it reads a history
as `polarity` does, with these beside the words of the options. Whatever a generator words alike for all users it knows
by heart.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

from generation.errors import UserError
from personamem_builder.audit.history.index import USER, HistoryIndex
from personamem_builder.audit.history.polarity import IDEAS, lexicon_tone, parted, polarity_values
from personamem_builder.audit.history.reading import Values
from personamem_builder.audit.history.words import Assertion, assertions, stem, tells
from personamem_builder.audit.inputs import read_splits
from personamem_builder.audit.records import AuditedSplit
from personamem_builder.schema import ContextRow, Message, QuestionRow

GENERALIZE: Final = "generalize_to_new_scenarios"

_WORD: Final = re.compile(r"\w+")
_LIKE_ENOUGH: Final = 0.5
"""An option is taken for one that was seen, if it has this share of the words of both in common with it."""
_TELLING: Final = 0.2
"""A phrase stands for a state if this share of the messages that have it told that state."""


class Memory:
    """What is learned from other datasets."""

    def __init__(self, splits: Sequence[AuditedSplit]) -> None:
        self._states: dict[frozenset[str], str] = {}
        self._with_stem: defaultdict[str, set[frozenset[str]]] = defaultdict(set)
        told: defaultdict[str, Counter[str]] = defaultdict(Counter)
        kindness: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
        everywhere: Counter[str] = Counter()
        for split in splits:
            self._learn(split, told, everywhere, kindness)
        self._phrases: defaultdict[str, list[tuple[str, float]]] = defaultdict(list)
        for phrase, states in told.items():
            for state, count in states.items():
                share = count / (max(everywhere[phrase], states.total()) + 1)
                if share >= _TELLING:
                    self._phrases[phrase].append((state, share))
        kind, unkind = kindness
        self._kind = {phrase: math.log((kind[phrase] + 1) / (unkind[phrase] + 1)) for phrase in {*kind, *unkind}}

    def _learn(
        self,
        split: AuditedSplit,
        told: defaultdict[str, Counter[str]],
        everywhere: Counter[str],
        kindness: tuple[Counter[str], Counter[str]],
    ) -> None:
        asked = split.asked
        for context in split.contexts() if split.contexts else ():
            rows = [split.rows[i] for i in asked.get(context["shared_context_id"], ())]
            stands_for: defaultdict[int, set[str]] = defaultdict(set)
            for row in rows:
                options = assertions(row)
                self._register(row, options)
                evidence = row["evidence_message_indices"]
                for i, state in _told(row, evidence):
                    stands_for[i].add(state)
                stance = parted(options)[1][row["answer_index"]]
                if stance and evidence:
                    for phrase in phrases(context["messages"][evidence[-1]]["content"]):
                        kindness[stance[-1] < 0][phrase] += 1
            for i, message in enumerate(context["messages"]):
                if message["role"] == USER:
                    found = phrases(message["content"])
                    everywhere.update(found)
                    for state in stands_for.get(i, ()):
                        for phrase in found:
                            told[phrase][state] += 1

    def _register(self, row: QuestionRow, options: Sequence[Assertion]) -> None:
        """Note which words of options stand for which states; of a course, its parts do."""
        for option, states in zip(options, row["option_states"], strict=True):
            keys = [option.stems] if len(states) == 1 else option.segments
            if len(keys) == len(states):
                for key, state in zip(keys, states, strict=True):
                    self._note(frozenset(key), subject(state))
            for state in states:
                self._note(frozenset(map(stem, _telling_words(subject(state)))), subject(state))

    def _note(self, key: frozenset[str], state: str) -> None:
        if key and key not in self._states:
            self._states[key] = state
            for one in key:
                self._with_stem[one].add(key)

    def state(self, stems: Collection[str]) -> str:
        """Return the state that some stems of an option stand for; empty where nothing like it was seen."""
        own = frozenset(stems)
        if own in self._states:
            return self._states[own]
        near = {key for one in own for key in self._with_stem.get(one, ())}
        likeness = max(((len(own & key) / len(own | key), sorted(key)) for key in near), default=(0.0, []))
        return self._states[frozenset(likeness[1])] if likeness[0] >= _LIKE_ENOUGH else ""

    def standing_for(self, text: str) -> dict[str, float]:
        """Return the states that the phrases of a message stand for, each with how surely, from 0 to 1."""
        doubt: dict[str, float] = {}
        for phrase in phrases(text):
            for state, share in self._phrases.get(phrase, ()):
                doubt[state] = doubt.get(state, 1.0) * (1 - share)
        return {state: round(1 - left, 9) for state, left in doubt.items()}

    def tone(self, text: str) -> float:
        """Return how kindly a few sentences speak: the log odds of their phrases, and what the lexicon says."""
        return math.fsum(self._kind.get(phrase, 0.0) for phrase in phrases(text)) + lexicon_tone(text)


def subject(state: str) -> str:
    """Return what a state is about: what follows a colon, as in `like: chess`, or all of it."""
    return state.rpartition(": ")[2]


def _telling_words(text: str) -> list[str]:
    return [word for word in _WORD.findall(text.lower()) if tells(word)]


def phrases(text: str) -> list[str]:
    """Return the distinct stems of a text, and its pairs of stems that follow one another but for stop words."""
    stems = [stem(word) for word in _telling_words(text)]
    return list(dict.fromkeys([*stems, *map(" ".join, pairwise(stems))]))


def _told(row: QuestionRow, evidence: Sequence[int]) -> Iterable[tuple[int, str]]:
    """Yield which message tells which state: of a course one each, else all what the right option asserts."""
    states = row["option_states"][row["answer_index"]]
    if row["question_type"] == IDEAS or not evidence:  # what is new was not told
        return
    if len(states) == len(evidence):
        yield from zip(evidence, map(subject, states), strict=True)
    elif row["question_type"] == GENERALIZE:
        yield from ((i, subject(states[-1])) for i in evidence)
    else:
        yield evidence[-1], subject(states[-1])


def learn(paths: Sequence[Path]) -> Memory:
    """Learn from runs or dataset folders; of a folder from the split with most questions.

    Raises:
        UserError: One has nothing to learn from: it cannot be read, or does not say what its options assert.
    """
    splits = [max(read_splits(path), key=lambda split: len(split.rows)) for path in paths]
    for path, split in zip(paths, splits, strict=True):
        if not split.is_generated or split.contexts is None or split.lacking("evidence_message_indices"):
            raise UserError(
                f"{path} says neither what its options assert nor where its evidence stands",
                "give a run of `personamem generate`, or a dataset folder that was built from one",
            )
    return Memory(splits)


class _RememberingIndex(HistoryIndex):
    """An index whose shares of words count phrases that stand for the same as if they were the words."""

    def __init__(self, messages: Sequence[Message], stems: Collection[str], memory: Memory) -> None:
        super().__init__(messages, stems)
        self._memory = memory
        self._standing: defaultdict[str, dict[int, float]] = defaultdict(dict)
        for i, message in enumerate(messages):
            if message["role"] == USER:
                for state, share in memory.standing_for(message["content"]).items():
                    self._standing[state][i] = share

    def remembered(self, stems: Sequence[str], end: int) -> dict[int, float]:
        """Return how surely each message of the user before `end` stands for what some stems stand for."""
        standing = self._standing.get(self._memory.state(stems), {})
        return {i: share for i, share in standing.items() if i < end}

    def shares(self, stems: Sequence[str], end: int, role: str = USER) -> dict[int, float]:
        shares = super().shares(stems, end, role)
        if role == USER:
            for i, share in self.remembered(stems, end).items():
                shares[i] = max(share, shares.get(i, 0.0))
        return shares


def memoriser_values(
    rows: Sequence[QuestionRow],
    options: Sequence[Sequence[Assertion]],
    asked: Sequence[Sequence[str]],
    context: ContextRow,
    memory: Memory,
) -> list[Values]:
    """Return what the memoriser gives to each option of the questions of a context.

    Args:
        rows: The questions.
        options: What the options of each assert.
        asked: The telling stems of each question.
        context: Their context.
        memory: What was learned.
    """
    end = max(row["end_index_in_shared_context"] for row in rows)
    stems = {stem for own in options for option in own for stem in option.stems}
    index = _RememberingIndex(context["messages"][:end], stems.union(*asked), memory)
    return [_values(index, row, own, words, memory) for row, own, words in zip(rows, options, asked, strict=True)]


def _values(
    index: _RememberingIndex, row: QuestionRow, options: Sequence[Assertion], asked: Sequence[str], memory: Memory
) -> Values:
    end = row["end_index_in_shared_context"]
    if row["question_type"] == GENERALIZE:
        # What moves a user shows in many messages, and in none by its name.
        return [(round(math.fsum(index.remembered(option.stems, end).values()), 9),) for option in options]
    return polarity_values(row["question_type"], index, options, asked, end, memory.tone)
