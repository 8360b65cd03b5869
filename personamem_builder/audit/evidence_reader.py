"""A rule-based reader: it sees the evidence messages, the texts of the options, and the words of the banks.

It sees no record of what happened and no state of an option: what it knows of the user it has read. If it answers every
question, then the evidence suffices.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence, Set
from functools import lru_cache
from typing import Final

from generation.banks.load import Banks
from generation.banks.topic import Slot, TopicBank
from generation.grammar import mentions, pattern
from generation.option_plans import stance_state
from generation.records import STANCES
from personamem_builder.audit.told_reader import Read as _Read
from personamem_builder.audit.told_reader import TopicTells, plain_words

Evidence = Sequence[tuple[str, str]]
"""The evidence messages in order, each with the topic of its session."""

STATE_TYPES: Final = (
    "acknowledge_latest_user_preferences",
    "track_full_preference_evolution",
    "provide_preference_aligned_recommendations",
)
"""Types whose options assert states of one preference."""

_REASONS: Final = "revisit_reasons_behind_preference_updates"
_STEP_STANCES: Final = {"a pleasure": "like", "a burden": "dislike"}
_STEPS: Final = re.compile("|".join(_STEP_STANCES))


_MESSAGES_KEPT: Final = 8192


class EvidenceReader:
    """Reads messages and options with the words of the banks.

    What it reads has the form of `option_states`: values, `like: item`, facts, reasons, motives.

    Args:
        banks: Those the questions were made with.
    """

    def __init__(self, banks: Banks) -> None:
        self._banks = banks
        self._advice = {scenario.domain: scenario.options for scenario in banks.scenarios.scenarios}
        # Many questions share a message, those of a context next to each other.
        self._read = lru_cache(maxsize=_MESSAGES_KEPT)(self._read_message)
        self._topic_tells: dict[str, TopicTells] = {}

    def knows(self, question_type: str, topic: str, evidence: Evidence) -> bool:
        """Say whether there are banks for all that a question speaks of."""
        # A new scenario lies outside all topics; a message of an unknown topic has it instead.
        own = [topic] if question_type == "generalize_to_new_scenarios" else []
        topics = self._banks.topics
        return (topic in self._advice if own else topic in topics) and all(t in topics or t in own for _, t in evidence)

    def recognises(self, topic: str, message: str) -> bool:
        """Say whether the user's message that asks a question is one of the banks' own."""
        return any(pattern(template).match(message) for template in self._queries(topic))

    def topics_named(self, message: str) -> list[str]:
        """Return the topics that a message calls by the name that the banks give them."""
        lower = message.lower()
        return [topic for topic, bank in self._banks.topics.items() if mentions(lower, bank.label.lower())]

    def answer(
        self, question_type: str, topic: str, message: str, options: Sequence[str], evidence: Evidence
    ) -> int | None:
        """Return the index of the option that answers a question by its evidence, None if the reader cannot decide."""
        if not self.knows(question_type, topic, evidence):
            return None
        asserted = [self._asserted(question_type, topic, option) for option in options]
        told = self.told(question_type, evidence, self.about(question_type, topic, message, asserted))
        chosen = [i for i, states in enumerate(asserted) if holds(question_type, states, told)]
        return chosen[0] if len(chosen) == 1 else None

    def about(self, question_type: str, topic: str, message: str, states: Iterable[Iterable[str]]) -> frozenset[str]:
        """Return what a question is about: what its options speak of, or what has changed if it asks for a reason.

        Args:
            question_type: One of the seven.
            topic: One that has a bank; of a question that generalizes also any other.
            message: Of the user who asks.
            states: What each option asserts.
        """
        asserted = [*states]
        named = subjects(asserted)
        if question_type == _REASONS:
            return self._values_of(topic, lambda slot: any(pattern(text).search(message) for text in slot.again))
        if question_type in STATE_TYPES and not all(asserted):
            # A generic option may stand in the place of what the user held before: evidence tells that too.
            return named | self._values_of(topic, lambda slot: any(value.phrase in named for value in slot.values))
        return named

    def _values_of(self, topic: str, is_asked: Callable[[Slot], bool]) -> frozenset[str]:
        slots = filter(is_asked, self._banks.topics[topic].slots)
        return frozenset(value.phrase for slot in slots for value in slot.values)

    def told(self, question_type: str, evidence: Evidence, about: Set[str]) -> tuple[str, ...]:
        """Return what the evidence says about a question of a type; all its topics have banks.

        Args:
            question_type: One of the seven.
            evidence: The messages.
            about: What the question is about (see `about`); a message may tell of other things too.
        """
        if question_type == "recall_user_shared_facts":
            return tuple(fact for text, topic in evidence for fact in self._read(text, topic).facts)
        if question_type == "suggest_new_ideas":
            return tuple(item for text, topic in evidence for item in self._read(text, topic).tried)
        if question_type == _REASONS:
            given = [reason for text, topic in evidence for reason in self._read(text, topic).reasons]
            return tuple(reason.told for reason in given if reason.of & about)[-1:]
        if question_type == "generalize_to_new_scenarios":
            messages = dict.fromkeys(evidence)  # one that tells two events stands there twice
            counts = Counter(reason.motive for text, topic in messages for reason in self._read(text, topic).reasons)
            return tuple(motive for motive, count in counts.items() if count == max(counts.values()))  # those that lead
        course = self.course(evidence, about)
        return course if question_type == "track_full_preference_evolution" else course[-1:]

    def own_states(self, text: str, topic: str) -> list[str]:
        """Return the values, the stances and the items tried that a message tells as the user's own."""
        read = self._read(text, topic)
        return [*read.values, *read.stances, *read.tried]

    def course(self, evidence: Evidence, about: Set[str]) -> tuple[str, ...]:
        """Return the states of some things that messages tell, one after the other; nothing if a message tells none."""
        states = [
            [state for state in self.own_states(text, topic) if subject(state) in about] for text, topic in evidence
        ]
        return tuple(own[0] for own in states) if all(len(own) == 1 for own in states) else ()

    def _queries(self, topic: str) -> list[str]:
        if topic in self._advice:  # at the start of the message
            return [text for s in self._banks.scenarios.scenarios if s.domain == topic for text in s.messages]
        if topic not in self._banks.topics:
            return []
        answers = self._banks.answers
        bank = self._banks.topics[topic]
        own = [text for slot in bank.slots for text in (*slot.queries, *slot.again, *slot.recommend_queries)]
        own += [*bank.item_queries, *bank.idea_queries, *(text for kind in bank.facts for text in kind.queries)]
        return [*own, *answers.item_evolution_queries]

    def _read_message(self, text: str, topic: str) -> _Read:
        """Return what a message says of the user: what it tells of others, of dropped plans and of the past is not."""
        topics = self._banks.topics
        found = _Read([], [], [], [], [])
        message = plain_words(text)
        for bank in [topics[topic]] if topic in topics else topics.values():
            self._tells(bank.id).read(message, found)
        return found

    def _tells(self, topic: str) -> TopicTells:
        if topic not in self._topic_tells:
            self._topic_tells[topic] = TopicTells(self._banks.topics[topic], self._banks.phrases)
        return self._topic_tells[topic]

    def _asserted(self, question_type: str, topic: str, option: str) -> tuple[str, ...]:
        """Return what an option asserts; nothing if that cannot be read."""
        lower = option.lower()
        if question_type == "generalize_to_new_scenarios":
            return tuple(motive for motive, advice in self._advice[topic].items() if advice.lower() in lower)
        bank = self._banks.topics[topic]
        if question_type == "recall_user_shared_facts":
            facts = (fact.recalled for kind in bank.facts for fact in kind.facts)
            return tuple(fact for fact in facts if fact.lower() in lower)
        if question_type == _REASONS:
            return tuple(reason.told for _, reason in bank.all_reasons() if reason.told.lower() in lower)
        if question_type == "provide_preference_aligned_recommendations":
            values = (value for slot in bank.slots for value in slot.values)
            return tuple(value.phrase for value in values if any(text.lower() in lower for text in value.recommend))
        items = _items(option, bank)
        if question_type == "suggest_new_ideas":
            return tuple(items)
        if not items:
            return tuple(_in_order(option, _values(bank)))
        if question_type == "track_full_preference_evolution":
            return tuple(stance_state(_STEP_STANCES[words], items[0]) for words in _STEPS.findall(lower))
        stances = self._banks.answers.stances
        likes = any(pattern(pair.like).search(option) for pair in stances)
        dislikes = any(pattern(pair.dislike).search(option) for pair in stances)
        return () if likes == dislikes else (stance_state("like" if likes else "dislike", items[0]),)


def holds(question_type: str, asserted: Sequence[str], told: Sequence[str]) -> bool:
    """Say whether an option answers a question: what it asserts in order, against what the evidence told in order."""
    if not asserted:
        return False
    if question_type == "suggest_new_ideas":
        return set(asserted).isdisjoint(told)
    if question_type in ("recall_user_shared_facts", "revisit_reasons_behind_preference_updates"):
        return not set(asserted).isdisjoint(told)
    return list(asserted) == list(told)


def subjects(states: Iterable[Iterable[str]]) -> frozenset[str]:
    """Return what the options of a question speak of, by the states that each asserts."""
    return frozenset(subject(state) for own in states for state in own)


def subject(state: str) -> str:
    """Return what a state speaks of: the item of a stance, or the value."""
    stance, colon, item = state.partition(": ")
    return item if colon and stance in STANCES else state


def _items(text: str, bank: TopicBank) -> list[str]:
    lower = text.lower()
    return [item.phrase for item in bank.items if mentions(lower, item.phrase.lower())]


def _values(bank: TopicBank) -> list[str]:
    return [value.phrase for slot in bank.slots for value in slot.values]


def _in_order(text: str, phrases: Sequence[str]) -> list[str]:
    """Return the phrases that stand in a text, in the order in which they stand there, repeats included."""
    lower = text.lower()
    found = []
    for phrase in phrases:
        if phrase.lower() in lower:
            places = re.finditer(rf"(?<!\w){re.escape(phrase.lower())}(?!\w)", lower)
            found += [(match.start(), phrase) for match in places]
    return [phrase for _, phrase in sorted(found)]
